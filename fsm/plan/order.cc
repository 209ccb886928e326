#include "fsm/plan/order.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <unordered_set>

namespace dfsmr {
namespace {

// Implied edges cost little, finding all of them much: so many of a spot's edges are looked at, so
// often.
constexpr size_t kLookMax = 64;
constexpr size_t kRounds = 4;

// Neighbours by number, in one piece.
class Neighbours {
 public:
  Neighbours(size_t count, const std::vector<std::pair<uint32_t, uint32_t>>& edges, bool forward)
      : begin_(count + 1), items_(edges.size()) {
    auto key = [forward](const auto& edge) { return forward ? edge.first : edge.second; };
    for (const auto& edge : edges) ++begin_[key(edge) + 1];
    for (size_t i = 0; i < count; ++i) begin_[i + 1] += begin_[i];
    std::vector<uint32_t> at(begin_.begin(), begin_.end() - 1);
    for (const auto& edge : edges) {
      items_[at[key(edge)]++] = forward ? edge.second : edge.first;
    }
  }
  std::span<const uint32_t> Of(uint32_t number) const {
    return {items_.data() + begin_[number], begin_[number + 1] - begin_[number]};
  }

 private:
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> items_;
};

void SortUnique(std::vector<PlanOrder::Spot>* spots) {
  std::ranges::sort(*spots);
  spots->erase(std::unique(spots->begin(), spots->end()), spots->end());
}

// `self` when several different ones are meant by `numbers`, else the one, or kNone.
uint32_t OnlyOne(uint32_t self, std::span<const uint32_t> numbers,
                 const std::vector<uint32_t>& meant) {
  uint32_t only = PlanOrder::kNone;
  for (uint32_t number : numbers) {
    const uint32_t one = meant[number];
    if (one == PlanOrder::kNone || one == only) continue;
    if (only != PlanOrder::kNone) return self;
    only = one;
  }
  return only;
}

}  // namespace

void PlanOrder::AddList(const std::vector<Spot>& from, Spot to) {
  if (from.size() == 1) return AddEdge(from[0], to);
  std::vector<Spot>& list = lists_[to];
  list.insert(list.end(), from.begin(), from.end());
}

void PlanOrder::AddGateBetween(const std::vector<Spot>& from, const std::vector<Spot>& to) {
  const Spot gate = AddGate();
  for (Spot spot : from) AddEdge(spot, gate);
  for (Spot spot : to) AddEdge(gate, spot);
}

// Two rounds. Spots with equal lists share a gate. Of the lists that have no equal, the entries
// that lead to the same spots share one where that saves edges: lists often agree but for an entry
// each.
void PlanOrder::ExpandLists() {
  first_list_gate_ = gates_;
  std::map<std::vector<Spot>, std::vector<Spot>> by_list;
  for (auto& [to, from] : lists_) {
    SortUnique(&from);
    by_list[from].push_back(to);
  }
  std::map<Spot, std::vector<Spot>> rest;
  for (const auto& [from, to] : by_list) {
    if (from.size() > 1 && to.size() > 1) {
      AddGateBetween(from, to);
    } else {
      for (Spot spot : from) rest[spot].insert(rest[spot].end(), to.begin(), to.end());
    }
  }
  std::map<std::vector<Spot>, std::vector<Spot>> by_targets;
  for (auto& [from, to] : rest) {
    SortUnique(&to);
    by_targets[to].push_back(from);
  }
  for (const auto& [to, from] : by_targets) {
    if (from.size() * to.size() > from.size() + to.size()) {
      AddGateBetween(from, to);
      continue;
    }
    for (Spot before : from) {
      for (Spot after : to) AddEdge(before, after);
    }
  }
  lists_.clear();
}

std::optional<std::vector<uint32_t>> PlanOrder::FindCycle(size_t steps) {
  steps_ = static_cast<uint32_t>(steps);
  ExpandLists();
  for (auto& [from, to] : edges_) {
    from = Number(from);
    to = Number(to);
  }
  SortEdges();
  std::ranges::copy_if(edges_, std::back_inserter(direct_), [this](const auto& edge) {
    auto written = [this](uint32_t number) { return !IsGate(number) || IsListGate(number); };
    return written(edge.first) && written(edge.second);
  });
  const size_t count = steps_ + gates_;
  const Neighbours next(count, edges_, true);
  std::vector<uint32_t> waits(count);
  for (const auto& edge : edges_) ++waits[edge.second];
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) sorted_.push_back(i);
  }
  for (size_t i = 0; i < sorted_.size(); ++i) {
    for (uint32_t number : next.Of(sorted_[i])) {
      if (--waits[number] == 0) sorted_.push_back(number);
    }
  }
  if (sorted_.size() == count) return std::nullopt;

  // What is left waits for something that is left: going back along that, one comes by twice.
  const Neighbours before(count, edges_, false);
  auto left = [&](uint32_t number) { return waits[number] > 0; };
  uint32_t at = 0;
  while (!left(at)) ++at;
  std::vector<uint32_t> walk;
  std::vector<size_t> seen(count, SIZE_MAX);
  while (seen[at] == SIZE_MAX) {
    seen[at] = walk.size();
    walk.push_back(at);
    at = *std::ranges::find_if(before.Of(at), left);
  }
  std::vector<uint32_t> cycle;
  for (size_t i = walk.size(); i-- > seen[at];) {
    if (!IsGate(walk[i])) cycle.push_back(walk[i]);
  }
  std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
  return cycle;
}

void PlanOrder::DropGatesAfterOne() {
  const size_t count = steps_ + gates_;
  const Neighbours before(count, edges_, false);
  source_.resize(count);
  for (uint32_t number : sorted_) {
    source_[number] = IsGate(number) ? OnlyOne(number, before.Of(number), source_) : number;
  }
  Edges kept;
  kept.reserve(edges_.size());
  for (const auto& [from, to] : edges_) {
    if (source_[from] != kNone && source_[to] == to) kept.emplace_back(source_[from], to);
  }
  edges_ = std::move(kept);
}

void PlanOrder::DropGatesBeforeOne() {
  const size_t count = steps_ + gates_;
  const Neighbours next(count, edges_, true);
  target_.resize(count);
  for (size_t i = sorted_.size(); i-- > 0;) {
    const uint32_t number = sorted_[i];
    target_[number] = IsGate(number) ? OnlyOne(number, next.Of(number), target_) : number;
  }
  Edges kept;
  kept.reserve(edges_.size());
  for (const auto& [from, to] : edges_) {
    if (target_[from] == from && target_[to] != kNone) kept.emplace_back(from, target_[to]);
  }
  edges_ = std::move(kept);
}

void PlanOrder::SortEdges() {
  std::ranges::sort(edges_);
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
}

// From a to c, where there are edges from a to b and from b to c. In a DAG all of these can go at
// once.
void PlanOrder::DropImplied() {
  const size_t count = steps_ + gates_;
  const Neighbours next(count, edges_, true);
  std::vector<uint32_t> marked(count, kNone);  // by what leads there
  std::vector<bool> implied(edges_.size());
  for (size_t begin = 0, end = 0; begin < edges_.size(); begin = end) {
    const uint32_t from = edges_[begin].first;
    for (; end < edges_.size() && edges_[end].first == from; ++end) {
      marked[edges_[end].second] = from;
    }
    if (end - begin == 1) continue;
    std::unordered_set<uint32_t> reached;
    for (uint32_t number : next.Of(from)) {
      /*mutant decision-implies-order*/ if (decisions_.contains(number)) continue; /*end*/
      const std::span<const uint32_t> beyond = next.Of(number);
      for (uint32_t to : beyond.first(std::min(beyond.size(), kLookMax))) {
        if (marked[to] == from) reached.insert(to);
      }
    }
    for (size_t i = begin; i < end && !reached.empty(); ++i) {
      implied[i] =
          reached.contains(edges_[i].second) && !std::ranges::binary_search(direct_, edges_[i]);
    }
  }
  Edges kept;
  for (size_t i = 0; i < edges_.size(); ++i) {
    if (!implied[i]) kept.push_back(edges_[i]);
  }
  edges_ = std::move(kept);
}

std::vector<Place> PlanOrder::Places(const std::vector<Step>& steps) {
  for (size_t round = 0, before = 0; round < kRounds && edges_.size() != before; ++round) {
    before = edges_.size();
    DropGatesAfterOne();
    DropGatesBeforeOne();
    SortEdges();
    if (round + 1 < kRounds) DropImplied();
  }

  std::vector<uint32_t> place(steps_ + gates_, kNone);
  std::vector<uint32_t> gates;
  for (uint32_t i = 0; i < steps_; ++i) place[i] = i;
  for (const auto& edge : edges_) {
    if (!IsGate(edge.first) || place[edge.first] != kNone) continue;
    place[edge.first] = static_cast<uint32_t>(steps_ + gates.size());
    gates.push_back(edge.first);
  }
  std::vector<Place> places(steps_ + gates.size());
  for (uint32_t i = 0; i < steps_; ++i) places[i].step = i;
  for (size_t i = 0; i < edges_.size();) {
    size_t end = i;
    while (end < edges_.size() && edges_[end].first == edges_[i].first) ++end;
    std::vector<uint32_t>& next = places[place[edges_[i].first]].next;
    next.reserve(end - i);
    for (; i < end; ++i) next.push_back(place[edges_[i].second]);
  }
  NameGates(steps, gates, &places);
  return places;
}

// After the first step that comes behind it; the second one in front of the same step is `gate.2`.
void PlanOrder::NameGates(const std::vector<Step>& steps, const std::vector<uint32_t>& gates,
                          std::vector<Place>* places) const {
  if (gates.empty()) return;
  std::vector<uint32_t> place(gates_, kNone);
  for (size_t i = 0; i < gates.size(); ++i) {
    place[gates[i] - steps_] = static_cast<uint32_t>(steps_ + i);
  }
  std::vector<uint32_t> first(places->size());
  for (uint32_t i = 0; i < steps_; ++i) first[i] = i;
  for (size_t i = sorted_.size(); i-- > 0;) {
    if (!IsGate(sorted_[i]) || place[sorted_[i] - steps_] == kNone) continue;
    const uint32_t gate = place[sorted_[i] - steps_];
    first[gate] = kNone;
    for (uint32_t next : (*places)[gate].next) first[gate] = std::min(first[gate], first[next]);
  }
  std::vector<uint32_t> taken(steps_);
  for (uint32_t gate = steps_; gate < places->size(); ++gate) {
    std::string name = steps[first[gate]].path + "/gate";
    const uint32_t number = ++taken[first[gate]];
    if (number > 1) name += "." + std::to_string(number);
    (*places)[gate].gate = std::move(name);
  }
}

}  // namespace dfsmr
