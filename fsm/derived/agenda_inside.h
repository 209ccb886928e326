// What the sources of the agenda share. Included by them only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fsm/derived/agenda.h"

namespace dfsmr {

class Agenda::Queue {
 public:
  Queue(const QueueKey& k, uint64_t n) : key(k), number(n) {}

  bool empty() const { return levels.empty(); }
  int64_t priority() const { return levels.begin()->first; }
  Timestamp oldest() const { return levels.begin()->second.front().since; }

  QueueKey key;
  const uint64_t number;  // orders equals: by address no two runs would be alike
  bool kept = false;      // somebody remembers it
  std::map<int64_t, std::deque<ReadyEntry>, std::greater<>> levels;  // by priority, none empty
  uint64_t served = 0;                                               // tick of the last hand-out
  bool frozen = false;                                               // with its namespace
  bool held = false;                                                 // see SetHeld
  int closed = 0;                                                    // how many of its gates are
  std::vector<Group*> groups;                                        // the filters that match it
  struct Place {
    int64_t priority = 0;
    Timestamp oldest;
    uint64_t served = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::optional<Place> place;  // as the groups know it; none: it is empty
};

struct Agenda::Rank {
  int64_t priority;
  int64_t turn;  // the lower the sooner
  Queue* queue;
};

struct Agenda::RankLess {
  bool operator()(const Rank& a, const Rank& b) const {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.turn != b.turn) return a.turn < b.turn;
    return a.queue->number < b.queue->number;
  }
};

struct Agenda::Group {
  // Takes up or leaves the groups with work, as it may have it now.
  void Note(std::set<Group*>* matched) {
    if (waiters.empty() || ranks.empty()) {
      matched->erase(this);
    } else {
      matched->insert(this);
    }
  }

  // Of one machine the oldest is next; of several their queues take turns.
  Rank RankOf(Queue* queue, const Queue::Place& place) const {
    const bool several = /*mutant machines-take-no-turns*/ filter.machine.empty() /*end*/;
    const int64_t turn = several ? static_cast<int64_t>(place.served) : Micros(place.oldest);
    return {place.priority, turn, queue};
  }

  Filter filter;
  std::set<Rank, RankLess> ranks;  // the queues with work
  std::list<Waiter> waiters;       // longest waiting first
  uint64_t used = 0;
  Timestamp asked;  // when it was asked for last
};

// A name of a namespace, as one text.
inline std::string NameIn(std::string_view ns, std::string_view name) {
  std::string text(ns);
  text += '\0';
  text += name;
  return text;
}

}  // namespace dfsmr
