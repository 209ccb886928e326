// Compiled templates as people write them.
#pragma once

#include <string>
#include <string_view>

#include "fsm/plan/graph.h"

namespace dfsmr {

// The path of a step or group by its number, such as "#12" or "@3", which may be doubled or tripled.
// Empty: it is no such number, or the group has no members.
std::string PathOf(const PlanGraph& graph, std::string_view key);

// The template of a step of `graph` with the paths of steps and groups in place of their numbers:
// "${#12.output.ip}" becomes "${web.vm.output.ip}". A group without members has no path to show,
// and keeps its number.
std::string AsWritten(const PlanGraph& graph, std::string_view compiled);

}  // namespace dfsmr
