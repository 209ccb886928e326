// The definitions of one namespace as plans see them: the latest version of each. Included by
// engine*.cc only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine.h"
#include "fsm/plan.h"

namespace dfsmr {

class Engine::Definitions : public Library {
 public:
  // Versions in ascending order.
  void Add(const std::string& id, MachineVersionPtr definition) {
    ++generation_;
    latest_[id] = &definition->machine;
    kept_[id] = std::move(definition);
  }
  // A definition that outlives this.
  void AddUnowned(const Machine& machine) { latest_[machine.id] = &machine; }
  // To be called when all are there.
  void Index() {
    subscribers_.clear();
    std::vector<PlanProblem> problems;  // said when the action itself is compiled
    for (const auto& [id, machine] : latest_) {
      if (!machine->action) continue;
      const auto inherited = Inherited(*machine->action, *this, &problems);
      if (!inherited.subscribes_to) continue;
      for (const std::string& trigger : *inherited.subscribes_to) {
        subscribers_[trigger].push_back(machine->action.get());
      }
    }
  }
  // How many versions there are: other under other definitions, the same after a restart.
  uint64_t generation() const { return generation_; }

  const ActionSource* FindAction(std::string_view id) const override {
    const Machine* machine = Latest(id);
    return machine ? machine->action.get() : nullptr;
  }
  const PlanSource* FindPlan(std::string_view id) const override {
    const Machine* machine = Latest(id);
    return machine ? machine->plan.get() : nullptr;
  }
  bool HasMachine(std::string_view id) const override {
    const Machine* machine = Latest(id);
    return machine && machine->Kind() == "machine";
  }
  std::vector<const ActionSource*> SubscribersOf(std::string_view action) const override {
    auto it = subscribers_.find(action);
    return it == subscribers_.end() ? std::vector<const ActionSource*>() : it->second;
  }

 private:
  const Machine* Latest(std::string_view id) const {
    auto it = latest_.find(id);
    return it == latest_.end() ? nullptr : it->second;
  }

  std::map<std::string, const Machine*, std::less<>> latest_;
  std::map<std::string, MachineVersionPtr> kept_;
  std::map<std::string, std::vector<const ActionSource*>, std::less<>> subscribers_;
  uint64_t generation_ = 0;
};

}  // namespace dfsmr
