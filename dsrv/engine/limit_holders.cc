#include "dsrv/engine/limit_holders.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/limit_keys.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kRowsAtOnce = 2'000;
constexpr size_t kRowsLater = 500;

// Whether it holds the key because it asked, so that the table of limits knows it.
bool Asked(const Instance& instance, const std::string& key) {
  return instance.limits && instance.limits->state == InstanceLimits::State::kHolds &&
         HasKey(instance.limits->keys, key);
}

}  // namespace

bool HoldsBuiltIn(const Instance& instance, const std::string& key) {
  bool holds = false;
  if (Runs(instance.state) && !instance.dry_run) {
    ForEachBuiltIn(instance, [&](const std::string& one) { holds = holds || one == key; });
  }
  return holds;
}

Timestamp ClaimedSince(const Token& token) {
  return token.claims.empty() ? token.available_at : token.claims.back().claim_time;
}

void LimitHolders::Keep(const std::string& ns, const std::string& key) {
  if (Keeps(ns, key)) return;
  Found& found = kept_[ResidentKey(ns, key)];
  if (IsTask(BuiltInOf(key))) return ReadTasks(ns, key, &found);
  ReadUnwritten(ns, key, &found);
  Rest rest{ns, key, ""};
  if (Read(ns, key, kRowsAtOnce, &rest.after, &found)) rest_.push_back(std::move(rest));
}

void LimitHolders::KeepUnread(const std::string& ns, const std::string& key) {
  kept_.try_emplace(ResidentKey(ns, key));
}

void LimitHolders::Drop(const std::string& ns, const std::string& key) {
  kept_.erase(ResidentKey(ns, key));
}

bool LimitHolders::Keeps(const std::string& ns, const std::string& key) const {
  return kept_.contains(ResidentKey(ns, key));
}

size_t LimitHolders::CountOf(const std::string& ns, const std::string& key) const {
  const auto found = kept_.find(ResidentKey(ns, key));
  return found == kept_.end() ? 0 : found->second.size();
}

void LimitHolders::Put(const std::string& ns, const std::string& key, const Holder& holder) {
  const auto found = kept_.find(ResidentKey(ns, key));
  if (found == kept_.end()) return;
  found->second[{std::string(holder.instance), holder.visit}] = holder.since;
}

void LimitHolders::Remove(const std::string& ns, const std::string& key, std::string_view instance,
                          uint64_t visit) {
  const auto found = kept_.find(ResidentKey(ns, key));
  if (found != kept_.end()) found->second.erase({std::string(instance), visit});
}

void LimitHolders::PutAll(const Instance& instance) {
  if (kept_.empty()) return;
  ForEachBuiltIn(instance, [&](const std::string& key) {
    if (!Asked(instance, key)) Put(instance.ns, key, {instance.id, 0, instance.start_time});
  });
}

void LimitHolders::RemoveAll(const Instance& instance) {
  if (kept_.empty()) return;
  ForEachBuiltIn(instance,
                 [&](const std::string& key) { Remove(instance.ns, key, instance.id, 0); });
}

bool LimitHolders::ReadMore() {
  if (rest_.empty()) return false;
  Rest rest = std::move(rest_.front());
  rest_.pop_front();
  const auto found = kept_.find(ResidentKey(rest.ns, rest.key));
  if (found == kept_.end()) return true;
  if (Read(rest.ns, rest.key, kRowsLater, &rest.after, &found->second)) {
    rest_.push_back(std::move(rest));
  }
  return true;
}

void LimitHolders::ForEach(const std::string& ns, const std::string& key, const Name& after,
                           const Visit& visit) const {
  const auto kept = kept_.find(ResidentKey(ns, key));
  Found read;
  if (kept == kept_.end()) {
    std::string read_to;
    if (IsTask(BuiltInOf(key))) {
      ReadTasks(ns, key, &read);
    } else {
      ReadUnwritten(ns, key, &read);
      (void)Read(ns, key, kRowsAtOnce, &read_to, &read);
    }
  }
  const Found& found = kept == kept_.end() ? read : kept->second;
  for (auto it = found.upper_bound(after); it != found.end(); ++it) {
    if (!visit({it->first.first, it->first.second, it->second})) return;
  }
}

// What is in memory may have changed in this turn, and its row has not.
bool LimitHolders::Read(const std::string& ns, const std::string& key, size_t rows,
                        std::string* after, Found* to) const {
  const auto note = [&](const Instance& instance) {
    if (!HoldsBuiltIn(instance, key) || Asked(instance, key)) return;
    (*to)[{instance.id, 0}] = instance.start_time;
  };
  size_t left = rows;
  bool more = false;
  const std::string from = *after;
  rows::Wanted wanted;
  wanted.tokens = false;
  auto scanned = rows::ScanInstances(
      turn_.reader(), /*stopped=*/false, {ns, from}, catalog_.resolve(),
      [&](Instance instance) {
        if (instance.ns != ns) return false;
        if (left-- == 0) {
          more = true;
          return false;
        }
        *after = instance.id;
        const Resident* resident = residents_.InMemory({ns, instance.id});
        note(resident ? resident->instance : instance);
        return true;
      },
      wanted);
  return turn_.Trust(scanned) && more;
}

void LimitHolders::ReadUnwritten(const std::string& ns, const std::string& key, Found* to) const {
  for (const Resident* resident : residents_.dirty()) {
    const Instance& instance = resident->instance;
    if (instance.ns == ns && HoldsBuiltIn(instance, key) && !Asked(instance, key)) {
      (*to)[{instance.id, 0}] = instance.start_time;
    }
  }
}

// What is claimed is in memory.
void LimitHolders::ReadTasks(const std::string& ns, const std::string& key, Found* to) const {
  const bool of_queue = BuiltInOf(key) == BuiltIn::kQueue;
  const std::string name = NameIn(key);
  residents_.ForEach([&](const Resident& resident) {
    const Instance& instance = resident.instance;
    if (instance.ns != ns || instance.dry_run) return;
    if (instance.tokens.Count(TokenState::kClaimed) == 0) return;
    for (const Token& token : instance.tokens) {
      if (token.state != TokenState::kClaimed || !resident.graph->Has(token.node)) continue;
      const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
      if ((of_queue ? settings.queue : settings.action) == name) {
        (*to)[{instance.id, token.visit}] = ClaimedSince(token);
      }
    }
  });
}

}  // namespace dfsmr
