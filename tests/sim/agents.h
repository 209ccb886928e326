// One simulated run of agents: the real engine under crashes, writes that fail, streams that break,
// processes that die and come back, operators who drain, evict, cancel and kill, against a model
// that remembers what each agent was told and what was acknowledged, and reads nothing of the
// server's code. What a crash may or may not have lost the model takes as it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr {

class AgentSim {
 public:
  AgentSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  // A task that an agent was given. What was sent may have happened; what was acknowledged has.
  struct Operation {
    Task task;
    std::string agent;
    std::string session;
    uint64_t epoch = 0;           // of the engine that gave it
    bool once = false;            // its node runs at most once
    Timestamp begin_by = kNever;  // the latest that is possible
    bool begin_sent = false;
    bool begun = false;           // acknowledged
    bool begin_kept = false;      // and on disk
    Timestamp deadline = kNever;  // of a begun one
    Timestamp settled = kNever;   // the same, on disk
    bool over_sent = false;       // reported, given back, or no process of it lives
    bool over = false;
    bool shared = false;     // another may be given its visit meanwhile
    bool forgotten = false;  // its agent has not said on this stream that it has it
    bool ordered = false;    // its agent was told to stop it, on this stream
  };
  struct Agent {
    std::string name;
    std::string session;
    int processes = 0;
    SessionId stream = 0;
    bool welcomed = false;  // its attach was acknowledged
    bool evict_sent = false;
    bool evicted = false;  // acknowledged: its process may not come back
    Timestamp attached;
    Timestamp away;       // since when it has no stream
    Duration patience{};  // how long it is waited for from then on
    Duration keep_for{};
    Duration begin_within{};
    std::optional<bool> drained = false;       // nullopt: it is not known
    std::map<std::string, Timestamp> refuses;  // machine/node: until when
  };
  using Visit = std::pair<std::string, uint64_t>;
  // What is known of a visit, of all agents.
  struct Work {
    uint32_t attempts = 0;              // that count
    uint32_t perhaps = 0;               // attempts that may count
    std::set<std::string> checkpoints;  // one of these is the latest
    int begins = 0;                     // of a node that runs at most once
    int frees = 0;                      // how often somebody allowed another begin
  };

  void Step();
  void Write();
  void Crashed();
  void Doubt(const std::string& claim, Operation& one);
  void Awaited();
  void Quiet();
  void Act(Engine& engine, Agent& agent);
  void Operate(Engine& engine);

  void Attach(Engine& engine, Agent& agent);
  void Rival(Engine& engine, const Agent& agent);
  void Break(Engine& engine, Agent& agent);
  void Die(Agent& agent);
  void Receive(const std::string& name, const std::string& session, SessionUpdate update);
  void Take(Agent& agent, Task task);
  void Begin(Engine& engine, Operation& one);
  void Begun(const std::string& claim, const Extended& answer, Timestamp now, Timestamp worked);
  void Extend(Engine& engine, Operation& one, bool checkpoint);
  std::string NewCheckpoint(const Visit& visit);
  void CheckpointKept(const Visit& visit, int number);
  void Report(Engine& engine, Operation& one, const std::string& transition);
  void GiveBack(Engine& engine, Operation& one, bool refused);
  void Ended(Engine& engine, const Agent& agent, Operation& one);
  void Drain(Engine& engine, Agent& agent);
  void Evict(Engine& engine, Agent& agent);
  void Meddle(const std::string& instance);  // an operator has done something to it

  // Whether only its agent may work on its visit now.
  bool Kept(const Operation& one) const;
  bool Here(const Operation& one) const;  // its agent has a stream for it
  Operation* Any(const Agent& agent, bool begun);
  std::string AnyInstance();

  void Verify();
  void VerifyClaims();
  void VerifyOperations();
  void Told(const std::vector<Event>& events);
  void Finish();
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  Random begins_;  // checkpoints of begins
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  std::map<std::string, Agent> agents_;
  std::map<std::string, Operation> operations_;  // by claim
  std::map<Visit, Work> work_;
  std::set<std::string> meddled_;
  uint64_t started_ = 0;
  bool fresh_ = false;  // this engine has had no turn yet
  Timestamp worked_;    // the last turn of this engine
  uint64_t epoch_ = 0;  // crashes so far: answers of before mean nothing any more
  int checkpoints_ = 0;
  std::string problem_;
};

}  // namespace dfsmr
