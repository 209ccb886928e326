// What others read of a table of limits.
#include <algorithm>

#include "fsm/derived/limit_table_inside.h"

namespace dfsmr {

double LimitTable::TokensOf(std::string_view ns, std::string_view key, Timestamp now) const {
  const Key* at = Find(ns, key);
  if (!at || !at->numbers.rate) return 0;
  const Rate& rate = *at->numbers.rate;
  if (at->full_at <= now) return rate.burst;
  const double missing = static_cast<double>((at->full_at - now).count()) /
                         static_cast<double>(rate.Spacing().count());
  return std::max(0.0, rate.burst - missing);
}

uint64_t LimitTable::Ahead(std::string_view ns, std::string_view key, const Turn& turn,
                           size_t most) const {
  const Key* at = Find(ns, key);
  uint64_t ahead = 0;
  if (!at) return 0;
  for (const auto& [first, number] : at->by_first[Index(Standing::kWaits)]) {
    if (!(first < turn)) break;
    const auto& waiting = by_number_.at(number)->waiting();
    for (auto it = waiting.begin(); it != waiting.end() && it->first < turn; ++it) {
      if (++ahead == most) return ahead;
    }
  }
  return ahead;
}

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
  if (!line.group.empty()) waiter.group = line.group.substr(ns + 1);
  for (const Key* key : line.keys) waiter.keys.push_back(key->name.substr(ns + 1));
  return waiter;
}

void LimitTable::ForEachHolder(std::string_view ns, std::string_view key, std::string_view after,
                               const std::function<bool(const Holder&)>& visit) const {
  const Key* at = Find(ns, key);
  if (!at) return;
  for (auto it = at->holders.upper_bound(after); it != at->holders.end(); ++it) {
    if (!visit({it->first, it->second})) return;
  }
}

void LimitTable::ForEachWaiter(std::string_view ns, std::string_view key,
                               const std::optional<Turn>& after,
                               const std::function<bool(const Waiter&)>& visit) const {
  const Key* at = Find(ns, key);
  if (!at) return;
  struct Source {
    const Line* line;
    Standing standing;
    absl::btree_map<Turn, Packed>::const_iterator next;
  };
  std::multimap<Turn, Source> open;  // by their next
  const auto add = [&](Source source) {
    const auto& entries = source.line->standing[Index(source.standing)];
    if (source.next != entries.end()) open.emplace(source.next->first, source);
  };
  // A line is opened when the turn of its first has come: there may be thousands.
  const auto open_next = [&](Standing standing, std::set<LinePlace>::const_iterator* upcoming) {
    const auto& lines = at->by_first[Index(standing)];
    while (*upcoming != lines.end() && (open.empty() || (*upcoming)->first < open.begin()->first)) {
      const Line* line = by_number_.at((*upcoming)->second);
      const auto& entries = line->standing[Index(standing)];
      add({line, standing, after ? entries.upper_bound(*after) : entries.begin()});
      ++*upcoming;
    }
  };
  auto waiting = at->by_first[Index(Standing::kWaits)].begin();
  auto paused = at->by_first[Index(Standing::kPaused)].begin();
  while (true) {
    open_next(Standing::kWaits, &waiting);
    open_next(Standing::kPaused, &paused);
    if (open.empty()) return;
    Source source = open.begin()->second;
    open.erase(open.begin());
    const auto& [turn, packed] = *source.next;
    if (!visit(WaiterOf(*source.line, turn, packed, source.standing))) return;
    ++source.next;
    add(source);
  }
}

void LimitTable::ForEachAwaited(std::string_view ns, std::string_view from,
                                const std::function<bool(std::string_view)>& visit) const {
  const std::string prefix = FullName(ns, "");
  for (auto it = awaited_.lower_bound(FullName(ns, from));
       it != awaited_.end() && it->starts_with(prefix); ++it) {
    if (!visit(it->substr(prefix.size()))) return;
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
