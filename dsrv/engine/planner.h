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

  // Plans an instance that is PLANNING and stands nowhere, under the definitions as they are now;
  // or stops it with the reason why it cannot be planned.
  void Plan(Resident& resident);

  void Load(Resident& resident) override { Enlist(resident.instance); }
  void Absorb(const Change& change) override { Enlist(change.instance()); }
  // Plans the next instance.
  bool Work() override;

 private:
  void Enlist(const Instance& instance);
  void Fail(Resident& resident, const std::string& why);
  // The singleton that the plan asks for now. False: planning does not go on.
  bool TakeKey(Resident& resident, const PlanSource& source);
  // What planners have said so far. Answers what is wrong with it.
  std::optional<std::string> ReadPlanned(Resident& resident, PlannedFlows* planned);
  // The graph of an instance. `own`: nobody else may share it. Fails with the plan's problem.
  Result<GraphPtr> Compile(Resident& resident, const PlanSource& source, bool* own);
  // Puts the graph in the place of the one it has.
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
