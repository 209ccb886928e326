// How many instances match a filter, as far as counters tell.
#pragma once

#include <optional>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/wire/requests.h"
#include "fsm/filter/filter.h"

namespace dfsmr {

// nullopt: the counters cannot tell exactly.
std::optional<v1::CountInstancesResponse> CountByCounters(const Survey& survey,
                                                          const std::string& ns,
                                                          const InstanceFilter& filter,
                                                          v1::CountInstancesRequest::By by);

// Notes the machines that what a query asks for can be of, where the counters know them and they
// have few instances: without that a rare one is looked for among all. Runs in the engine's loop.
void NoteMachines(const Survey& survey, InstanceQuery* query);

inline constexpr size_t kGroupsShown = 1'000;
// Adds to a group; when there are too many, to the one without a name.
void AddToGroup(const std::string& group, uint64_t count, v1::CountInstancesResponse* out);

}  // namespace dfsmr
