#include "dsrv/engine/limit_ancestors.h"

#include "dsrv/engine/changer.h"
#include "dsrv/engine/residents.h"
#include "fsm/rules/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kAncestorsHold = 64;   // more than that are not one's ancestors
constexpr size_t kStoppedAtOnce = 100;  // children of one step

}  // namespace

void LimitAncestors::Note(const Instance& instance, const std::vector<LimitKey>& keys,
                          bool stands) {
  if (!instance.parent_step) return;
  for (const LimitKey& key : keys) {
    const std::string full = ResidentKey(instance.ns, key.key);
    const bool changes = stands ? children_.Add(full, instance.parent, instance.id)
                                : children_.Remove(full, instance.parent, instance.id);
    if (changes) table_.Watch(instance.ns, key.key, stands ? +1 : -1);
  }
}

// Who is above a parent whose children wait for a key is found once.
bool LimitAncestors::Chart() {
  const auto next = children_.NextUncharted();
  if (!next) return false;
  const std::string ns = SplitKey(next->first).first;
  children_.Chart(next->first, next->second,
                  judge_.AncestorsOf({.ns = ns, .parent = next->second}));
  unsure_.insert(next->first);
  return true;
}

// Others hold a key than before, or its numbers are others: children that wait for it may wait for
// their ancestors alone by now.
bool LimitAncestors::StopForEver() {
  std::optional<std::string> full;
  if (!unsure_.empty()) {
    full = std::move(unsure_.extract(unsure_.begin()).value());
  } else {
    full = table_.NextChanged();
  }
  if (!full) return false;
  const auto [ns, key] = SplitKey(*full);
  const uint64_t used = table_.Used(ns, key);
  if (table_.HasPlace(ns, key, "") || used == 0 || used > kAncestorsHold) return true;
  const std::set<std::string>* fewest = nullptr;  // all that hold it are above the same parents
  judge_.ForEachHolder(ns, key, [&](const DatedInstance& holder) {
    const std::set<std::string>& below = children_.Below(*full, holder.second);
    if (!fewest || below.size() < fewest->size()) fewest = &below;
    return !fewest->empty();
  });
  if (!fewest) return true;
  for (const std::string& parent : std::set<std::string>(*fewest)) {
    if (StopSome(*full, parent)) unsure_.insert(*full);
  }
  return true;
}

// True: there may be more.
bool LimitAncestors::StopSome(const std::string& full, const std::string& parent) {
  const auto [ns, key] = SplitKey(full);
  const auto why = judge_.WhyForEver({.ns = ns, .parent = parent}, {key, table_.AskerOf(ns, key)});
  if (!why) return false;
  bool stopped = false;
  for (const std::string& id : children_.ChildrenOf(full, parent, kStoppedAtOnce)) {
    auto resident = residents_.Load(ns, id);
    if (!resident || (*resident)->instance.Stopped()) continue;
    changer_.Apply(**resident, [&](Scene& scene) { rules::PlanningFailed(scene, *why); });
    residents_.MarkDirty(**resident);
    stopped = stopped || (*resident)->instance.Stopped();
  }
  return stopped;
}

}  // namespace dfsmr
