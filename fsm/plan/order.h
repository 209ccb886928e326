// The order of a plan's steps while the plan is compiled. Its spots are steps and gates. Gates are
// cheap here: each block has one in front and one behind, so that edges grow with the block's size.
// Places drops the gates that are not between several spots and several others, and the edges that
// other edges imply, except those that were written from step to step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fsm/plan/graph.h"

namespace dfsmr {

class PlanOrder {
 public:
  // A step is known by its number, a gate by what AddGate gave.
  using Spot = uint32_t;
  static constexpr Spot kNone = UINT32_MAX;

  Spot AddGate() { return kGate | gates_++; }
  void AddEdge(Spot from, Spot to) { edges_.emplace_back(from, to); }
  // `to` waits for each of `from`, as an `after:` list says. Lists that name the same spots share a
  // gate, so n lists of the same m spots make m + n edges.
  void AddList(const std::vector<Spot>& from, Spot to);

  // `step` may go before all that it waits for has led on, since it has an `if`. So what it waits
  // for and what waits for it are not in order because of it.
  void AddDecision(Spot step) { decisions_.insert(step); }

  // The steps of a cycle in its order, the lowest first; nullopt when there is none. `steps`: how
  // many there are.
  std::optional<std::vector<uint32_t>> FindCycle(size_t steps);
  // The steps' places, numbered as they are, then the gates'. REQUIRES: FindCycle found none.
  std::vector<Place> Places(const std::vector<Step>& steps);

 private:
  static constexpr Spot kGate = 1U << 31;
  using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

  // Spots as numbers without a hole: steps, then gates.
  uint32_t Number(Spot spot) const { return spot & kGate ? steps_ + (spot & ~kGate) : spot; }
  bool IsGate(uint32_t number) const { return number >= steps_; }
  bool IsListGate(uint32_t number) const { return number >= steps_ + first_list_gate_; }
  void ExpandLists();
  void AddGateBetween(const std::vector<Spot>& from, const std::vector<Spot>& to);
  void DropGatesAfterOne();
  void DropGatesBeforeOne();
  void SortEdges();
  void DropImplied();
  void NameGates(const std::vector<Step>& steps, const std::vector<uint32_t>& gates,
                 std::vector<Place>* places) const;

  uint32_t steps_ = 0;
  uint32_t gates_ = 0;
  uint32_t first_list_gate_ = 0;             // it and all later gates stand for lists
  std::set<Spot> decisions_;
  std::map<Spot, std::vector<Spot>> lists_;  // what each spot waits for by lists of several
  Edges edges_;
  Edges direct_;  // edges that were written: between steps and gates of lists; sorted
  std::vector<uint32_t> sorted_;  // all numbers, topologically
  // Of a gate that is dropped, what stands in for it: as a source, and as a target. Else itself.
  std::vector<uint32_t> source_;
  std::vector<uint32_t> target_;
};

}  // namespace dfsmr
