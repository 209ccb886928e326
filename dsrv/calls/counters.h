// How many instances match a filter, as far as counters tell.
#pragma once

#include <optional>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/engine/survey.h"
#include "fsm/filter/filter.h"

namespace dfsmr {

// nullopt: the counters cannot tell exactly.
std::optional<v1::CountInstancesResponse> CountByCounters(const Survey& survey,
                                                          const std::string& ns,
                                                          const InstanceFilter& filter,
                                                          v1::CountInstancesRequest::By by);

inline constexpr size_t kGroupsShown = 1'000;
// Adds to a group; when there are too many, to the one without a name.
void AddToGroup(const std::string& group, uint64_t count, v1::CountInstancesResponse* out);

}  // namespace dfsmr
