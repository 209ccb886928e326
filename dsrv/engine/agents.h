// Agents: workers that the server knows by name. One process of a name is connected at a time.
// Where there are several partitions an agent has a stream with each: home decides who it is, and
// tells of it; the others count what it does there.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/agent_views.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/operations.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

struct AttachArgs {
  std::string ns;
  std::string name;
  rows::AgentRow row;  // what it says of itself, with its session
  Filter filter;
  WorkerTerms terms;
};

class Agents : public Part {
 public:
  Agents(OpenTurn& turn, Claims& claims, Sessions& sessions, Desk& desk, Operations& operations,
         const EngineOptions& options)
      : turn_(turn),
        claims_(claims),
        sessions_(sessions),
        desk_(desk),
        operations_(operations),
        options_(options) {}

  Result<Ok> Recover();

  struct Attached {
    SessionId stream;
    AgentView agent;
    std::vector<std::string> lost_claims;  // of its last session
  };
  // kAlreadyExists AGENT_EXISTS, kFailedPrecondition AGENT_EVICTED.
  Result<Attached> Attach(AttachArgs args, SessionSink sink);
  // A message has come on the stream.
  void Heard(SessionId stream);
  void Stopping(SessionId stream, const std::string& instance, const ClaimRef& claim, bool ended);
  // Good-bye: the stream ends when nothing is in hand any more.
  void Leave(SessionId stream);
  // The stream has ended; the desk knows already.
  void Ended(SessionId stream, bool half_closed);

  Result<AgentView> Drain(const std::string& ns, const std::string& name, bool undo,
                          const std::string& reason);
  struct Evicted {
    uint32_t given_back = 0;
    uint32_t kept = 0;  // begun, and runs at most once
  };
  Result<Evicted> Evict(const std::string& ns, const std::string& name);
  Result<AgentView> Get(const std::string& ns, const std::string& name);
  // At most query.limit of them, by name.
  std::vector<AgentView> List(const AgentQuery& query);
  std::vector<OperationView> ListOperations(const OperationQuery& query);
  // Why an agent of this name takes no work now: "h1 is LOST since …"; empty: it is not known, or
  // it does take work.
  std::string WhyNot(const std::string& ns, const std::string& name) const;
  // Before a stop: what is only in memory.
  void Save();
  // The namespace goes: its agents are none any more, and their streams end.
  void Forget(const std::string& ns);

  void Absorb(const Change& change) override;
  void BeginPass() override;

 private:
  using Name = Operations::AgentName;
  struct Agent {
    rows::AgentRow row;
    SessionId stream = 0;  // 0: it is not connected
    bool leaving = false;
    bool dirty = false;  // its counters are not on disk
  };

  Result<Ok> MayAttach(const AttachArgs& args) const;
  Result<Agent*> Find(const std::string& ns, const std::string& name);
  Agent* OfStream(SessionId stream, const Name** name);
  AgentView ViewOf(const Name& name, const Agent& agent) const;
  void Put(const Name& name, Agent& agent);
  void Tell(const Name& name, ChangeKind kind, std::string note = "");
  std::vector<std::string> EndSession(const Name& name, Agent& agent);

  OpenTurn& turn_;
  Claims& claims_;
  Sessions& sessions_;
  Desk& desk_;
  Operations& operations_;
  const EngineOptions& options_;
  std::map<Name, Agent> agents_;
  std::map<SessionId, Name> streams_;
  std::set<std::pair<Timestamp, Name>> gone_;  // agents that are not connected, since when
};

}  // namespace dfsmr
