// Makes the graphs of instances that are PLANNING. Small ones are made at once; large ones beside
// the engine, one at a time, so that they hold up nobody: meanwhile the instance stays PLANNING.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/planning.h"
#include "dsrv/engine/registry.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

// More text than this is not read within a turn.
inline constexpr size_t kPlanBytesAtOnce = 64 << 10;

class Planner : public Part {
 public:
  Planner(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Values& values,
          Limits& limits, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        values_(values),
        limits_(limits),
        options_(options) {}

  // Plans an instance that awaits its graph, under the present definitions, or begins to; or stops
  // it with the reason why it cannot be planned.
  void Plan(Resident& resident);
  // Why the answers of a dry run cannot be given: there is no such node or step, or it has no such
  // transition. Nothing is said of a plan that is large, or whose steps a planner finds out.
  std::optional<Error> RefusedAnswer(const StartArgs& args, const VersionState& version) const;

  void Load(Resident& resident) override { Enlist(resident.instance); }
  void Absorb(const Change& change) override;
  // Plans the next instance.
  bool Work() override;

 private:
  // Whether one is to be planned here and now however large it is, or beside the engine.
  enum class Size : uint8_t { kUnknown, kLarge };
  // The planning that is under way beside the engine.
  struct Beside {
    std::string key;     // of the instance
    bool wanted = true;  // false: the instance has changed, and is planned anew if need be
  };

  void Enlist(const Instance& instance);
  void PlanAs(Resident& resident, Size size);
  void PlanBeside(const std::string& key, std::shared_ptr<const Planning> planning);
  // What was planned beside the engine has come.
  void Take(const Planning& planning, PlanningResult result);
  void Finish(Resident& resident, const Planning& planning, PlanningResult result);
  void Fail(Resident& resident, const std::string& why);
  // Fails only with the store.
  Result<Planning> PlanningOf(Resident& resident, std::shared_ptr<const PlanSource> source);
  std::function<Result<std::shared_ptr<const PlanSource>>(std::string_view, TextOrigin)> ParseAs(
      const PackageVersionPtr& package) const;
  // The graph that the instance shares with others of its plan; null: there is none yet.
  GraphPtr SharedGraph(const Resident& resident, const Planning& planning) const;
  // Puts a graph, under the name that it has, in the place of the one that the instance has.
  void Adopt(Resident& resident, GraphPtr graph, std::string name);
  // Sets the instance going in its graph.
  void Enter(Resident& resident, const PlanSource& source);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Values& values_;
  Limits& limits_;
  const EngineOptions& options_;
  std::deque<std::string> waiting_;  // ns\0id
  std::deque<std::string> large_;    // the same, until nothing else is planned beside the engine
  std::optional<Beside> beside_;
};

}  // namespace dfsmr
