#include "fsm/derived/limit_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fsm/base/result.h"

namespace dfsmr {

// The time since when it waits, and its instance's id, in one block of bytes: there may be
// millions.
struct LimitTable::Packed {
  Packed(std::string_view instance, Timestamp since)
      : bytes(new char[sizeof(int64_t) + instance.size() + 1]) {
    const int64_t micros = Micros(since);
    std::memcpy(bytes.get(), &micros, sizeof micros);
    char* at = std::ranges::copy(instance, bytes.get() + sizeof micros).out;
    *at = '\0';
  }
  Timestamp since() const {
    int64_t micros = 0;
    std::memcpy(&micros, bytes.get(), sizeof micros);
    return FromMicros(micros);
  }
  const char* instance() const { return bytes.get() + sizeof(int64_t); }

  std::unique_ptr<char[]> bytes;
};

struct LimitTable::Key {
  std::string name;  // ns\0key
  LimitNumbers numbers;
  LimitNumbers asker;
  std::optional<uint64_t> count;  // of holders, by somebody else
  std::map<std::string, std::vector<Holding>, std::less<>> holders;
  Timestamp full_at;           // when the rate's bucket is full
  std::set<uint64_t> lines;    // that contain it
  std::set<LinePlace> parked;  // lines that are parked here
  uint64_t waiting = 0;        // in lines that contain it, by standing
  uint64_t paused = 0;
  uint64_t asking = 0;
  std::optional<LinePlace> freed_at;  // where it stands in freed_; absent: it does not
  bool in_filled = false;
  std::optional<Timestamp> due;

  uint64_t Used() const { return count.value_or(holders.size()); }
};

struct LimitTable::Line {
  uint64_t number = 0;
  std::string name;
  std::vector<Key*> keys;
  absl::btree_map<Turn, Packed> waiting;
  absl::btree_map<Turn, Packed> paused;
  absl::btree_map<Turn, Packed> asking;
  Key* at = nullptr;          // where it is parked; null: nobody waits in it
  std::optional<Turn> place;  // its first, as the parking place knows it

  bool empty() const { return waiting.empty() && paused.empty() && asking.empty(); }
};

namespace {

std::string FullName(std::string_view ns, std::string_view key) {
  std::string name;
  name.reserve(ns.size() + key.size() + 1);
  name += ns;
  name += '\0';
  name += key;
  return name;
}

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

double LimitTable::TokensOf(std::string_view ns, std::string_view key, Timestamp now) const {
  const Key* at = Find(ns, key);
  if (!at || !at->numbers.rate) return 0;
  const Rate& rate = *at->numbers.rate;
  if (at->full_at <= now) return rate.burst;
  const double missing = static_cast<double>((at->full_at - now).count()) /
                         static_cast<double>(rate.Spacing().count());
  return std::max(0.0, rate.burst - missing);
}

uint64_t LimitTable::Used(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->Used() : 0;
}

uint64_t LimitTable::InLine(std::string_view ns, std::string_view key) const {
  const Key* at = Find(ns, key);
  return at ? at->waiting : 0;
}

uint64_t LimitTable::Waiting(std::string_view ns, std::string_view key, Timestamp now) const {
  const Key* at = Find(ns, key);
  return at && !HasRoom(*at, now) ? at->waiting + at->paused : 0;
}

uint64_t LimitTable::Ahead(std::string_view ns, std::string_view key, const Turn& turn,
                           size_t most) const {
  const Key* at = Find(ns, key);
  uint64_t ahead = 0;
  if (!at) return 0;
  for (uint64_t number : at->lines) {
    const Line& line = *by_number_.at(number);
    for (auto it = line.waiting.begin(); it != line.waiting.end() && it->first < turn; ++it) {
      if (++ahead == most) return ahead;
    }
  }
  return ahead;
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
  if (!count) DropKey(at, {});
}

// Holders ----------------------------------------------------------------------------------------

void LimitTable::Take(std::string_view ns, std::string_view key, std::string_view instance,
                      const Holding& holding) {
  Key& at = At(ns, key);
  std::vector<Holding>& holdings = at.holders[std::string(instance)];
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

LimitTable::Line& LimitTable::LineOf(std::string_view ns, const std::vector<LimitKey>& keys) {
  std::vector<std::string_view> names;
  for (const LimitKey& key : keys) names.push_back(key.key);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string name(ns);
  for (std::string_view key : names) name.append(1, '\0').append(key);
  std::unique_ptr<Line>& line = lines_[name];
  if (line) return *line;
  line = std::make_unique<Line>();
  line->number = ++last_line_;
  line->name = std::move(name);
  by_number_[line->number] = line.get();
  for (std::string_view key : names) {
    line->keys.push_back(&At(ns, key));
    line->keys.back()->lines.insert(line->number);
  }
  return *line;
}

void LimitTable::Drop(Line& line, const Turn& turn) {
  const auto drop = [&](auto& from, uint64_t Key::*counter) {
    if (from.erase(turn) == 0) return;
    for (Key* key : line.keys) --(key->*counter);
  };
  drop(line.waiting, &Key::waiting);
  drop(line.paused, &Key::paused);
  drop(line.asking, &Key::asking);
}

void LimitTable::Stand(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn,
                       std::string_view instance, Timestamp since, Standing standing) {
  Check(!keys.empty(), "one waits for a key");
  Line& line = LineOf(ns, keys);
  Drop(line, turn);
  const auto add = [&](auto& to, uint64_t Key::*counter) {
    to.emplace(turn, Packed(instance, since));
    for (Key* key : line.keys) ++(key->*counter);
  };
  switch (standing) {
    case Standing::kWaits:
      add(line.waiting, &Key::waiting);
      break;
    case Standing::kPaused:
      add(line.paused, &Key::paused);
      break;
    case Standing::kAsks:
      add(line.asking, &Key::asking);
      for (Key* key : line.keys) Filled(*key);
      break;
  }
  Replace(line);
}

void LimitTable::Leave(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn) {
  if (keys.empty()) return;
  Line& line = LineOf(ns, keys);
  Drop(line, turn);
  Replace(line);
  if (line.empty()) DropLine(line);
}

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
  line.place = line.waiting.begin()->first;
  at->parked.insert({*line.place, line.number});
  if (at->freed_at) PlaceFreed(*at);
}

void LimitTable::Replace(Line& line) {
  if (line.waiting.empty()) return Unpark(line);
  if (line.at && line.place == line.waiting.begin()->first) return;
  Key* at = line.at ? line.at : line.keys.front();
  Park(line, at);
  Freed(*at);  // it may be its first's turn at once
}

void LimitTable::DropLine(Line& line) {
  Unpark(line);
  by_number_.erase(line.number);
  const std::vector<Key*> keys = line.keys;
  for (Key* key : keys) key->lines.erase(line.number);
  lines_.erase(lines_.find(line.name));
  for (Key* key : keys) DropKey(*key, {});
}

void LimitTable::DropKey(Key& key, Timestamp now) {
  const bool used =
      !key.holders.empty() || !key.lines.empty() || key.count || key.freed_at || key.in_filled;
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
  if (key.asking == 0 || std::exchange(key.in_filled, true)) return;
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
      const auto& [turn, packed] = *line.waiting.begin();
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
    if (key && key->asking > 0 && !HasRoom(*key, now)) {
      for (uint64_t number : key->lines) {
        const Line& line = *by_number_.at(number);
        if (line.asking.empty()) continue;
        const auto& [turn, packed] = *line.asking.begin();
        return WaiterOf(line, turn, packed, Standing::kAsks);
      }
    }
    filled_.pop_front();
    if (!key) continue;
    key->in_filled = false;
    DropKey(*key, now);
  }
  return std::nullopt;
}

// Views ------------------------------------------------------------------------------------------

LimitTable::Waiter LimitTable::WaiterOf(const Line& line, const Turn& turn, const Packed& packed,
                                        Standing standing) const {
  Waiter waiter;
  const std::string& name = line.keys.front()->name;
  const size_t ns = name.find('\0');
  waiter.ns = name.substr(0, ns);
  waiter.instance = packed.instance();
  waiter.turn = turn;
  waiter.since = packed.since();
  waiter.standing = standing;
  for (const Key* key : line.keys) waiter.keys.push_back(key->name.substr(ns + 1));
  return waiter;
}

void LimitTable::ForEachHolder(std::string_view ns, std::string_view key,
                               const std::function<bool(const Holder&)>& visit) const {
  const Key* at = Find(ns, key);
  if (!at) return;
  for (const auto& [instance, holdings] : at->holders) {
    if (!visit({instance, holdings})) return;
  }
}

void LimitTable::ForEachWaiter(std::string_view ns, std::string_view key,
                               const std::optional<Turn>& after,
                               const std::function<bool(const Waiter&)>& visit) const {
  const Key* at = Find(ns, key);
  if (!at) return;
  using Entries = absl::btree_map<Turn, Packed>;
  struct Source {
    const Line* line;
    const Entries* entries;
    Entries::const_iterator next;
    Standing standing;
  };
  std::map<Turn, Source> sources;  // by their next
  const auto add = [&](Source source) {
    if (source.next == source.entries->end()) return;
    const Turn turn = source.next->first;
    sources.emplace(turn, source);
  };
  for (uint64_t number : at->lines) {
    const Line* line = by_number_.at(number);
    for (auto [entries, standing] : {std::pair(&line->waiting, Standing::kWaits),
                                     std::pair(&line->paused, Standing::kPaused)}) {
      add({line, entries, after ? entries->upper_bound(*after) : entries->begin(), standing});
    }
  }
  while (!sources.empty()) {
    Source source = sources.begin()->second;
    sources.erase(sources.begin());
    const auto& [turn, packed] = *source.next;
    if (!visit(WaiterOf(*source.line, turn, packed, source.standing))) return;
    ++source.next;
    add(source);
  }
}

void LimitTable::ForEachKey(std::string_view ns, std::string_view from,
                            const std::function<bool(std::string_view)>& visit) const {
  const std::string prefix = FullName(ns, "");
  for (auto it = keys_.lower_bound(FullName(ns, from));
       it != keys_.end() && it->first.starts_with(prefix); ++it) {
    if (!visit(std::string_view(it->first).substr(prefix.size()))) return;
  }
}

}  // namespace dfsmr
