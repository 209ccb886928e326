// What a table of limits is made of. Included by its own sources only.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/derived/limit_table.h"

namespace dfsmr {

inline constexpr size_t kStandings = 3;

inline constexpr size_t Index(LimitTable::Standing standing) {
  return static_cast<size_t>(standing);
}

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
  bool shut = false;
  std::map<std::string, std::vector<Holding>, std::less<>> holders;
  Timestamp full_at;           // when the rate's bucket is full
  uint64_t lines = 0;          // that contain it
  std::set<LinePlace> parked;  // lines that are parked here
  // By standing: how many stand in lines that contain it, and these lines by the first of each.
  std::array<uint64_t, kStandings> standing{};
  std::array<std::set<LinePlace>, kStandings> by_first;
  uint64_t watched = 0;
  std::optional<LinePlace> freed_at;  // where it stands in freed_; absent: it does not
  bool in_filled = false;
  std::optional<Timestamp> due;

  uint64_t Used() const { return count.value_or(holders.size()); }
  uint64_t waiting() const { return standing[Index(Standing::kWaits)]; }
  uint64_t paused() const { return standing[Index(Standing::kPaused)]; }
  uint64_t asking() const { return standing[Index(Standing::kAsks)]; }
};

struct LimitTable::Line {
  uint64_t number = 0;
  std::string name;
  std::string group;  // ns\0group; empty: of none
  bool closed = false;
  std::vector<Key*> keys;
  std::array<absl::btree_map<Turn, Packed>, kStandings> standing;
  std::array<std::optional<Turn>, kStandings> first;  // of each, as its keys know it
  Key* at = nullptr;          // where it is parked; null: nobody waits in it
  std::optional<Turn> place;  // its first, as the parking place knows it

  const absl::btree_map<Turn, Packed>& waiting() const { return standing[Index(Standing::kWaits)]; }
  const absl::btree_map<Turn, Packed>& asking() const { return standing[Index(Standing::kAsks)]; }
  bool empty() const {
    return std::ranges::all_of(standing, [](const auto& entries) { return entries.empty(); });
  }
};

inline std::string FullName(std::string_view ns, std::string_view key) {
  std::string name;
  name.reserve(ns.size() + key.size() + 1);
  name += ns;
  name += '\0';
  name += key;
  return name;
}

}  // namespace dfsmr
