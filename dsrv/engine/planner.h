// Makes the graphs of instances that are PLANNING.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/singletons.h"
#include "dsrv/engine/values.h"

namespace dfsmr {

class Planner : public Part {
 public:
  Planner(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Values& values,
          Singletons& singletons, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        values_(values),
        singletons_(singletons),
        options_(options) {}

  // Plans an instance that is PLANNING and stands nowhere, under the present definitions; or stops
  // it with the reason why it cannot be planned.
  void Plan(Resident& resident);

  void Load(Resident& resident) override { Enlist(resident.instance); }
  void Absorb(const Change& change) override { Enlist(change.instance()); }
  // Plans the next instance.
  bool Work() override;

 private:
  void Enlist(const Instance& instance);
  void Fail(Resident& resident, const std::string& why);
  // Asks for the plan's singleton, if it has one. False: planning does not go on now.
  bool TakeKey(Resident& resident, const PlanSource& source);
  // Reads the flows that planners have reported so far. Returns what is wrong with them; nullopt:
  // nothing.
  std::optional<std::string> ReadPlanned(Resident& resident, PlannedFlows* planned);
  // Compiles the graph of an instance. Sets `own` when no other instance may share it. Fails with
  // the plan's first problem.
  Result<GraphPtr> Compile(Resident& resident, const PlanSource& source, bool* own);
  // Replaces the instance's graph.
  void Adopt(Resident& resident, GraphPtr graph, bool own);
  std::string SharedName(const Instance& instance);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Values& values_;
  Singletons& singletons_;
  const EngineOptions& options_;
  std::deque<std::string> waiting_;  // ns\0id
};

}  // namespace dfsmr
