#include "dsrv/engine/space_shares.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr Duration kTellEvery = std::chrono::milliseconds(20);

uint64_t Gap(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// Of a quota: whether a difference is more than a share of what is left.
bool Near(uint64_t gap, uint64_t share, uint64_t most, uint64_t use) {
  return gap > 0 && most > 0 && (use >= most || gap > (most - use) / share);
}

}  // namespace

bool SpaceShares::Matters(const SpaceStand& stand, const Use& now, const Use& told,
                          uint64_t share) {
  const uint64_t starts = now.started - told.started;
  return Near(Gap(now.live, told.live), share, stand.most_live, stand.live) ||
         Near(Gap(now.ready, told.ready), share, stand.most_ready, stand.ready) ||
         (starts > 0 && static_cast<double>(starts * share) > stand.saved);
}

void SpaceShares::Write() {
  stirred_ = stirred_ || changes_ != spaces_.changes();
  changes_ = spaces_.changes();
  if (!stirred_ && !counts_) return;
  if (turn_.real() < next_) {
    due_ = next_;
    return;
  }
  stirred_ = false;
  due_ = kNever;
  next_ = turn_.real() + kTellEvery;
  counts_ = turn_.at_home() ? TellOthers() : TellHome();
}

void SpaceShares::Take(PartitionId from, const rows::Message::Uses& uses) {
  stirred_ = true;
  if (!turn_.at_home()) {
    for (auto& [ns, told] : told_) told.heard = told.heard && !uses.anew;
    for (const Use& use : uses.uses) spaces_.SetOthers(use.ns, use.live, use.ready, use.started);
    return;
  }
  for (auto& [ns, space] : known_) {
    if (!uses.anew) break;
    Known& known = space.known[from];
    const uint64_t started = known.told.started;
    known.told = {.started = started};
    known.heard = false;
    changed_.insert(ns);
  }
  for (const Use& use : uses.uses) TakeOne(from, use);
}

// At home ---------------------------------------------------------------------------------------

SpaceShares::Space& SpaceShares::Of(const std::string& ns) {
  Space& space = known_[ns];
  const Timestamp made = spaces_.MadeAt(ns);
  if (space.made != made) space = {.made = made};  // another one of its name
  return space;
}

SpaceShares::Use SpaceShares::SumOf(const std::string& ns, const Space& space) const {
  Use sum{.ns = ns};
  for (const auto& [id, known] : space.known) {
    sum.live += known.use.live;
    sum.ready += known.use.ready;
    sum.started += known.use.started;
  }
  return sum;
}

void SpaceShares::TakeOne(PartitionId from, const Use& use) {
  if (spaces_.StateOf(use.ns) == rows::SpaceState::kNone) return;
  Space& space = Of(use.ns);
  Known& known = space.known[from];
  known.use.live = use.live;
  known.use.ready = use.ready;
  known.use.started += use.started;
  const Use sum = SumOf(use.ns, space);
  /*mutant message-quota-not-taken*/ spaces_.SetOthers(use.ns, sum.live, sum.ready,
                                                       use.started); /*end*/
  changed_.insert(use.ns);
}

bool SpaceShares::TellOthers() {
  std::erase_if(known_, [this](const auto& one) {
    return spaces_.StateOf(one.first) == rows::SpaceState::kNone;
  });
  std::map<PartitionId, rows::Message::Uses> all;
  bool any = false;
  spaces_.ForEachCounted([&](const std::string& ns, const SpaceStand& stand) {
    any = true;
    Space& space = Of(ns);
    const Use own{"", stand.here.live, stand.here.ready, stand.started};
    if (!changed_.contains(ns) && own == space.last) return;
    space.last = own;
    const Use sum = SumOf(ns, space);
    for (PartitionId id = 0; id < options_.partitions; ++id) {
      if (id == options_.partition) continue;
      Known& known = space.known[id];
      const Use others{ns, own.live + sum.live - known.use.live,
                       own.ready + sum.ready - known.use.ready,
                       own.started + sum.started - known.use.started};
      const bool first = !known.heard && (others.live > 0 || others.ready > 0);
      if (!first && !Matters(stand, others, known.told, 8)) continue;
      Use told = others;
      told.started -= known.told.started;
      known.told = others;
      known.heard = true;
      all[id].uses.push_back(std::move(told));
    }
  });
  changed_.clear();
  if (any && std::exchange(anew_, false)) {
    for (PartitionId id = 0; id < options_.partitions; ++id) {
      if (id != options_.partition) all[id].anew = true;
    }
  }
  for (auto& [id, uses] : all) {
    /*mutant message-quota-others-not-told*/ messages_.Send(id, {std::move(uses)}); /*end*/
  }
  return any;
}

// Elsewhere -------------------------------------------------------------------------------------

bool SpaceShares::TellHome() {
  rows::Message::Uses uses;
  std::set<std::string> counted;
  spaces_.ForEachCounted([&](const std::string& ns, const SpaceStand& stand) {
    counted.insert(ns);
    const Use now{ns, stand.here.live, stand.here.ready, stand.started};
    const auto found = told_.find(ns);
    const Told told = found == told_.end() ? Told{.heard = false} : found->second;
    const bool first = !told.heard && (now.live > 0 || now.ready > 0);
    // What all of them do not tell is less than a quarter of what is left.
    const uint64_t share = uint64_t{4} * options_.partitions;
    if (!first && !Matters(stand, now, told.use, share)) return;
    Use one = now;
    one.started -= told.use.started;
    told_[ns] = {now, true};
    uses.uses.push_back(std::move(one));
  });
  for (auto it = told_.begin(); it != told_.end();) {
    if (counted.contains(it->first)) {
      ++it;
      continue;
    }
    uses.uses.push_back({.ns = it->first});  // it is gone, or no quota counts it any more
    it = told_.erase(it);
  }
  uses.anew = anew_ && !counted.empty();
  if (uses.anew) anew_ = false;
  if (uses.uses.empty() && !uses.anew) return !counted.empty();
  /*mutant message-quota-not-told*/ messages_.Send(kHome, {std::move(uses)}); /*end*/
  return !counted.empty();
}

}  // namespace dfsmr
