// The server's clock: GetClock and AdvanceClock of ScheduleService.
#pragma once

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

struct ClockReading {
  Timestamp time;
  bool is_virtual = false;
  Timestamp next_due = kNever;
};
struct GetClockCommand {
  Timestamp now;  // by the machine's clock
};
Result<GetClockCommand> ParseGetClock(const v1::GetClockRequest&, const Call& call);
Result<ClockReading> RunGetClock(Engine& engine, const Caller&, GetClockCommand& command);
void ReplyGetClock(const ClockReading& reading, const GetClockCommand&, v1::Clock* reply);

// Calls go one after the other. One whose caller has given up goes on to its end.
void ServeAdvanceClock(Call& call, const v1::AdvanceClockRequest& request, v1::Clock* reply);

// Where an advance goes to; `next_due` is of the clock that stands at `now`, kNever: nothing is
// due.
Result<Timestamp> TargetOf(const v1::AdvanceClockRequest& request, Timestamp now,
                           Timestamp next_due);

}  // namespace dfsmr
