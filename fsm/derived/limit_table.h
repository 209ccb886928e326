// Who holds the keys of limits, who waits for them, and whose turn it is. Derived from the live
// instances, kept in memory, rebuilt at start. It never looks at an instance.
//
// Those that wait for the same set of keys stand in one line, in the order of their turns: higher
// priority first, then order of start. A line is parked at one key that has no room. When that key
// has room again, the parked line whose first has the best turn is looked at: either all its keys
// have room, and its first is next, or the line moves on to a key that has none. So freeing a place
// costs the same for ten and for a million that wait, nobody passes one that lacks only this key,
// and one that lacks another, too, keeps its place. Paused ones stand aside, and keep theirs.
//
// Members of a group that have not begun have lines of their own, which are not looked at while the
// group is closed: else each of a million members would be called, only to be held back.
//
// An instance holds a key as a whole (visit 0) and by its tokens; it counts once.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/machine/limit.h"

namespace dfsmr {

class LimitTable {
 public:
  struct Turn {
    int32_t priority = 0;
    uint64_t order = 0;  // of the instance's start
    uint64_t visit = 0;  // of the token; 0: the instance as a whole
    friend bool operator==(const Turn&, const Turn&) = default;
    friend bool operator<(const Turn& a, const Turn& b) {
      if (a.priority != b.priority) return a.priority > b.priority;
      return std::pair(a.order, a.visit) < std::pair(b.order, b.visit);
    }
  };
  // How one stands in a line.
  enum class Standing : uint8_t {
    kWaits,
    kPaused,  // aside, until it goes on
    kAsks,    // ready, with room so far: it asks when it is handed out
  };
  struct Holding {
    uint64_t visit = 0;
    Timestamp since;
    bool forced = false;
  };
  struct Holder {
    std::string_view instance;
    const std::vector<Holding>& holdings;
  };
  // One in a line.
  struct Waiter {
    std::string ns;
    std::string instance;
    Turn turn;
    Timestamp since;
    Standing standing = Standing::kWaits;
    std::string group;  // that holds it back while it is closed; empty: none
    std::vector<std::string> keys;
  };

  LimitTable();
  ~LimitTable();
  LimitTable(const LimitTable&) = delete;
  LimitTable& operator=(const LimitTable&) = delete;

  // The numbers that count for a key; a key of which nothing is known has room.
  // What a rate has let begin keeps its weight under another rate; at most as much is missing as
  // that lets begin at once.
  void SetNumbers(std::string_view ns, std::string_view key, const LimitNumbers& numbers,
                  Timestamp now);
  // Whether it is known: somebody holds it or waits for it, or somebody else counts its holders.
  bool Knows(std::string_view ns, std::string_view key) const { return Find(ns, key) != nullptr; }
  LimitNumbers NumbersOf(std::string_view ns, std::string_view key) const;
  // The numbers of the last that asked for the key, as long as somebody holds it or waits for it.
  void SetAsker(std::string_view ns, std::string_view key, const LimitNumbers& numbers);
  LimitNumbers AskerOf(std::string_view ns, std::string_view key) const;
  // Forgets the key if nobody holds it or waits for it.
  void Tidy(std::string_view ns, std::string_view key, Timestamp now);
  // Of a key whose holders somebody else counts: how many there are; nullopt: not any more.
  void SetCount(std::string_view ns, std::string_view key, std::optional<uint64_t> count);

  // Whether nobody is let in, since it is not known yet who holds the key; it is known meanwhile.
  void SetShut(std::string_view ns, std::string_view key, bool shut);

  void Take(std::string_view ns, std::string_view key, std::string_view instance,
            const Holding& holding);
  void Release(std::string_view ns, std::string_view key, std::string_view instance,
               uint64_t visit);
  // One more has begun: of a rate.
  void Spend(std::string_view ns, std::string_view key, Timestamp now);
  // When the rate's bucket is full again, which is all that is to be kept of it; nullopt: it is.
  std::optional<Timestamp> FullAt(std::string_view ns, std::string_view key, Timestamp now) const;
  void RestoreFullAt(std::string_view ns, std::string_view key, Timestamp at);

  // Puts one into the line of `keys`, or changes how it stands there. `group`: holds it back while
  // it is closed; empty: none does.
  void Stand(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn,
             std::string_view instance, Timestamp since, Standing standing,
             std::string_view group = {});
  void Leave(std::string_view ns, const std::vector<LimitKey>& keys, const Turn& turn,
             std::string_view group = {});
  void SetClosed(std::string_view ns, std::string_view group, bool closed);
  bool IsClosed(std::string_view ns, std::string_view group) const;

  // From now on NextChanged names the key when other instances hold it than before, or its numbers
  // are others; -1: once less. The key is known while it is watched.
  void Watch(std::string_view ns, std::string_view key, int by);
  // The next key that is watched and has changed, as ns\0key.
  std::optional<std::string> NextChanged();

  // Whether one more instance may hold the key; `instance` may if it does already.
  bool HasRoom(std::string_view ns, std::string_view key, std::string_view instance,
               Timestamp now) const;
  bool HasPlace(std::string_view ns, std::string_view key, std::string_view instance) const;
  bool Holds(std::string_view ns, std::string_view key, std::string_view instance) const;
  // Whether its room may be somebody's turn: Next has not looked at it since it was freed.
  bool Awaited(std::string_view ns, std::string_view key) const;
  // When the rate lets the next one begin; the past: now.
  Timestamp NextToken(std::string_view ns, std::string_view key) const;
  // How many the rate lets begin at once.
  double TokensOf(std::string_view ns, std::string_view key, Timestamp now) const;
  // Instances that hold it.
  uint64_t Used(std::string_view ns, std::string_view key) const;
  // How many stand in lines for it and are not paused, whatever they lack.
  uint64_t InLine(std::string_view ns, std::string_view key) const;
  // How many lack it, paused ones too.
  uint64_t Waiting(std::string_view ns, std::string_view key, Timestamp now) const;
  // How many of those that wait for it have an earlier turn.
  uint64_t Ahead(std::string_view ns, std::string_view key, const Turn& turn, size_t most) const;

  // In the order of their ids, after `after` (empty: all), until `visit` returns false.
  void ForEachHolder(std::string_view ns, std::string_view key, std::string_view after,
                     const std::function<bool(const Holder&)>& visit) const;
  // In the order of their turns, after `after`, until `visit` returns false. Not those that ask.
  void ForEachWaiter(std::string_view ns, std::string_view key, const std::optional<Turn>& after,
                     const std::function<bool(const Waiter&)>& visit) const;
  // The keys of a namespace that somebody holds or stands in a line for, from `from` on.
  void ForEachKey(std::string_view ns, std::string_view from,
                  const std::function<bool(std::string_view key)>& visit) const;

  // The same of those that somebody waits for, paused or not, whatever it lacks.
  void ForEachAwaited(std::string_view ns, std::string_view from,
                      const std::function<bool(std::string_view key)>& visit) const;

  // The next whose turn it is; it stays in its line until it leaves. nullopt: it is nobody's turn.
  std::optional<Waiter> Next(Timestamp now);
  // The next that asks for a key without room; it stays in its line until it leaves.
  std::optional<Waiter> NextTurnedAway(Timestamp now);
  // When a rate lets one more begin that somebody waits for; kNever: nobody waits for a rate.
  Timestamp Due() const { return due_.empty() ? kNever : due_.begin()->first; }
  // Looks again at the keys whose time has come.
  void FireDue(Timestamp now);

 private:
  struct Key;
  struct Line;
  struct Packed;
  using LinePlace = std::pair<Turn, uint64_t>;  // of its first, and its number

  Key* Find(std::string_view ns, std::string_view key) const;
  Key& At(std::string_view ns, std::string_view key);
  static std::string LineName(std::string_view ns, const std::vector<LimitKey>& keys,
                              std::string_view group);
  Line& LineOf(std::string_view ns, const std::vector<LimitKey>& keys, std::string_view group);
  static bool HasPlace(const Key& key);
  static Timestamp NextToken(const Key& key);
  static bool HasRoom(const Key& key, Timestamp now);
  // Takes one out of a line, however it stands there.
  void Drop(Line& line, const Turn& turn);
  // One more or less stands in a line.
  void Count(Line& line, Standing standing, int by);
  // Tells the keys of a line of its first.
  static void TellFirst(Line& line, Standing standing);
  void Changed(Key& key);
  void Park(Line& line, Key* at);
  void Unpark(Line& line);
  // The line's first has changed.
  void Replace(Line& line);
  void Freed(Key& key);
  void PlaceFreed(Key& key);
  void DropFreed(Key& key);
  Key* BestFreed(Timestamp now);
  void Filled(Key& key);
  void Await(Key& key, Timestamp next);
  void DropLine(Line& line);
  void DropKey(Key& key, Timestamp now);
  void LeaveLine(Line& line, const Turn& turn);
  Waiter WaiterOf(const Line& line, const Turn& turn, const Packed& packed,
                  Standing standing) const;

  absl::btree_map<std::string, std::unique_ptr<Key>> keys_;  // by ns\0key
  std::map<std::string, std::unique_ptr<Line>> lines_;       // by ns\0group\0key\0key…
  std::map<uint64_t, Line*> by_number_;
  uint64_t last_line_ = 0;
  // Keys that may have room for a line that is parked there, by the first of those.
  std::map<std::pair<LinePlace, std::string>, Key*> freed_;
  std::deque<std::string> filled_;  // keys that may have no room for one that asks
  std::set<std::pair<Timestamp, std::string>> due_;
  struct Group {
    bool closed = false;
    std::set<uint64_t> lines;
  };
  std::map<std::string, Group> groups_;        // that are closed or have lines, by ns\0group
  absl::btree_set<std::string_view> awaited_;  // names of keys
  std::set<std::string> changed_;              // names of keys that are watched
};

}  // namespace dfsmr
