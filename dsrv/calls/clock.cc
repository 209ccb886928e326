#include "dsrv/calls/clock.h"

#include <google/protobuf/util/time_util.h>

#include "dsrv/calls/method.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/duration.h"

namespace dfsmr {
namespace {

constexpr Timestamp kLast{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}};

Error NotVirtual() {
  return {Code::kFailedPrecondition, Reason::kNotVirtual,
          "the server's clock is the machine's, and goes by itself; only a server that was started "
          "with --virtual-clock TIME, on a data directory of its own, can be told to advance"};
}

std::string TimeText(Timestamp time) {
  return google::protobuf::util::TimeUtil::ToString(
      google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(Micros(time)));
}

// The same day and time of day, or the last day of February.
Timestamp TenYearsAfter(Timestamp time) {
  using namespace std::chrono;  // NOLINT: this is about nothing else
  const auto day = floor<days>(time);
  year_month_day later = year_month_day(day) + years(10);
  if (!later.ok()) later = later.year() / later.month() / last;
  return sys_days(later) + (time - day);
}

// Exactly one of the three; what does not depend on where the clock stands.
Result<Ok> CheckAdvance(const v1::AdvanceClockRequest& request) {
  if (request.has_by() + request.has_to() + request.to_next() != 1) {
    return Bad("exactly one of by, to and to_next says how far the clock is to advance");
  }
  if (request.has_by()) {
    auto by = ToDuration("by", request.by(), kDurationMax);
    if (!by) return by.error();
  }
  if (request.has_to()) {
    auto to = ToTimestamp("to", request.to());
    if (!to) return to.error();
  }
  return Ok{};
}

void Show(Timestamp time, Timestamp next_due, v1::Clock* reply) {
  ToProto(time, reply->mutable_time());
  reply->set_is_virtual(true);
  if (next_due != kNever) ToProto(next_due, reply->mutable_next_due());
}

}  // namespace

Result<GetClockCommand> ParseGetClock(const v1::GetClockRequest&, const Call& call) {
  return GetClockCommand{call.backend().clock()};
}

Result<ClockReading> RunGetClock(Engine& engine, const Caller&, GetClockCommand& command) {
  if (!engine.has_virtual_clock()) return ClockReading{command.now};
  return ClockReading{engine.clock(), true, engine.NextEvent()};
}

void ReplyGetClock(const ClockReading& reading, const GetClockCommand&, v1::Clock* reply) {
  if (reading.is_virtual) return Show(reading.time, reading.next_due, reply);
  ToProto(reading.time, reply->mutable_time());
}

Result<Timestamp> TargetOf(const v1::AdvanceClockRequest& request, Timestamp now,
                           Timestamp next_due) {
  Timestamp target = next_due == kNever ? now : next_due;
  if (request.has_by()) target = After(now, *ToDuration("by", request.by(), kDurationMax));
  if (request.has_to()) target = *ToTimestamp("to", request.to());
  if (target < now) {
    return Bad("the clock stands at " + TimeText(now) + ", and never goes back to " +
               TimeText(target));
  }
  const Timestamp latest = std::min(TenYearsAfter(now), kLast);
  if (target > latest) {
    return Bad("the clock stands at " + TimeText(now) + ", and advances by at most ten years a " +
               "call: to " + TimeText(latest));
  }
  return target;
}

void ServeAdvanceClock(Call& call, const v1::AdvanceClockRequest& request, v1::Clock* reply) {
  Loop& loop = call.backend().loop;
  if (!loop.has_virtual_clock()) return call.Fail(NotVirtual());
  auto checked = CheckAdvance(request);
  if (!checked) return call.Refuse(checked.error());
  if (!call.Enter()) return;
  call.caller().On("clock", request.ShortDebugString());
  Loop::Advance advance;
  advance.target = [&request](Engine& engine) {
    return TargetOf(request, engine.clock(), engine.NextEvent());
  };
  advance.done = [&call, reply](const Result<Loop::Arrival>& arrival) {
    if (!arrival) return call.Fail(arrival.error());
    Show(arrival->time, arrival->next_due, reply);
    reply->set_timers(arrival->timers);
    call.Succeed();
  };
  PostFor(call, request.ByteSizeLong(),
          [&loop, advance = std::move(advance)](Engine&) { loop.AdvanceClock(advance); });
}

}  // namespace dfsmr
