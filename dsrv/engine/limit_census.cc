#include "dsrv/engine/limit_census.h"

#include <algorithm>
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
constexpr Duration kHeardWithin = std::chrono::seconds(10);

// Whether it is of a schedule or trigger.
bool OfCause(const std::string& key) {
  const BuiltIn kind = BuiltInOf(key);
  return kind == BuiltIn::kSchedule || kind == BuiltIn::kTrigger;
}

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
    keys_[ResidentKey(row.ns, row.key)] = {row.counts, row.followed, row.held, row.round,
                                           row.unheard}; /*end*/
    if (!turn_.at_home()) {
      numbers_.Track(row.ns, row.key, row.counts, row.followed);
      changed_.insert(ResidentKey(row.ns, row.key));
      Enrol(ResidentKey(row.ns, row.key), {row.counts, row.followed, row.held, 0, {}});
      if (row.round != 0 && OfCause(row.key)) to_answer_[ResidentKey(row.ns, row.key)] = row.round;
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
                                    .held = key.held,
                                    .round = key.round,
                                    .unheard = key.unheard});
  if (!key.counts && !key.followed && key.held == 0) keys_.erase(full);
}

void LimitCensus::Forget(const std::string& ns) {
  const std::string prefix = ResidentKey(ns, "");
  for (auto it = keys_.lower_bound(prefix); it != keys_.end() && it->first.starts_with(prefix);) {
    const std::string key = SplitKey(it->first).second;
    const int64_t held = it->second.held;
    if (turn_.at_home()) {
      if (held != 0) counts_.CountGuest(ns, key, -held);
      table_.SetShut(ns, key, false);
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

void LimitCensus::Loaded() {
  for (const auto& [full, key] : keys_) {
    const auto [ns, name] = SplitKey(full);
    /*mutant message-limit-unheard-forgotten*/ if (key.counts && !key.unheard.empty()) {
      table_.SetShut(ns, name, true);
      counts_.Judge(full);
    } /*end*/
  }
}

void LimitCensus::TellKeys() {
  if (options_.partitions == 1 || !turn_.at_home()) return;
  if (seen_ == numbers_.tracked_changes()) return;
  seen_ = numbers_.tracked_changes();
  const auto tell = [this](const std::string& full) {
    const auto [ns, key] = SplitKey(full);
    Key& one = keys_[full];
    const bool counted = std::exchange(one.counts, numbers_.HasNumber(full));
    const bool followed = std::exchange(one.followed, numbers_.IsFollowed(full));
    if (!one.counts && !one.followed) one.unheard.clear();
    const bool asks = (one.counts && !counted) || (one.followed && !followed && !counted);
    if (asks) one.round = (turn_.epoch() << 32) | turn_.NextId();
    for (PartitionId id = 0; id < options_.partitions; ++id) {
      if (id == options_.partition) continue;
      if (asks) one.unheard.insert(id);
      /*mutant message-limit-key-not-told*/ messages_.Send(
          id, {rows::Message::Counted{ns, key, one.counts, one.followed,
                                      asks ? one.round : 0}}); /*end*/
    }
    /*mutant message-limit-begins-unheard*/ table_.SetShut(
        ns, key, one.counts && !one.unheard.empty()); /*end*/
    counts_.Judge(full);
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

void LimitCensus::AfterHeard(std::function<void()> tell) {
  if (options_.partitions == 1 || !waits_) return turn_.AfterCommit(std::move(tell));
  Awaiting one{{}, turn_.real() + kHeardWithin, std::move(tell)};
  for (const auto& [full, key] : keys_) {
    if (!key.unheard.empty()) one.keys.insert(full);
  }
  awaiting_.push_back(std::move(one));
}

void LimitCensus::StopWaiting() {
  waits_ = false;
  TellHeard();
}

void LimitCensus::TellHeard() {
  const auto heard = [this](const std::string& full) {
    const auto key = keys_.find(full);
    return key == keys_.end() || key->second.unheard.empty();
  };
  std::erase_if(awaiting_, [&](Awaiting& one) {
    std::erase_if(one.keys, heard);
    if (!one.keys.empty() && waits_ && turn_.real() < one.until) return false;
    turn_.AfterCommit(std::move(one.tell));
    return true;
  });
}

void LimitCensus::Hear(PartitionId from, const rows::Message::Held& held) {
  const std::string full = ResidentKey(held.ns, held.key);
  const auto known = keys_.find(full);
  if (known == keys_.end() || known->second.round != held.answers) return;
  Key& key = known->second;
  if (key.unheard.erase(from) == 0) return;
  if (key.unheard.empty()) {
    table_.SetShut(held.ns, held.key, false);
    counts_.Judge(full);
  }
  Put(full, Key(key));
}

void LimitCensus::TakeHeld(PartitionId from, const rows::Message::Held& held) {
  if (held.answers != 0) return Hear(from, held);
  if (IsTask(BuiltInOf(held.key))) return places_.TakeHeld(from, held);
  const std::string full = ResidentKey(held.ns, held.key);
  if (held.by < 0 && !keys_.contains(full)) return;  // its namespace is gone
  Key& key = keys_[full];
  key.held += held.by;
  /*mutant message-limit-held-not-counted*/ counts_.CountGuest(held.ns, held.key, held.by); /*end*/
  Put(full, Key(key));
}

// Elsewhere -------------------------------------------------------------------------------------

void LimitCensus::TakeKey(const rows::Message::Counted& counted) {
  const std::string full = ResidentKey(counted.ns, counted.key);
  if (counted.round != 0) to_answer_[full] = counted.round;
  if (IsTask(BuiltInOf(counted.key))) return places_.TakeKey(full, counted.counts);
  if (!counted.counts && !counted.followed && !keys_.contains(full)) return;
  Key& key = keys_[full];
  const bool other = key.counts != counted.counts || key.followed != counted.followed;
  key.counts = counted.counts;
  key.followed = counted.followed;
  key.round = counted.round;
  Put(full, Key(key));
  if (!other) return;
  numbers_.Track(counted.ns, counted.key, counted.counts, counted.followed);
  changed_.insert(full);
  Enrol(full, {counted.counts, counted.followed, 0, 0, {}});
  counts_.Sync();
}

void LimitCensus::Enrol(const std::string& full, const Key& key) {
  if (!OfCause(SplitKey(full).second) || (!key.counts && !key.followed)) return;
  enrolling_.emplace_back(full, LimitHolders::Name());
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

// Home is told of those that are to be enrolled before it is told that these are all.
void LimitCensus::AnswerHome() {
  std::erase_if(to_answer_, [this](const auto& one) {
    const auto enrols = [&](const auto& other) { return other.first == one.first; };
    if (std::ranges::any_of(enrolling_, enrols)) return false;
    const auto [ns, key] = SplitKey(one.first);
    /*mutant message-limit-round-not-answered*/ messages_.Send(
        kHome, {rows::Message::Held{ns, key, 0, one.second}}); /*end*/
    return true;
  });
}

}  // namespace dfsmr
