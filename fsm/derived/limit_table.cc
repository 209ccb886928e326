#include "fsm/derived/limit_table.h"

#include <algorithm>
#include <cmath>

#include "fsm/base/result.h"
#include "fsm/derived/limit_table_inside.h"

namespace dfsmr {
namespace {

// What is missing in a rate's bucket, as the time until it is full, by another rate: so many
// tokens, and at most all.
Duration Rescaled(Duration missing, const Rate& from, const Rate& to) {
  const double tokens = static_cast<double>(missing.count()) /
                        static_cast<double>(std::max<int64_t>(1, from.Spacing().count()));
  const double time = std::ceil(tokens * static_cast<double>(to.Spacing().count()));
  const Duration all = to.Span(to.burst);
  if (time >= static_cast<double>(all.count())) return all;
  return Duration(static_cast<int64_t>(time));
}

}  // namespace

LimitTable::LimitTable() = default;
LimitTable::~LimitTable() = default;

LimitTable::Key* LimitTable::Find(std::string_view ns, std::string_view key) const {
  auto it = keys_.find(FullName(ns, key));
  return it == keys_.end() ? nullptr : it->second.get();
}

LimitTable::Key& LimitTable::At(std::string_view ns, std::string_view key) {
  std::unique_ptr<Key>& at = keys_[FullName(ns, key)];
  if (!at) {
    at = std::make_unique<Key>();
    at->name = FullName(ns, key);
  }
  return *at;
}

// Room -------------------------------------------------------------------------------------------

bool LimitTable::HasPlace(const Key& key) {
  if (key.shut) return false;
  return !key.numbers.max ||
         /*mutant one-more-than-max*/ key.Used() < *key.numbers.max /*end*/;
}

Timestamp LimitTable::NextToken(const Key& key) {
  const auto& rate = key.numbers.rate;
  if (!rate || key.full_at == Timestamp()) return {};
  return key.full_at - rate->Span(rate->burst - 1);
}

bool LimitTable::HasRoom(const Key& key, Timestamp now) {
  return HasPlace(key) && /*mutant rate-ignored*/ NextToken(key) <= now /*end*/;
}

bool LimitTable::Holds(std::string_view ns, std::string_view key, std::string_view instance) const {
  const Key* at = Find(ns, key);
  return at && at->holders.contains(instance);
}

bool LimitTable::HasRoom(std::string_view ns, std::string_view key, std::string_view instance,
                         Timestamp now) const {
  const Key* at = Find(ns, key);
  return !at || at->holders.contains(instance) || HasRoom(*at, now);
}

bool LimitTable::HasPlace(std::string_view ns, std::string_view key,
                          std::string_view instance) const {
  const Key* at = Find(ns, key);
  return !at || at->holders.contains(instance) || HasPlace(*at);
}

bool LimitTable::Awaited(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at && at->freed_at && !at->parked.empty();
}

Timestamp LimitTable::NextToken(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? NextToken(*at) : Timestamp();
}

uint64_t LimitTable::Used(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->Used() : 0;
}

uint64_t LimitTable::InLine(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->waiting() : 0;
}

uint64_t LimitTable::Waiting(std::string_view ns, std::string_view key, Timestamp now) const {
  const Key* at = Find(ns, key);
  return at && !HasRoom(*at, now) ? at->waiting() + at->paused() : 0;
}

// Numbers ----------------------------------------------------------------------------------------

void LimitTable::SetNumbers(std::string_view ns, std::string_view key, const LimitNumbers& numbers,
                            Timestamp now) {
  Key& at = At(ns, key);
  if (at.numbers == numbers) return;
  if (numbers.rate && at.full_at > now) {
    Duration missing = std::min(at.full_at - now, numbers.rate->Span(numbers.rate->burst));
    if (at.numbers.rate) missing = Rescaled(at.full_at - now, *at.numbers.rate, *numbers.rate);
    at.full_at = now + missing;
  }
  at.numbers = numbers;
  Changed(at);
  /*mutant raised-lets-nobody-in*/ Freed(at); /*end*/
  Filled(at);
}

void LimitTable::SetAsker(std::string_view ns, std::string_view key, const LimitNumbers& numbers) {
  At(ns, key).asker = numbers;
}

LimitNumbers LimitTable::AskerOf(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->asker : LimitNumbers();
}

void LimitTable::Tidy(std::string_view ns, std::string_view key, Timestamp now) {
  if (Key* at = Find(ns, key)) DropKey(*at, now);
}

LimitNumbers LimitTable::NumbersOf(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->numbers : LimitNumbers();
}

void LimitTable::SetCount(std::string_view ns, std::string_view key,
                          std::optional<uint64_t> count) {
  Key& at = At(ns, key);
  const uint64_t before = at.Used();
  at.count = count;
  if (at.Used() < before) Freed(at);
  if (at.Used() > before) Filled(at);
  if (at.Used() != before) Changed(at);
  if (!count) DropKey(at, {});
}

void LimitTable::SetShut(std::string_view ns, std::string_view key, bool shut) {
  Key* const at = shut ? &At(ns, key) : Find(ns, key);
  if (!at || at->shut == shut) return;
  at->shut = shut;
  if (shut) return Filled(*at);
  Freed(*at);
  DropKey(*at, {});
}

// Holders ----------------------------------------------------------------------------------------

void LimitTable::Take(std::string_view ns, std::string_view key, std::string_view instance,
                      const Holding& holding) {
  Key& at = At(ns, key);
  const auto [holder, fresh] = at.holders.try_emplace(std::string(instance));
  if (fresh) Changed(at);
  std::vector<Holding>& holdings = holder->second;
  auto same = std::ranges::find(holdings, holding.visit, &Holding::visit);
  if (same == holdings.end()) {
    holdings.push_back(holding);
  } else {
    *same = holding;
  }
  Filled(at);
}

void LimitTable::Release(std::string_view ns, std::string_view key, std::string_view instance,
                         uint64_t visit) {
  Key* at = Find(ns, key);
  if (!at) return;
  auto holder = at->holders.find(instance);
  if (holder == at->holders.end()) return;
  std::vector<Holding>& holdings = holder->second;
  std::erase_if(holdings, [visit](const Holding& one) { return one.visit == visit; });
  if (!holdings.empty()) return;
  at->holders.erase(holder);
  Changed(*at);
  /*mutant limit-not-handed-on*/ Freed(*at); /*end*/
  DropKey(*at, {});
}

// Rates ------------------------------------------------------------------------------------------

void LimitTable::Spend(std::string_view ns, std::string_view key, Timestamp now) {
  Key& at = At(ns, key);
  if (!at.numbers.rate) return;
  at.full_at = After(std::max(at.full_at, now), at.numbers.rate->Spacing());
  Filled(at);
}

std::optional<Timestamp> LimitTable::FullAt(std::string_view ns, std::string_view key,
                                            Timestamp now) const {
  const Key* at = Find(ns, key);
  if (!at || at->full_at <= now) return std::nullopt;
  return at->full_at;
}

void LimitTable::RestoreFullAt(std::string_view ns, std::string_view key, Timestamp at) {
  At(ns, key).full_at = at;
}

void LimitTable::Await(Key& key, Timestamp next) {
  if (key.due && *key.due == next) return;
  if (key.due) due_.erase({*key.due, key.name});
  key.due = next;
  due_.emplace(next, key.name);
}

void LimitTable::FireDue(Timestamp now) {
  while (Due() <= now) {
    const std::string name = due_.begin()->second;
    due_.erase(due_.begin());
    auto it = keys_.find(name);
    if (it == keys_.end()) continue;
    it->second->due.reset();
    Freed(*it->second);
    DropKey(*it->second, now);
  }
}

// Lines ------------------------------------------------------------------------------------------

std::string LimitTable::LineName(std::string_view ns, const std::vector<LimitKey>& keys,
                                 std::string_view group) {
  std::vector<std::string_view> names;
  for (const LimitKey& key : keys) names.push_back(key.key);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string name = FullName(ns, group);
  for (std::string_view key : names) name.append(1, '\0').append(key);
  return name;
}

LimitTable::Line& LimitTable::LineOf(std::string_view ns, const std::vector<LimitKey>& keys,
                                     std::string_view group) {
  std::string name = LineName(ns, keys, group);
  std::unique_ptr<Line>& line = lines_[name];
  if (line) return *line;
  line = std::make_unique<Line>();
  line->number = ++last_line_;
  line->name = std::move(name);
  by_number_[line->number] = line.get();
  if (!group.empty()) {
    line->group = FullName(ns, group);
    Group& of = groups_[line->group];
    of.lines.insert(line->number);
    line->closed = of.closed;
  }
  std::string_view rest = std::string_view(line->name).substr(ns.size() + group.size() + 1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view key = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(key.size());
    line->keys.push_back(&At(ns, key));
    ++line->keys.back()->lines;
  }
  return *line;
}

void LimitTable::Count(Line& line, Standing standing, int by) {
  for (Key* key : line.keys) {
    const bool was = key->waiting() + key->paused() > 0;
    key->standing[Index(standing)] += static_cast<uint64_t>(int64_t{by});
    const bool is = key->waiting() + key->paused() > 0;
    if (is && !was) awaited_.insert(key->name);
    if (was && !is) awaited_.erase(key->name);
  }
  TellFirst(line, standing);
}

void LimitTable::TellFirst(Line& line, Standing standing) {
  const auto& entries = line.standing[Index(standing)];
  std::optional<Turn>& told = line.first[Index(standing)];
  std::optional<Turn> first;
  if (!entries.empty()) first = entries.begin()->first;
  if (first == told) return;
  for (Key* key : line.keys) {
    std::set<LinePlace>& lines = key->by_first[Index(standing)];
    if (told) lines.erase({*told, line.number});
    if (first) lines.insert({*first, line.number});
  }
  told = first;
}

void LimitTable::Drop(Line& line, const Turn& turn) {
  for (Standing standing : {Standing::kWaits, Standing::kPaused, Standing::kAsks}) {
    if (line.standing[Index(standing)].erase(turn) > 0) Count(line, standing, -1);
  }
}

void LimitTable::Stand(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn,
                       std::string_view instance, Timestamp since, Standing standing,
                       std::string_view group) {
  Check(!keys.empty(), "one waits for a key");
  Line& line = LineOf(ns, keys, group);
  Drop(line, turn);
  line.standing[Index(standing)].emplace(turn, Packed(instance, since));
  Count(line, standing, +1);
  if (standing == Standing::kAsks) {
    for (Key* key : line.keys) Filled(*key);
  }
  Replace(line);
}

void LimitTable::Leave(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn,
                       std::string_view group) {
  if (keys.empty()) return;
  const auto leave = [&](std::string_view of) {
    const auto line = lines_.find(LineName(ns, keys, of));
    if (line != lines_.end()) LeaveLine(*line->second, turn);
  };
  leave("");
  if (!group.empty()) leave(group);
}

void LimitTable::LeaveLine(Line& line, const Turn& turn) {
  Drop(line, turn);
  Replace(line);
  if (line.empty()) DropLine(line);
}

void LimitTable::SetClosed(std::string_view ns, std::string_view group, bool closed) {
  const std::string name = FullName(ns, group);
  auto it = groups_.find(name);
  if (it == groups_.end()) {
    if (!closed) return;
    it = groups_.emplace(name, Group()).first;
  }
  if (std::exchange(it->second.closed, closed) == closed) return;
  for (uint64_t number : it->second.lines) {
    Line& line = *by_number_.at(number);
    line.closed = closed;
    Replace(line);
  }
  if (!closed && it->second.lines.empty()) groups_.erase(it);
}

bool LimitTable::IsClosed(std::string_view ns, std::string_view group) const {
  const auto it = groups_.find(FullName(ns, group));
  return it != groups_.end() && it->second.closed;
}

// Watching ---------------------------------------------------------------------------------------

void LimitTable::Watch(std::string_view ns, std::string_view key, int by) {
  Key& at = At(ns, key);
  at.watched += static_cast<uint64_t>(int64_t{by});
  if (by > 0) return Changed(at);
  DropKey(at, {});
}

void LimitTable::Changed(Key& key) {
  if (key.watched > 0) changed_.insert(key.name);
}

std::optional<std::string> LimitTable::NextChanged() {
  if (changed_.empty()) return std::nullopt;
  return std::move(changed_.extract(changed_.begin()).value());
}

// Parking ----------------------------------------------------------------------------------------

void LimitTable::Unpark(Line& line) {
  if (!line.at) return;
  Key& key = *line.at;
  key.parked.erase({*line.place, line.number});
  if (key.freed_at && !key.parked.empty()) PlaceFreed(key);
  line.at = nullptr;
  line.place.reset();
}

void LimitTable::Park(Line& line, Key* at) {
  Unpark(line);
  line.at = at;
  line.place = line.waiting().begin()->first;
  at->parked.insert({*line.place, line.number});
  if (at->freed_at) PlaceFreed(*at);
}

void LimitTable::Replace(Line& line) {
  if (line.waiting().empty() || line.closed) return Unpark(line);
  if (line.at && line.place == line.waiting().begin()->first) return;
  Key* at = line.at ? line.at : line.keys.front();
  Park(line, at);
  Freed(*at);  // it may be its first's turn at once
}

void LimitTable::DropLine(Line& line) {
  Unpark(line);
  by_number_.erase(line.number);
  if (!line.group.empty()) {
    const auto group = groups_.find(line.group);
    group->second.lines.erase(line.number);
    if (!group->second.closed && group->second.lines.empty()) groups_.erase(group);
  }
  const std::vector<Key*> keys = line.keys;
  for (Key* key : keys) --key->lines;
  lines_.erase(lines_.find(line.name));
  for (Key* key : keys) DropKey(*key, {});
}

void LimitTable::DropKey(Key& key, Timestamp now) {
  const bool used = !key.holders.empty() || key.lines > 0 || key.count || key.freed_at ||
                    key.in_filled || key.watched > 0 || key.shut;
  if (used) return;
  if (key.full_at > now) return Await(key, key.full_at);  // to be forgotten later
  if (key.due) due_.erase({*key.due, key.name});
  keys_.erase(keys_.find(key.name));
}

// Turns ------------------------------------------------------------------------------------------

void LimitTable::Freed(Key& key) {
  if (!key.parked.empty()) PlaceFreed(key);
}

void LimitTable::Filled(Key& key) {
  if (key.asking() == 0 || std::exchange(key.in_filled, true)) return;
  filled_.push_back(key.name);
}

void LimitTable::PlaceFreed(Key& key) {
  DropFreed(key);
  key.freed_at = *key.parked.begin();
  freed_.emplace(std::pair(*key.freed_at, key.name), &key);
}

void LimitTable::DropFreed(Key& key) {
  if (key.freed_at) freed_.erase({*key.freed_at, key.name});
  key.freed_at.reset();
}

// Of the keys that have been freed and have room, that with the best turn: one that lacks several of
// them goes before those that lack one. Drops those before it from the list.
LimitTable::Key* LimitTable::BestFreed(Timestamp now) {
  while (!freed_.empty()) {
    Key* key = freed_.begin()->second;
    if (!key->parked.empty() && HasRoom(*key, now)) return key;
    DropFreed(*key);
    if (!key->parked.empty() && HasPlace(*key)) Await(*key, NextToken(*key));
    DropKey(*key, now);
  }
  return nullptr;
}

std::optional<LimitTable::Waiter> LimitTable::Next(Timestamp now) {
  while (Key* key = BestFreed(now)) {
    Line& line = *by_number_.at(key->parked.begin()->second);
    auto full = std::ranges::find_if(line.keys, [&](Key* one) { return !HasRoom(*one, now); });
    if (full == line.keys.end()) {
      const auto& [turn, packed] = *line.waiting().begin();
      return WaiterOf(line, turn, packed, Standing::kWaits);
    }
    /*mutant line-stays-parked*/ Park(line, *full); /*end*/
    if (HasPlace(**full)) Await(**full, NextToken(**full));
  }
  return std::nullopt;
}

std::optional<LimitTable::Waiter> LimitTable::NextTurnedAway(Timestamp now) {
  while (!filled_.empty()) {
    auto it = keys_.find(filled_.front());
    Key* key = it == keys_.end() ? nullptr : it->second.get();
    if (key && key->asking() > 0 && !HasRoom(*key, now)) {
      const Line& line = *by_number_.at(key->by_first[Index(Standing::kAsks)].begin()->second);
      const auto& [turn, packed] = *line.asking().begin();
      return WaiterOf(line, turn, packed, Standing::kAsks);
    }
    filled_.pop_front();
    if (!key) continue;
    key->in_filled = false;
    DropKey(*key, now);
  }
  return std::nullopt;
}

}  // namespace dfsmr
