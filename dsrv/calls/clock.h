// The server's clock: GetClock and AdvanceClock of ScheduleService.
#pragma once

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

struct ClockReading {
  Timestamp time;
};
struct GetClockCommand {
  Timestamp now;
};
Result<GetClockCommand> ParseGetClock(const v1::GetClockRequest&, const Call&);
Result<ClockReading> RunGetClock(Engine& engine, const Caller&, GetClockCommand&);
void ReplyGetClock(const ClockReading& reading, const GetClockCommand&, v1::Clock* reply);

void ServeAdvanceClock(Call& call, const v1::AdvanceClockRequest& request, v1::Clock* reply);

}  // namespace dfsmr
