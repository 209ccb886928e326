#include "dsrv/calls/backfills.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "dsrv/calls/method.h"
#include "dsrv/engine/backfills.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/groups.h"
#include "dsrv/wire/schedules.h"
#include "fsm/base/names.h"
#include "fsm/when/written_time.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kAgainWords = {"", "failed", "all"};
constexpr int kTimesShown = 1'000;
constexpr uint64_t kTimesLookedAt = 1'000'000;  // times of a range, also those that will not run
constexpr uint32_t kRunningMax = 1'000'000;

Result<BackfillArgs> ToArgs(const v1::BackfillScheduleRequest& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto named = Required("name", request.name()); !named) return named.error();
  const auto again = std::ranges::find(kAgainWords, std::string_view(request.again()));
  if (again == kAgainWords.end()) {
    return Bad("again is " + Quoted(request.again()) + Hint(request.again(), kAgainWords) +
               "; there are failed, all, and nothing at all");
  }
  if (!request.group().empty()) {
    if (auto group = CheckGroup(request.group()); !group) return group.error();
  }
  BackfillArgs args{.ns = *std::move(ns), .name = request.name()};
  args.again = static_cast<Again>(again - kAgainWords.begin());
  args.reverse = request.reverse();
  args.group = request.group();
  args.max_running = request.has_max_running() ? request.max_running() : 1;
  if (*args.max_running > kRunningMax) {
    return Bad("max_running is at most " + std::to_string(kRunningMax));
  }
  if (request.has_priority()) args.priority = request.priority();
  return args;
}

// The range's ends, in the schedule's zone.
Result<Ok> SetRange(const v1::BackfillScheduleRequest& request, const Zone& zone, Timestamp now,
                    BackfillArgs* args) {
  auto read = [](std::string_view what, const std::string& text) -> Result<WrittenTime> {
    if (text.empty()) return Bad(std::string(what) + " is missing");
    auto moment = ParseTimeText(text);
    if (!moment) return Bad(std::string(what) + ": " + moment.error().message);
    return moment;
  };
  auto from = read("from_time", request.from_time());
  if (!from) return from.error();
  auto to = read("to_time", request.to_time());
  if (!to) return to.error();
  args->from = from->Begin(zone);
  args->to = to->End(zone);
  if (args->to < args->from) return Bad("to_time is before from_time");
  if (to->Begin(zone) > now) {
    return Bad("to_time is in the future: a backfill runs times that have passed");
  }
  args->to = std::min(args->to, now);
  return Ok{};
}

// One backfill on its way: the loop tells the time, the pool counts what will run, and the loop
// makes the group.
class BackfillCall : public std::enable_shared_from_this<BackfillCall> {
 public:
  BackfillCall(Call& call, const v1::BackfillScheduleRequest& request,
               v1::BackfillScheduleResponse* reply, BackfillArgs args)
      : call_(call), request_(request), reply_(reply), args_(std::move(args)) {}

  void Begin() {
    PostFor(call_, request_.ByteSizeLong(), [self = shared_from_this()](Engine& engine) {
      self->now_ = engine.now();
      auto settled = engine.Settle(self->args_.ns, "");
      engine.AfterCommit([self, settled] {
        if (!settled) return self->call_.Fail(settled.error());
        self->call_.backend().pool.Post([self] { self->Look(); });
      });
    });
  }

 private:
  void Look() {
    auto looked = Count();
    if (!looked) return call_.Fail(looked.error());
    if (request_.dry_run()) return call_.Succeed();
    PostFor(call_, 0, [self = shared_from_this()](Engine& engine) {
      auto may = engine.MayChange(self->args_.ns);
      auto made = may ? engine.backfills().Begin(self->args_) : Result<GroupView>(may.error());
      engine.AfterCommit([self, made = std::move(made)] {
        if (!made) return self->call_.Fail(made.error());
        ToProto(*made, self->reply_->mutable_group());
        self->call_.Succeed();
      });
    });
  }

  Result<Ok> Count() {
    const Moment moment(call_.backend().reader);
    auto stored = ReadDocumentOf(moment, call_.backend().zones,
                                 {args_.ns, DocumentKind::kSchedule, args_.name}, 0);
    if (!stored) return stored.error();
    auto state = rows::GetScheduleState(moment.rows, args_.ns, args_.name);
    if (!state) return state.error();
    const ScheduleSource& source = *std::get<0>(stored->document.body);
    if (auto range = SetRange(request_, source.calendar->zone(), now_, &args_); !range) {
      return range;
    }
    args_.version = stored->version;
    const ScheduleTimes times(*source.calendar, args_.ns, args_.name,
                              *state ? (*state)->last_time : kNever);
    auto run = [&](const std::string& id) -> Result<std::optional<FormerRun>> {
      auto instance = rows::GetInstance(moment.RowsOf(args_.ns, id), {args_.ns, id}, moment.resolve);
      if (instance) return std::optional(FormerRun{instance->Stopped(), instance->result});
      if (instance.error().code == Code::kNotFound) return std::optional<FormerRun>();
      return instance.error();
    };
    const Former former{
        run, [&](Timestamp time) {
          return rows::WasSent(moment.rows, {args_.ns, DocumentKind::kSchedule, args_.name}, time);
        }};
    auto next = [&](Timestamp after) {
      return args_.reverse ? times.Previous(after).value_or(kNever) : times.Next(after);
    };
    uint64_t looked_at = 0;
    for (Timestamp time = next(args_.reverse ? args_.to + Duration(1) : args_.from - Duration(1));
         time != kNever && time >= args_.from && time <= args_.to; time = next(time)) {
      auto suffix = SuffixOf(source, times, args_.name, time, args_.again, former);
      if (!suffix) return suffix.error();
      if (!*suffix) reply_->set_existing(reply_->existing() + 1);
      if (*suffix) Note(times, time);
      if (args_.total > Backfills::kTimes || ++looked_at > kTimesLookedAt) {
        return Error{Code::kInvalidArgument, Reason::kTooLarge,
                     "the range has more than " + std::to_string(Backfills::kTimes) +
                         " times to run; choose a shorter one"};
      }
    }
    reply_->set_total(args_.total);
    return Ok{};
  }

  void Note(const ScheduleTimes& times, Timestamp time) {
    ++args_.total;
    if (!request_.dry_run() || reply_->times_size() >= kTimesShown) return;
    PlannedTime planned = times.Planned(time);
    planned.begin = time;  // without jitter
    ToProto(planned, reply_->add_times());
  }

  Call& call_;
  const v1::BackfillScheduleRequest& request_;
  v1::BackfillScheduleResponse* const reply_;
  BackfillArgs args_;
  Timestamp now_;
};

}  // namespace

void ServeBackfillSchedule(Call& call, const v1::BackfillScheduleRequest& request,
                           v1::BackfillScheduleResponse* reply) {
  call.caller().On(request.name(), request.dry_run() ? "dry run" : "backfill");
  auto args = ToArgs(request);
  if (!args) return call.Refuse(args.error());
  args->client = call.Peer();
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  std::make_shared<BackfillCall>(call, request, reply, *std::move(args))->Begin();
}

}  // namespace dfsmr
