#include "dsrv/engine/references.h"

#include <algorithm>

#include "fsm/plan/source.h"
#include "fsm/when/schedule.h"
#include "fsm/when/trigger.h"

namespace dfsmr {
namespace {

class Names {
 public:
  void Add(const std::string& name) {
    if (!name.empty()) names_.insert(name);
  }
  void Add(const LimitAsks& asks) {
    for (const LimitAsk& ask : asks) names_.insert("limit:" + ask.key.substr(0, ask.key.find('/')));
  }
  void Add(const ActionSource& action) {
    Add(action.extends);
    if (action.limits) Add(*action.limits);
    if (!action.subscribes_to) return;
    for (const std::string& name : *action.subscribes_to) Add(name);
  }
  void Add(const FlowNode& node) {
    for (const FlowNode& child : node.children) Add(child);
    Add(node.action);
    Add(node.plan);
    if (node.spawn) Add(node.spawn->machine);
    Add(node.own);
  }
  void Add(const PlanSource& plan) {
    Add(plan.limits);
    for (const HookSource& hook : plan.hooks) Add(hook.action);
    Add(plan.flow);
  }
  void Add(const LaunchSource& launch) {
    if (launch.start()) Add(launch.start()->machine);
  }
  void Add(const ItemSource& source) {
    if (source.poll()) Add(source.poll()->action);
    if (!source.change()) return;
    for (const std::string& name : source.change()->machines) Add(name);
    for (const std::string& cause : source.change()->causes) Add(cause);
  }
  std::set<std::string> Take() && { return std::move(names_); }

 private:
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> NamesIn(const Machine& machine) {
  Names names;
  if (machine.plan()) {
    names.Add(*machine.plan());
  } else if (machine.action()) {
    names.Add(*machine.action());
  } else {
    names.Add(machine.limits);
    for (const Node& node : machine.nodes) {
      names.Add(node.settings->action);
      names.Add(node.settings->limits);
    }
  }
  return std::move(names).Take();
}

std::set<std::string> NamesIn(const Document& document) {
  Names names;
  if (document.kind() == DocumentKind::kSchedule) {
    names.Add(std::get<0>(document.body)->launch);
  } else if (document.kind() == DocumentKind::kTrigger) {
    const TriggerSource& trigger = *std::get<1>(document.body);
    names.Add(trigger.launch);
    for (const ItemSource& source : trigger.on) names.Add(source);
  }
  return std::move(names).Take();
}

std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kTold = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kTold); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kTold) text += " and " + std::to_string(names.size() - kTold) + " more";
  return text;
}

}  // namespace dfsmr
