// The names in a package's documents as a version of it sees them, as far as tests of the engine
// and the simulator go; the server's are in dsrv/calls.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "dsrv/engine/package_version.h"
#include "fsm/machine/machine.h"
#include "fsm/plan/source.h"
#include "fsm/when/document.h"
#include "fsm/when/schedule.h"

namespace dfsmr::owned {

// Has what is the package's own with its name in front, as far as these tests go.
inline std::string Full(const PackageVersion& version, const std::string& name) {
  const auto is = [&name](const PackageVersion::Document& one) { return one.id == name; };
  const bool own = version.actions.contains(name) || std::ranges::any_of(version.documents, is);
  return own ? version.package + "." + name : name;
}

inline void OwnFlow(const PackageVersion& version, FlowNode* node) {
  for (FlowNode& child : node->children) OwnFlow(version, &child);
  node->action = Full(version, node->action);
  node->plan = Full(version, node->plan);
  if (node->spawn) node->spawn->machine = Full(version, node->spawn->machine);
}

inline void OwnMachine(const PackageVersion& version, Machine* machine) {
  machine->id = version.package + "." + machine->id;
  if (machine->plan()) {
    auto plan = std::make_shared<PlanSource>(*machine->plan());
    plan->id = machine->id;
    OwnFlow(version, &plan->flow);
    for (HookSource& hook : plan->hooks) hook.action = Full(version, hook.action);
    machine->defined_as = std::shared_ptr<const PlanSource>(std::move(plan));
  } else if (machine->action()) {
    auto action = std::make_shared<ActionSource>(*machine->action());
    action->id = machine->id;
    machine->defined_as = std::shared_ptr<const ActionSource>(std::move(action));
  }
  for (Node& node : machine->nodes) {
    auto settings = std::make_shared<NodeSettings>(*node.settings);
    settings->action = Full(version, settings->action);
    node.settings = std::move(settings);
  }
}

inline void OwnDocument(const PackageVersion& version, Document* document) {
  if (auto* schedule = std::get_if<0>(&document->body)) {
    auto own = std::make_shared<ScheduleSource>(**schedule);
    auto& start = std::get<LaunchStart>(own->launch.action);
    start.machine = Full(version, start.machine);
    *schedule = std::move(own);
  }
  document->name = version.package + "." + document->name;
}

}  // namespace dfsmr::owned
