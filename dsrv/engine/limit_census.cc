#include "dsrv/engine/limit_census.h"

#include <tuple>
#include <utility>
#include <vector>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_places.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr size_t kEnrolledAtOnce = 50;

}  // namespace

Result<Ok> LimitCensus::Recover() {
  if (options_.partitions == 1) return Ok{};
  return rows::ScanCounted(turn_.reader(), [this](const rows::CountedRow& row) {
    const bool task = IsTask(BuiltInOf(row.key));
    if (row.partition != options_.partition || (task && !turn_.at_home())) {
      if (!turn_.at_home()) numbers_.Track(row.ns, row.key, row.counts);
      return places_.Restore(row);
    }
    /*mutant message-limit-keys-forgotten*/
    keys_[ResidentKey(row.ns, row.key)] = {row.counts, row.followed, row.held}; /*end*/
    if (!turn_.at_home()) {
      numbers_.Track(row.ns, row.key, row.counts, row.followed);
      changed_.insert(ResidentKey(row.ns, row.key));
      Enrol(ResidentKey(row.ns, row.key), {row.counts, row.followed, row.held});
      return;
    }
    if (row.followed) numbers_.Follow(row.ns, row.key, true);
    if (row.held != 0) counts_.CountGuest(row.ns, row.key, row.held);
  });
}

void LimitCensus::Put(const std::string& full, const Key& key) {
  const auto [ns, name] = SplitKey(full);
  rows::PutCounted(turn_.writer(), {.ns = ns,
                                    .key = name,
                                    .partition = options_.partition,
                                    .counts = key.counts,
                                    .followed = key.followed,
                                    .held = key.held});
  if (!key.counts && !key.followed && key.held == 0) keys_.erase(full);
}

void LimitCensus::Forget(const std::string& ns) {
  const std::string prefix = ResidentKey(ns, "");
  for (auto it = keys_.lower_bound(prefix); it != keys_.end() && it->first.starts_with(prefix);) {
    const std::string key = SplitKey(it->first).second;
    const int64_t held = it->second.held;
    if (turn_.at_home()) {
      if (held != 0) counts_.CountGuest(ns, key, -held);
    } else {
      if (held != 0) messages_.Send(kHome, {rows::Message::Held{ns, key, -held}});
      numbers_.Track(ns, key, false);
      changed_.erase(it->first);
    }
    it = keys_.erase(it);
  }
  places_.Forget(ns);
  std::erase_if(asked_, [&](const auto& one) { return one.first.starts_with(prefix); });
}

// At home ---------------------------------------------------------------------------------------

void LimitCensus::TellKeys() {
  if (options_.partitions == 1 || !turn_.at_home()) return;
  if (seen_ == numbers_.tracked_changes()) return;
  seen_ = numbers_.tracked_changes();
  const auto tell = [this](const std::string& full) {
    const auto [ns, key] = SplitKey(full);
    Key& one = keys_[full];
    one.counts = numbers_.HasNumber(full);
    one.followed = numbers_.IsFollowed(full);
    for (PartitionId id = 0; id < options_.partitions; ++id) {
      if (id == options_.partition) continue;
      /*mutant message-limit-key-not-told*/ messages_.Send(
          id, {rows::Message::Counted{ns, key, one.counts, one.followed}}); /*end*/
    }
    Put(full, Key(one));
  };
  std::vector<std::string> others;
  for (const auto& [full, key] : keys_) {
    const bool same = key.counts == numbers_.HasNumber(full) &&
                      key.followed == numbers_.IsFollowed(full);
    if (!same) others.push_back(full);
  }
  for (const std::string& full : numbers_.tracked()) {
    if (!keys_.contains(full)) others.push_back(full);
  }
  for (const std::string& full : others) tell(full);
}

void LimitCensus::TakeHeld(PartitionId from, const rows::Message::Held& held) {
  if (IsTask(BuiltInOf(held.key))) return places_.TakeHeld(from, held);
  const std::string full = ResidentKey(held.ns, held.key);
  if (held.by < 0 && !keys_.contains(full)) return;  // its namespace is gone
  Key& key = keys_[full];
  key.held += held.by;
  /*mutant message-limit-held-not-counted*/ counts_.CountGuest(held.ns, held.key, held.by); /*end*/
  Put(full, Key(key));
}

// Elsewhere -------------------------------------------------------------------------------------

bool LimitCensus::TakeKey(const rows::Message::Counted& counted) {
  const std::string full = ResidentKey(counted.ns, counted.key);
  if (IsTask(BuiltInOf(counted.key))) {
    places_.TakeKey(full, counted.counts);
    return false;
  }
  if (!counted.counts && !counted.followed && !keys_.contains(full)) return false;
  Key& key = keys_[full];
  const bool other = key.counts != counted.counts || key.followed != counted.followed;
  key.counts = counted.counts;
  key.followed = counted.followed;
  Put(full, Key(key));
  if (!other) return false;
  numbers_.Track(counted.ns, counted.key, counted.counts, counted.followed);
  changed_.insert(full);
  Enrol(full, {counted.counts, counted.followed, 0});
  return true;
}

void LimitCensus::Enrol(const std::string& full, const Key& key) {
  const BuiltIn kind = BuiltInOf(SplitKey(full).second);
  const bool of_cause = kind == BuiltIn::kSchedule || kind == BuiltIn::kTrigger;
  if (of_cause && (key.counts || key.followed)) enrolling_.emplace_back(full, LimitHolders::Name());
}

std::optional<LimitCensus::Unasked> LimitCensus::NextUnasked() {
  if (enrolling_.empty() || counts_.Reading()) return std::nullopt;
  auto [full, after] = std::move(enrolling_.front());
  enrolling_.pop_front();
  Unasked unasked;
  std::tie(unasked.ns, unasked.key) = SplitKey(full);
  if (!numbers_.tracked().contains(full)) return unasked;
  bool more = false;
  counts_.ForEachHolder(unasked.ns, unasked.key, after, [&](const LimitHolders::Holder& one) {
    more = unasked.instances.size() == kEnrolledAtOnce;
    if (!more) unasked.instances.emplace_back(one.instance);
    return !more;
  });
  if (more) enrolling_.emplace_back(full, LimitHolders::Name(unasked.instances.back(), 0));
  return unasked;
}

void LimitCensus::CountAsked(const std::string& ns, const std::string& key, int64_t by) {
  if (BuiltInOf(key) == BuiltIn::kNone) return;
  const std::string full = ResidentKey(ns, key);
  int64_t& asked = asked_[full];
  asked += by;
  if (asked == 0) asked_.erase(full);
  changed_.insert(full);
}

void LimitCensus::TellHome() {
  for (const std::string& full : std::exchange(changed_, {})) {
    const auto known = keys_.find(full);
    if (known == keys_.end()) continue;
    Key& key = known->second;
    const auto [ns, name] = SplitKey(full);
    int64_t unasked = 0;
    if (key.counts || key.followed) {
      const auto asked = asked_.find(full);
      unasked = static_cast<int64_t>(counts_.Counted(full)) -
                (asked == asked_.end() ? 0 : asked->second);
    }
    const int64_t by = unasked - key.held;
    if (by == 0) continue;
    key.held = unasked;
    Put(full, Key(key));
    /*mutant message-limit-held-not-told*/ messages_.Send(
        kHome, {rows::Message::Held{ns, name, by}}); /*end*/
  }
}

}  // namespace dfsmr
