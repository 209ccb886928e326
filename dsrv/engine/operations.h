// Operations: attempts in the hands of agents. An operation whose visit is over, because its
// instance has stopped or another report won, is a leftover until its agent says that it has ended:
// the order to stop is kept on disk, and told again when the agent comes back.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/agent_views.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

class Operations : public Part {
 public:
  using AgentName = std::pair<std::string, std::string>;  // ns, name

  Operations(OpenTurn& turn, Residents& residents, Changer& changer, Claims& claims, Desk& desk)
      : turn_(turn), residents_(residents), changer_(changer), claims_(claims), desk_(desk) {}

  Result<Ok> Recover();

  // What the agent says of an order. `ended`: no process of the operation lives any more.
  void Told(const AgentName& agent, const std::string& instance, const ClaimRef& claim, bool ended);
  // A report or a give-back of a claim whose visit is over: its operation has ended.
  void EndedLate(const ClaimRef& claim);
  // Orders what a stopped instance has left behind to be killed. False: it has left nothing.
  bool Kill(const std::string& ns, const std::string& instance);
  // From now on only what this session has begun is in the agent's hands: the processes of others
  // are gone, and so is what they left. Empty: the agent has none. Call it before Load.
  void Follow(const AgentName& agent, const std::string& session);
  // Tells the agent's new stream all orders that are not done.
  void Repeat(const AgentName& agent, SessionId stream);

  size_t LeftoversOf(const std::string& ns, const std::string& instance) const;
  // The claims that the agent has begun, and their visits.
  struct Begun {
    std::string instance;
    uint64_t visit;
    std::string text;
  };
  std::map<ClaimId, Begun> BegunBy(const AgentName& agent) const;
  size_t CountBy(const AgentName& agent, SessionId stream) const;
  // Those of `agents`, each with its stream (0: it has none), by claim_time.
  std::vector<OperationView> List(const OperationQuery& query,
                                  const std::vector<std::pair<AgentName, SessionId>>& agents);

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;

 private:
  void Note(const Instance& instance, uint64_t visit, const Claim& claim);
  void Leave(const Change& change, const Token& token, const Claim& claim);
  void Add(rows::LeftoverRow row);
  void Drop(ClaimId id);
  bool ViewOf(const std::string& ns, const Begun& begun, ClaimId id, OperationView* view);

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  Claims& claims_;
  Desk& desk_;
  std::map<AgentName, std::string> sessions_;
  std::map<AgentName, std::map<ClaimId, Begun>> begun_;  // of these sessions
  std::map<ClaimId, rows::LeftoverRow> leftovers_;
  std::map<AgentName, std::set<ClaimId>> by_agent_;
  std::map<std::pair<std::string, std::string>, std::set<ClaimId>> by_instance_;
};

}  // namespace dfsmr
