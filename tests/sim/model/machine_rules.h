// What the contract's page on machines says of one instance of a plain machine, as code that is
// slow and plain. A function changes the life and adds what the feed must tell of it. Those that
// may be refused answer a reason, kNone when all is well, and have changed nothing when they
// refuse.
#pragma once

#include <string>

#include "fsm/machine/machine.h"
#include "fsm/rules/rules.h"
#include "tests/sim/model/life.h"

namespace dfsmr::model {

// A worker's claim that is shown; `known`: it is one that was handed out for this instance.
struct Shown {
  bool given = false;  // false: the call shows none
  bool known = false;
  uint64_t visit = 0;
  ClaimId id;
};

class MachineRules {
 public:
  MachineRules(const Machine& machine, Life& life, Timestamp now)
      : machine_(machine), life_(life), now_(now) {}

  void Begin();
  void Schedule();
  Reason Report(const Shown& claim, const ReportArgs& args, Answer* answer);
  Reason Relinquish(const Shown& claim, std::string* node);
  Reason Extend(const Shown& claim, Timestamp* deadline, bool by_given, Timestamp answered);
  Reason Pause();
  Reason Resume(const std::string& node, bool force, bool* begins);
  // Of a stopped one. `late`: what was reported meanwhile, to be reported now.
  Reason Continue(const std::string& node, bool force, std::vector<ReportArgs>* late);
  Reason Skip(const std::string& node);
  Reason Cancel(CancelMode mode);
  void Claim(Stand& stand, Claimed claim);
  void Unclaim(Stand& stand, ClaimId id, bool told);
  void GiveBack(Stand& stand, Claimed& claim);
  void TakeAllBack(Stand& stand);
  void Free(Stand& stand);
  void TimeOut(Stand& stand, Claimed& claim);
  void EndWait(Stand& stand);
  void Unclaimed(Stand& stand);
  // Between two tries: the wait is over, if it may be by now.
  void MakeReady(Stand& stand, Timestamp by);
  bool IsWork(const Stand& stand) const;
  // How long the nth wait is, at least and at most.
  static std::pair<Duration, Duration> SpanOf(const DelayPolicy& delay, uint32_t n);
  // Whether a failure of this kind is tried again.
  static bool Meant(const RetryPolicy& retry, const std::string& kind);
  void Upgrade(const Machine& next, uint32_t version);
  void Abort();
  void Stop(InstanceResult result, const std::string& node, uint64_t visit);
  void StopCancelled();
  void StopIfCancelled();

 private:
  static InstanceResult ResultOf(const Node& node);
  Expected& Tell(ChangeKind kind, const std::string& node = "", uint64_t visit = 0);
  Expected& TellOf(ChangeKind kind, const Stand& stand, const Claimed& claim);
  Stand At(const std::string& node, uint64_t visit, const std::string& params) const;
  void Put(const Stand& stand);
  void Wait(Stand& stand, const DelayPolicy& delay, uint32_t n) const;
  Expected& Stay(const Stand& left, const Stand& stand, const std::string& by);
  void Abandoned(const Stand& stand, ClaimId winner, std::vector<Lasted>* samples);
  void GoOn(Stand& stand, bool force, size_t told, std::vector<ReportArgs>* late);
  void KeepLate(const Shown& claim, const ReportArgs& args);
  void StandAnew(const std::string& node, uint64_t visit);
  void Reported(const Shown& claim, const ReportArgs& args, const Stand& left, size_t first,
                Answer* answer);
  // Stays at its node, for another try, or held: a failure there. False: it moves on.
  bool Fail(const Stand& left, const ReportArgs& args);
  // The stand that a claim is about; null: it is stale.
  Stand* Held(const Shown& claim);
  Claimed* Recover(Stand& stand, ClaimId id);
  void Enter(const std::string& to, const std::string& prev, const std::string& transition,
             const std::string& params, bool announce = true);
  void Place(const Node& node, uint64_t visit, const std::string& params, size_t told);
  const Node* NodeOf(const std::string& name) const;
  // The edge of this name that the model takes, by a reading of its own of the few conditions that
  // machines are drawn with; null: there is none. `chosen`, when it had a choice.
  const Edge* EdgeOf(const Node& node, std::string_view name, const std::string& params,
                     bool* chosen = nullptr) const;
  // Says which choice the record tells of.
  void TellChoice(size_t told, const std::string& to, bool chosen);

  const Machine& machine_;
  Life& life_;
  const Timestamp now_;
};

}  // namespace dfsmr::model
