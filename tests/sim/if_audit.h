// Whether the steps of a plan that have an `if` were decided rightly, and in time; whether a plan
// waits for others after a failure, and stops, as it should; and whether what is skipped, or goes
// on after a pause, has a reason. A slow reading of the pages about conditions: it follows what one
// history says of each step, and decides by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/condition/condition.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

class IfAudit {
 public:
  using Expect = std::function<void(bool good, const std::string& what)>;
  struct Given {
    std::map<std::string, std::string> outputs;  // by step, as they are now
    std::string params;
    Timestamp now;
    bool goes_on = false;  // the server has something left to do without being asked
  };
  IfAudit(const PlanGraph& graph, Given given, Expect expect);

  // Of the present graph: what comes before it was planned does not count.
  void Check(const Instance& instance, const std::vector<Event>& history);

 private:
  // What is known of a step now.
  struct Fate {
    StepOutcome outcome = StepOutcome::kNone;
    bool dropped = false;  // skipped since its plan stops, until a resume
  };
  struct Stands {
    bool held = false;
    Timestamp since;      // held
    bool out_of = false;  // it was paused while the others' time ran out
  };

  void Take(const Event& event, const Event* last, const Event* next);
  void Leave(const Event& event);
  void Enter(const Event& event, const Event* next);
  void Skip(const Event& event, const Event* last, const Event* next);
  void Resume(const Event& event);
  void Decide(const Event& event, uint32_t step, const Event* next);
  void Doom(uint32_t step, bool by_if);
  void DoomGroup(uint32_t group, bool by_if);
  bool AtRest() const;
  bool Fails() const;
  void Finished(const Event& event);
  void Claimed(const Event& event);
  void GoesOn();
  void End(const Instance& instance);
  bool AllBeforeSettled(uint32_t place) const;

  // Absent: this cannot be told from here.
  std::optional<bool> Holds(const Condition& condition);
  std::optional<bool> HoldsValue(const Condition& condition);
  std::optional<bool> HoldsList(const Condition& condition);
  struct Value {
    bool known = true;
    std::optional<std::string> json;  // absent: it leads nowhere
  };
  Value ValueOf(const std::string& text);
  Value ValueAt(std::string_view reference);
  StepOutcome OutcomeOf(std::string_view name);
  StepOutcome OutcomeOfStep(uint32_t step);
  StepOutcome OutcomeOfGroup(uint32_t group, size_t* steps, size_t* skipped);
  const Step& StepAt(uint32_t index) const { return graph_.steps[index]; }
  std::optional<uint32_t> Find(const std::string& home) const;

  const PlanGraph& graph_;
  const Given given_;
  const Expect expect_;
  std::map<std::string, uint32_t> index_;        // steps by path
  std::vector<std::vector<uint32_t>> before_;    // by place
  std::map<uint32_t, Fate> fates_;               // by step
  std::map<std::string, Stands> stands_;         // by home
  std::set<uint32_t> decided_;
  std::set<uint32_t> doomed_;                    // what they need was skipped
  std::set<uint32_t> left_out_;                  // by the `if` of a plan around them
  std::string unsettled_;                        // a step that a decision asked for too early
  std::optional<Duration> patience_;             // wait_after_fail
  std::optional<std::pair<Timestamp, std::string>> late_;  // a claim after that, and what is wrong
  bool finally_ = false;   // nothing could move, so that what is blocked counts as skipped
  bool stopping_ = false;  // wait_after_fail is over
  bool stopped_ = false;
  bool paused_ = false;
  bool by_hand_ = false;   // a call has paused it
  std::string id_;
};

}  // namespace dfsmr
