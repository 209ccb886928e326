// Deletes namespaces, in the background and some at a time, so that others are not disturbed. What
// is done is durable with the turn that does it, and where a deletion has come to follows from what
// is left, so it is carried on after a crash at any point:
//
//   DRAINING   nothing is taken or handed out; instances are cancelled, and what is claimed may be
//              reported until drain_until, then it is cancelled by force
//   DROPPING   nothing of it is live. Documents, agents, access tokens and stopped instances go,
//              then in one batch whatever else is left, with the name
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/space_views.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "storage/rows/message.h"

namespace dfsmr {

class Deletions {
 public:
  struct Below {  // what it is built on
    OpenTurn& turn;
    Spaces& spaces;
    Catalog& catalog;
    Documents& documents;
    Statistics& statistics;
    Residents& residents;
    Changer& changer;
    Agenda& agenda;
    Throttle& throttle;
    Upgrades& upgrades;
    Limits& limits;
    Groups& groups;
    Bulks& bulks;
    Agents& agents;
    Retention& retention;
    Measures& measures;
    Workers& workers;
    Packages& packages;
    Secrets& secrets;
    Messages& messages;
    const EngineOptions& options;
  };
  explicit Deletions(const Below& below) : b_(below) {}
  Deletions(const Deletions&) = delete;
  Deletions& operator=(const Deletions&) = delete;

  // From now on the namespace goes. Again: the state that it is in. Of one that is not there:
  // DELETED. BAD_REQUEST: it is "default". Call it by Engine::Delete, which has its schedules and
  // triggers rest.
  Result<SpaceView> Begin(const std::string& ns, Duration drain, const std::string& client);
  // What Begin would answer to, and its usage.
  Result<SpaceView> Preview(const std::string& ns) const;
  // At start: the deletions that were under way. Elsewhere than at home also when home's namespaces
  // were adopted.
  Result<Ok> Recover();
  // At home: another partition has nothing left of a namespace.
  void Emptied(PartitionId from, const rows::Message::Emptied& emptied);
  // Elsewhere: home has deleted it.
  void Gone(const rows::Message::Gone& gone);
  // Does a bounded amount of it.
  void Work();
  // When time ends a drain; when it is to look again by real time. kNever: no deletion waits.
  Timestamp Due() const;
  Timestamp ChoreDue() const { return going_.empty() ? kNever : look_again_; }

 private:
  struct Going {
    std::string client = {};
    std::string swept = {};      // instances up to this id were cancelled
    bool sweeping = true;        // there may be instances that are not cancelled
    bool found = false;          // one that had not stopped, in this sweep
    bool forced = false;         // the sweep is by force
    bool drained = false;        // all instances of this partition have stopped
    bool tokens = false;         // they are gone
    bool emptied = false;        // elsewhere: home was told that nothing is left
    Timestamp next_sweep = {};   // in real time
  };

  bool WorkOn(const std::string& ns, Going& going);
  // Home may be done with that before others are.
  bool Drains(const std::string& ns, const Going& going) const;
  void Drain(const std::string& ns, Going& going);
  // Cancels some. False: the sweep has come to its end.
  bool Sweep(const std::string& ns, Going& going);
  bool HasUnwritten(const std::string& ns) const;
  bool Drop(const std::string& ns, Going& going);
  bool DropDocuments(const std::string& ns);
  bool DropStopped(const std::string& ns);
  void DropTokens(const std::string& ns);
  bool AllEmptied(const std::string& ns) const;
  void DropRest(const std::string& ns);
  void ForgetMachines(const std::string& ns);

  const Below b_;
  std::map<std::string, Going> going_;
  // At home: which partitions have nothing left, of the namespace that was made then.
  std::map<std::pair<std::string, Timestamp>, std::set<PartitionId>> emptied_;
  Timestamp look_again_{};
};

}  // namespace dfsmr
