// BackfillSchedule of ScheduleService.
#pragma once

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

// Looks for what is there already in the pool, since a hundred thousand times take a while.
void ServeBackfillSchedule(Call& call, const v1::BackfillScheduleRequest& request,
                           v1::BackfillScheduleResponse* reply);

}  // namespace dfsmr
