// Whether the steps of a plan that wait are woken by what comes first: by wake_after, a poll or
// their timeout, by events in their order; and whether errors of polls in a row end them. Read from
// one history, in which the simulator's workers say of a suspension: "wakes in 2000000".
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsm/plan/graph.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

class WaitAudit {
 public:
  using Expect = std::function<void(bool good, const std::string& what)>;
  WaitAudit(const PlanGraph& graph, Timestamp now, Expect expect);

  // Of the present graph: what comes before it was planned does not count.
  void Check(const Instance& instance, const std::vector<Event>& history);

 private:
  // A step that is not over.
  struct Open {
    uint64_t visit = 0;
    bool poll = false;       // its visit was begun by one
    uint32_t failures = 0;   // of polls, in a row
    uint32_t polls = 0;
    bool suspended = false;
    bool children = false;   // it waits for them, and for nothing else
    Timestamp since;         // suspended
    std::optional<Duration> wake_after;
    std::optional<Duration> retry_after;  // of a poll that has erred
    std::deque<std::pair<std::string, std::string>> inbox;  // events that wait, with their data
  };

  void Take(const Event& event, const Event* next);
  void Reported(const Event& event, const std::string& home, Open* open);
  void Suspended(const Event& event, const Event* next, const std::string& home, Open* open);
  void Woken(const Event& event, const std::string& home, Open* open);
  void End(const Instance& instance);
  // What ends the wait by itself, and when.
  std::optional<std::pair<std::string, Duration>> FirstOf(const StepAction& action,
                                                          const Open& open) const;
  const StepAction* ActionOf(const std::string& home) const;

  const PlanGraph& graph_;
  const Timestamp now_;
  const Expect expect_;
  std::map<std::string, Open> open_;  // by home
  std::string id_;
};

}  // namespace dfsmr
