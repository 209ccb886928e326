#include "dcli/commands/clock.h"

#include <google/protobuf/util/time_util.h>

#include "dcli/commands/commands.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace {

// As it is written: without a fraction unless there is one.
std::string Text(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

int ShowClock(Context& context, const v1::Clock& clock) {
  if (!context.Print(clock)) context.out << Text(clock.time()) << '\n';
  return kSucceeded;
}

Result<Ok> CheckUsage(const ClockOptions& options) {
  if (!options.action.empty() && options.action != "advance") {
    return BadUsage("clock does not know \"" + options.action + "\"" +
                    DidYouMean(options.action, {"advance"}));
  }
  const int ways = int{!options.by.empty()} + int{!options.to.empty()} + int{options.next};
  if (ways == 1) return Ok{};
  return BadUsage(ways == 0 ? "clock advance needs DURATION, --to TIME or --next"
                            : "clock advances by DURATION, --to TIME or --next: say one of them");
}

Result<v1::AdvanceClockRequest> RequestOf(Context& context, const ClockOptions& options) {
  v1::AdvanceClockRequest request;
  if (options.next) request.set_to_next(true);
  if (!options.by.empty()) {
    const auto by = ParseDuration(options.by);
    if (!by) return by.error();
    *request.mutable_by() = ToProto(*by);
  }
  if (!options.to.empty()) {
    const auto to = ParseServerTime(context, options.to);
    if (!to) return to.error();
    *request.mutable_to() = ToProto(*to);
  }
  return request;
}

}  // namespace

void LookByServerTime(Context& context) {
  const auto clock = context.client->schedules().GetClock(v1::GetClockRequest());
  if (clock && clock->is_virtual()) context.look.now = FromProto(clock->time());
}

Result<Timestamp> ParseServerTime(Context& context, std::string_view text) {
  if (text.starts_with('+')) LookByServerTime(context);
  return ParseTime(text, context.look.now);
}

int Clock(Context& context, const ClockOptions& options) {
  if (options.action.empty() && options.to.empty() && !options.next) {
    const auto clock = context.client->schedules().GetClock(v1::GetClockRequest());
    return clock ? ShowClock(context, *clock) : context.Fail(clock.error());
  }
  if (const auto usable = CheckUsage(options); !usable) return context.FailUsage(usable.error());
  const auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  const auto clock = context.client->schedules().AdvanceClock(*request);
  if (!clock) return context.Fail(clock.error());
  ShowClock(context, *clock);
  const std::string due = clock->timers() == 1
                              ? "1 timer was due on the way"
                              : std::to_string(clock->timers()) + " timers were due on the way";
  context.Note(due + (clock->has_next_due() ? "; the next is due at " + Text(clock->next_due())
                                            : "; none is to come"));
  return kSucceeded;
}

}  // namespace dfsmr::cli
