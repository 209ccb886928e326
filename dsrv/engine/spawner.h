// Starts the children of plans' steps, as many at a time as the step and the pass allow.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/types.h"
#include "fsm/plan/graph.h"

namespace dfsmr {

class Spawner : public Part {
 public:
  Spawner(OpenTurn& turn, Catalog& catalog, Statistics& statistics, Residents& residents,
          Changer& changer, Values& values, Followers& followers, Family& family, Starter& starter,
          const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        statistics_(statistics),
        residents_(residents),
        changer_(changer),
        values_(values),
        followers_(followers),
        family_(family),
        starter_(starter),
        options_(options) {}

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  void BeginPass() override;
  // Starts children of the step that has waited longest, which goes to the end of the line when it
  // wants more.
  bool Work() override;

 private:
  using Job = std::pair<std::string, uint64_t>;  // ns\0id, visit

  void Enlist(const Instance& instance, uint64_t visit);
  // Starts as many children of one step as may run, and as the budget allows. False: more are
  // wanted.
  bool SpawnSome(const Job& job, size_t* budget);
  // Does one thing for a step that wants children: counts its items, or starts a child again, or
  // starts the next child.
  void SpawnOne(Resident& resident, const Token& token);
  void CountItems(Resident& resident, const Token& token);
  void RestartChild(Resident& resident, const Token& token);
  void Revive(Resident& resident);
  void FollowAgain(Resident& resident);
  void StartNext(Resident& resident, const Token& token);
  // The start of the child of this number.
  Result<StartArgs> ChildOf(Resident& resident, const Token& token, uint64_t number);
  void Pin(const Resident& resident, StartArgs* args) const;
  Result<StartArgs> Asked(Resident& resident, const Token& token, uint64_t number, StartArgs args);
  Result<StartArgs> Spawned(Resident& resident, const Token& token, uint64_t number,
                            StartArgs args);
  // The item of this number in a spawn's list. kInternal: the list is shorter.
  Result<std::string> ItemOf(Resident& resident, const Spawn& spawn, PlanItems* items,
                             uint64_t number);
  static PlanItems& ItemsOf(Resident& resident, const Token& token) {
    return CacheOf(resident).items[token.step->children->generation];
  }

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  Residents& residents_;
  Changer& changer_;
  Values& values_;
  Followers& followers_;
  Family& family_;
  Starter& starter_;
  const EngineOptions& options_;
  std::deque<Job> waiting_;
  std::set<Job> enlisted_;
  size_t left_ = 0;  // in this pass
};

}  // namespace dfsmr
