#include "dsrv/calls/schedules.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/definitions.h"
#include "dsrv/calls/method.h"
#include "dsrv/engine/compile.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/when/check.h"
#include "fsm/yaml/definitions.h"
#include "fsm/yaml/places.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"

namespace dfsmr {
namespace {

constexpr size_t kUpcoming = 5;
constexpr size_t kLookedAt = 1'000;  // schedules for one page, which filters leave out

void See(Engine& engine, const std::string& ns, Seen* seen) {
  seen->now = engine.now();
  seen->counts = engine.launcher().CountsIn(ns);
}

Result<std::optional<Overlap>> ToOverlap(const std::string& word) {
  if (word.empty()) return std::optional<Overlap>();
  const auto found = std::ranges::find(kOverlapWords, std::string_view(word));
  if (found != kOverlapWords.end()) {
    return std::optional(static_cast<Overlap>(found - kOverlapWords.begin()));
  }
  return Bad("overlap is " + Quoted(word) + Hint(word, kOverlapWords) +
             "; there are allow, wait, latest, skip, cancel and replace");
}

}  // namespace

// Lists -------------------------------------------------------------------------------------------

Result<ListSchedulesCommand> ParseListSchedules(const v1::ListSchedulesRequest& request,
                                                const Call& call) {
  ListSchedulesCommand command;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  if (!v1::Schedule::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of schedules");
  }
  if (auto named = CheckFilter("machine", request.machine()); !named) return named.error();
  command.filters = *ns + '\n' + std::to_string(request.state()) + '\n' + request.machine();
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.ns = *std::move(ns);
  command.state = request.state();
  command.machine = request.machine();
  command.limit = *limit;
  command.after = *std::move(after);
  command.zones = call.backend().zones;
  return command;
}

Result<Ok> SettleListSchedules(Engine& engine, const Caller&, const ListSchedulesCommand& command) {
  See(engine, command.ns, command.seen.get());
  return engine.Settle(command.ns, "");
}

Result<Ok> ReadListSchedules(const Reader& reader, const ListSchedulesCommand& command,
                             v1::ListSchedulesResponse* reply) {
  const Moment moment(reader);
  std::vector<std::string> names;
  bool more = false;
  auto scanned =
      rows::ScanDocuments(moment.rows, command.ns, DocumentKind::kSchedule, command.after,
                          [&](std::string_view name, const rows::DocumentHead& head) {
                            if (head.deleted && !head.retired) return true;
                            if (names.size() == kLookedAt) more = true;
                            if (!more) names.emplace_back(name);
                            return !more;
                          });
  if (!scanned) return scanned;
  size_t bytes = 0;
  std::string last = command.after;
  for (const std::string& name : names) {
    v1::Schedule shown;
    auto read = ShowSchedule(moment, command.zones, *command.seen,
                             {command.ns, DocumentKind::kSchedule, name}, 0, 0, &shown);
    if (!read) return read;
    const bool other_state =
        command.state != v1::Schedule::STATE_UNSPECIFIED && shown.state() != command.state;
    const bool other_machine = !command.machine.empty() && shown.machine() != command.machine;
    if (other_state || other_machine) {
      last = name;
      continue;
    }
    bytes += shown.ByteSizeLong();
    const size_t size = static_cast<size_t>(reply->schedules_size());
    if (size == command.limit || (size > 0 && bytes > kReplyBytes)) {
      more = true;
      break;
    }
    *reply->add_schedules() = std::move(shown);
    last = name;
  }
  if (more) reply->set_next_page_token(PageToken(command.filters, last));
  return Ok{};
}

Result<GetScheduleCommand> ParseGetSchedule(const v1::GetScheduleRequest& request,
                                            const Call& call) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto named = Required("name", request.name()); !named) return named.error();
  return GetScheduleCommand{*std::move(ns), request.name(), request.version(),
                            call.backend().zones};
}

Result<Ok> SettleGetSchedule(Engine& engine, const Caller&, const GetScheduleCommand& command) {
  See(engine, command.ns, command.seen.get());
  return engine.Settle(command.ns, "");
}

Result<Ok> ReadGetSchedule(const Reader& reader, const GetScheduleCommand& command,
                           v1::Schedule* reply) {
  return ShowSchedule(Moment(reader), command.zones, *command.seen,
                      {command.ns, DocumentKind::kSchedule, command.name}, command.version,
                      kUpcoming, reply);
}

// Previews ----------------------------------------------------------------------------------------

namespace {

// One preview on its way: the pool reads the document, the loop tells the time and what is defined,
// and the pool works the times out.
class Preview : public std::enable_shared_from_this<Preview> {
 public:
  Preview(Call& call, const v1::PreviewScheduleRequest& request, v1::PreviewScheduleResponse* reply,
          std::string ns, std::optional<Timestamp> after)
      : call_(call), request_(request), reply_(reply), ns_(std::move(ns)), after_(after) {}

  void Begin() {
    PostFor(call_, request_.ByteSizeLong(), [self = shared_from_this()](Engine& engine) {
      self->now_ = engine.now();
      self->under_ = engine.DefinitionsOf(self->ns_);
      engine.AfterCommit([self] {
        self->call_.backend().pool.Post(
            [self] { self->request_.source().empty() ? self->OfName() : self->OfSource(); });
      });
    });
  }

 private:
  void OfName() {
    const Moment moment(call_.backend().reader);
    const rows::DocumentName name{ns_, DocumentKind::kSchedule, request_.name()};
    auto stored = ReadDocumentOf(moment, call_.backend().zones, name, 0);
    if (!stored) return call_.Fail(stored.error());
    auto state = rows::GetScheduleState(moment.rows, ns_, request_.name());
    if (!state) return call_.Fail(state.error());
    const rows::ScheduleState known = state->value_or(rows::ScheduleState());
    Show(stored->document, known.last_time, known.last_success);
  }

  void OfSource() {
    const Parsed parsed = ParseDefinitions(request_.source(), "source", call_.backend().zones);
    if (!parsed.ok()) return RefuseSource(call_, parsed.diagnostics);
    const bool one = parsed.definitions.empty() && parsed.documents.size() == 1 &&
                     parsed.documents.front().kind() == DocumentKind::kSchedule;
    if (!one) return call_.Fail(Bad("source is to be one document 'schedule: NAME'"));
    const Document& document = parsed.documents.front();
    std::vector<PlanProblem> problems;
    CheckDocument(document, under_->definitions, now_, &problems);
    Reporter reporter("source");
    for (const PlanProblem& problem : problems) {
      Written written = PlaceOf(problem, *parsed.tree);
      if (!problem.warning) {
        reporter.Error(written.at, std::move(written.path), problem.message);
      }
    }
    if (reporter.errors() > 0) return RefuseSource(call_, std::move(reporter).Take());
    const ScheduleSource& source = *std::get<0>(document.body);
    // As if it were defined now.
    const Timestamp last =
        source.rules.count ? source.calendar->LastOfCount(now_ + Duration(1)) : kNever;
    Show(document, last, std::nullopt);
  }

  void Show(const Document& document, Timestamp last, std::optional<Timestamp> last_success) {
    const ScheduleSource& source = *std::get<0>(document.body);
    const ScheduleTimes times(*source.calendar, ns_, document.name, last);
    const int count = request_.count() == 0 ? 10 : std::min(request_.count(), 1'000);
    reply_->set_summary(Summary(source.rules));
    const auto planned = times.Plan(after_.value_or(now_), static_cast<size_t>(count));
    for (const PlannedTime& one : planned) ToProto(one, reply_->add_times());
    if (!planned.empty() && source.launch.start()) {
      const Timestamp time = planned.front().time;
      ScheduleMoment moment =
          MomentOf(times, document.name, OccurrenceKind::kRegular, time, source.calendar->zone());
      moment.last_success = last_success;
      auto args = Launcher::Fill({.ns = ns_,
                                  .cause = CauseOf(DocumentKind::kSchedule, document.name),
                                  .source = source.launch,
                                  .resolve = ResolverOf(std::move(moment)),
                                  .default_id = document.name + "-" + StampText(time),
                                  .time = time});
      if (args) ToProto(*args, reply_->mutable_start());
    }
    call_.Succeed();
  }

  Call& call_;
  const v1::PreviewScheduleRequest& request_;
  v1::PreviewScheduleResponse* const reply_;
  const std::string ns_;
  const std::optional<Timestamp> after_;
  Timestamp now_;
  std::shared_ptr<const DefinitionSet> under_;
};

}  // namespace

void ServePreviewSchedule(Call& call, const v1::PreviewScheduleRequest& request,
                          v1::PreviewScheduleResponse* reply) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return call.Refuse(ns.error());
  if (request.name().empty() == request.source().empty()) {
    return call.Refuse(Bad("exactly one of name and source is to be given"));
  }
  if (request.count() < 0) return call.Refuse(Bad("count must not be negative"));
  if (request.source().size() > limits::kSource) {
    return call.Refuse(TooLarge("the source", request.source().size(), limits::kSource));
  }
  std::optional<Timestamp> after;
  if (request.has_after()) {
    auto given = ToTimestamp("after", request.after());
    if (!given) return call.Refuse(given.error());
    after = *given;
  }
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  std::make_shared<Preview>(call, request, reply, *std::move(ns), after)->Begin();
}

// By hand -----------------------------------------------------------------------------------------

Result<RunScheduleCommand> ParseRunSchedule(const v1::RunScheduleRequest& request,
                                            const Call& call) {
  call.caller().On(request.name(), "run");
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return Required("name", request.name()); },
                     [&] { return CheckJson("params", request.params()); });
  if (!checked) return checked.error();
  auto overlap = ToOverlap(request.overlap());
  if (!overlap) return overlap.error();
  RunScheduleCommand command{.ns = *std::move(ns),
                             .name = request.name(),
                             .params = request.params(),
                             .overlap = *overlap,
                             .time = {},
                             .trace = ReadTraceparent(call.Traceparent())};
  if (request.has_time()) {
    auto time = ToTimestamp("time", request.time());
    if (!time) return time.error();
    command.time = *time;
  }
  return command;
}

Result<Occurrence> RunRunSchedule(Engine& engine, const Caller&, RunScheduleCommand& command) {
  auto ran = engine.schedules().Run({.ns = command.ns,
                                     .name = command.name,
                                     .params = command.params,
                                     .overlap = command.overlap,
                                     .time = command.time,
                                     .trace = command.trace});
  if (ran) command.standing = engine.StandingOf(command.ns, ran->instance);
  return ran;
}

void ReplyRunSchedule(const Occurrence& occurrence, const RunScheduleCommand& command,
                      v1::Occurrence* reply) {
  ToProto({command.ns, DocumentKind::kSchedule, command.name}, occurrence, reply);
  if (command.standing) ShowStanding(command.standing->first, command.standing->second, reply);
}

}  // namespace dfsmr
