// Limits as messages, and what clients ask of them.
#pragma once

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/engine/names.h"
#include "fsm/base/result.h"

namespace dfsmr {

void ToProto(const LimitView& view, v1::Limit* out);

Result<LimitChange> ToLimitChange(const v1::SetLimitRequest& request);
// 1 to 256 printable characters.
Result<Ok> CheckLimitKey(const std::string& key);
std::string FiltersOf(const v1::ListLimitsRequest& request);
std::string FiltersOf(const v1::GetLimitRequest& request);

}  // namespace dfsmr
