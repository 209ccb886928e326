#include "dsrv/calls/clock.h"

#include "dsrv/wire/replies.h"

namespace dfsmr {
namespace {

Error NotVirtual() {
  return {Code::kFailedPrecondition, Reason::kNotVirtual,
          "the server's clock is the machine's, and goes by itself; only a server that was started "
          "with --virtual-clock TIME, on a data directory of its own, can be told to advance"};
}

}  // namespace

Result<GetClockCommand> ParseGetClock(const v1::GetClockRequest&, const Call& call) {
  return GetClockCommand{call.backend().clock()};
}

Result<ClockReading> RunGetClock(Engine&, const Caller&, GetClockCommand& command) {
  return ClockReading{command.now};
}

void ReplyGetClock(const ClockReading& reading, const GetClockCommand&, v1::Clock* reply) {
  ToProto(reading.time, reply->mutable_time());
}

void ServeAdvanceClock(Call& call, const v1::AdvanceClockRequest&, v1::Clock*) {
  call.Fail(NotVirtual());
}

}  // namespace dfsmr
