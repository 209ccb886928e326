// Pages of lists. A page token names the last item of a page, and is valid for the same filters
// only.
#pragma once

#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

std::string PageToken(const std::string& filters, const std::string& last);
Result<std::string> ParsePageToken(const std::string& filters, const std::string& token);
std::string FiltersOf(const v1::ListInstancesRequest& request);
Result<size_t> ToPageSize(int32_t given);

}  // namespace dfsmr
