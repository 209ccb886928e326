// What the parts of the engine have in common: a change of one instance, and the verbs by which the
// engine conducts the parts.
#pragma once

#include <string>
#include <vector>

#include "dsrv/engine/residents.h"
#include "fsm/rules/rules.h"

namespace dfsmr {

// What an instance was before a change.
struct Before {
  explicit Before(const Resident& resident);

  InstanceState state;
  CancelMode cancel;
  ChildClass child;
  Waits waits;
  bool plan;        // it was of a plan
  std::string key;  // the singleton of its plan
  VersionState* version;
  GraphPtr graph;
};

// One change of one instance: what it was before the rule, and what it went through. What it is now
// is in `resident`.
struct Change {
  Resident& resident;
  // The claim that a worker itself reports on or gives back: its stream need not hear of its end.
  ClaimId self;
  const std::vector<InstanceState>& entered;  // the states that it entered, in order
  const Before before;

  const Instance& instance() const { return resident.instance; }
  const std::vector<Tokens::Touched>& touched() const { return resident.instance.tokens.touched(); }
  bool Cancelled() const { return instance().Cancelling() && before.cancel == CancelMode::kNone; }
  bool Stopped() const { return instance().Stopped() && before.state != InstanceState::kStopped; }
  bool Moved() const { return before.version != resident.version; }  // to another version
};

// A part owns its members, knows what its constructor is given, and hears of every change in the
// order that the engine lists the parts in. One thread.
class Part {
 public:
  virtual ~Part() = default;
  // At start, for each instance that has not stopped: what the part keeps of it in memory.
  virtual void Load(Resident&) {}
  // Before a rule runs on an instance of a plan: what the rule may know of others.
  virtual void Advise(Resident&, Scene*) {}
  // After a change: what follows from it. Other instances are changed in Work, not here.
  virtual void Absorb(const Change&) {}
  // At the begin of each pass.
  virtual void BeginPass() {}
  // Does one thing that is due because of changes. False: there is none.
  virtual bool Work() { return false; }
};

}  // namespace dfsmr
