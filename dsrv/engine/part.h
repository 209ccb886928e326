// What the parts of the engine have in common: the change of an instance that they hear of, and the
// verbs by which the engine conducts them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dsrv/engine/resident.h"
#include "fsm/rules/group.h"
#include "fsm/rules/rules.h"

namespace dfsmr {

// What an instance was before a change.
struct Before {
  explicit Before(const Resident& resident);

  InstanceState state;
  CancelMode cancel;
  ChildClass child;
  Waits waits;
  bool plan;        // whether it was of a plan
  bool open;        // whether edges of its plan were open
  Boxed<InstanceLimits> limits;
  MemberShare share;  // what it counted in its group
  VersionState* version;
  GraphPtr graph;
};

// A claim of a token that a change has touched. What has stopped has no claims.
struct ClaimChange {
  uint64_t visit;             // of its token
  const Token* token_before;  // null: the token is new
  const Token* token;         // null: it is gone
  const Claim* before;        // null: the claim is new
  const Claim* now;           // null: it is gone

  // Whether the property held of it before, and no longer does; whether it holds now.
  template <typename Property>
  bool Left(Property holds) const {
    return before && std::invoke(holds, *before) && !Has(holds);
  }
  template <typename Property>
  bool Has(Property holds) const {
    return now && std::invoke(holds, *now);
  }
};

// One change of one instance: what it was before the rule, and the states that it entered.
// `resident` has what it is now.
struct Change {
  Resident& resident;
  // The claim that a worker itself reports on or gives back; its stream is not told that it ended.
  ClaimId self;
  const std::vector<InstanceState>& entered;  // the states that it entered, in order
  const Before before;
  const std::vector<ClaimChange>& claims;  // of the tokens that it touched

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
  // After a change: notes what follows from it. Work changes other instances, Absorb does not.
  virtual void Absorb(const Change&) {}
  // At the beginning of each pass.
  virtual void BeginPass() {}
  // Does one thing that is due because of changes. False: nothing is due.
  virtual bool Work() { return false; }
};

}  // namespace dfsmr
