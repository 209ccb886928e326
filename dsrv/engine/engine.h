// One partition: the loop's body. It takes commands, decides them by fsm's rules, and turns them
// into one batch a turn. No thread, no clock, no gRPC, no RocksDB of its own: whoever drives it
// (loop.h in the server, the simulator in the tests) hands in time, entropy and the store, writes
// the batch, and only then lets the answers out.
//
//   engine.BeginTurn(now, random);
//   … commands …
//   engine.Work();
//   for (auto& tell : engine.TakeAnswers()) tell();
//   Turn turn = engine.EndTurn();
//   store.Write(partition, engine.epoch(), turn.batch)   // on failure: stop the process
//   engine.Committed(turn.number);                       // any thread
//   for (auto& tell : turn.after) tell();
//
// The next turn may begin before the last one is written: it decides on top of it, and its answers
// wait for its own commit. Until then it may take more than was there when it began, in further
// passes: ResumeTurn, commands, Work, TakeAnswers. One thread at a time, but for Committed,
// registry() and store().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/registry.h"
#include "dsrv/engine/types.h"
#include "storage/rows/instance.h"
#include "storage/rows/plan.h"
#include "storage/rows/reader.h"
#include "storage/rows/resting.h"

namespace dfsmr {

// What a source compiles to, and what is wrong with it: catalog.h.
struct Compiled;
struct DefinitionSet;
struct DefineProblem;
struct VersionState;

class Engine {
 public:
  // Takes over the partition and rebuilds what is kept in memory. Fails when the store is damaged.
  static Result<std::unique_ptr<Engine>> Open(Store& store, EngineOptions options, Timestamp now);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // kAmple at first; holds from the next call on.
  void SetRoom(Room room);
  void BeginTurn(Timestamp now, uint64_t random);
  void ResumeTurn(Timestamp now, uint64_t random);
  void Work();  // timers, background moves, hand-outs: after the commands
  std::vector<std::function<void()>> TakeAnswers();  // those that rest on nothing unwritten
  Turn EndTurn();
  void Committed(uint64_t turn);
  // When Work next has something to do. WorkLeft: it has now.
  Timestamp NextDeadline() const;
  bool WorkLeft() const;
  size_t TurnRecords() const;  // of the feed, so far

  // Where rows of others than the engine go, to be durable with this turn.
  rows::Writer writer();

  // Runs `tell` when all that this turn and those before it have done is durable.
  void AfterCommit(std::function<void()> tell);
  // The same of a session; told whether more of this session's follows at once, which may be an
  // update. Then one message is enough for both.
  void AfterCommit(SessionId session, std::function<void(bool more)> tell);

  // What is defined in a namespace, to compile a source under: any thread may read it.
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns);
  // Defines what was compiled, all or none; an error when it is not sound. `validate_only` tells
  // what would happen. nullopt: something else has been defined since; then `machines` is left as
  // it is, and is to be compiled again.
  std::optional<Result<std::vector<Defined>>> Define(const std::string& ns,
                                                     std::vector<Machine>* machines,
                                                     const Compiled& compiled, bool validate_only);
  // The same in one, which holds up others for as long as compiling takes.
  Result<std::vector<Defined>> Define(const std::string& ns, std::vector<Machine> machines,
                                      bool validate_only, std::vector<DefineProblem>* problems);
  Result<MachineView> GetMachine(const std::string& ns, const std::string& id, uint32_t version);
  // Ordered by (id, version) after `after`, at most `limit`.
  std::vector<MachineView> ListMachines(const std::string& ns, bool all_versions,
                                        const std::pair<std::string, uint32_t>& after,
                                        size_t limit);

  Result<Started> Start(StartArgs args);
  // `children` are what a suspending report asks to be started.
  Result<Answer> Report(const std::string& ns, const std::string& instance, ReportArgs args,
                        const std::vector<rows::ChildStart>& children = {});
  Result<std::string> Relinquish(const std::string& ns, const std::string& instance,
                                 const ClaimRef& claim, const std::string& client);
  using Extended = dfsmr::Extended;
  Extended Extend(const std::string& ns, const std::string& instance, const ClaimRef& claim,
                  std::optional<Duration> by, double progress);
  Result<Ok> Pause(const std::string& ns, const std::string& instance);
  Result<Ok> Resume(const std::string& ns, const std::string& instance, const std::string& node,
                    bool force);
  Result<Ok> Skip(const std::string& ns, const std::string& instance, const std::string& node);
  Result<Ok> Cancel(const std::string& ns, const std::string& instance, CancelMode mode);

  // Whether an instance is of one of `machines` and stands in one of `queues` (empty: any): with
  // the visit of `claim`, or anywhere when none is given. A claim whose visit is over changes
  // nothing any more, and is left to be told so. False when there is no such instance, or it is not
  // its claim.
  bool Concerns(const std::string& ns, const std::string& instance, const ClaimRef& claim,
                const std::vector<std::string>& machines, const std::vector<std::string>& queues);

  // Brings what is only in memory of one instance (of all, when `instance` is empty) into this
  // turn's batch, so that a read of the store after it shows what was told. kNotFound.
  Result<Ok> Settle(const std::string& ns, const std::string& instance);

  // Answers at once, or when work comes, or empty at args.until. The id cancels it; 0: answered.
  Result<WaiterId> Poll(PollArgs args, PollSink sink);
  // Whether it was still waiting; then its sink is never called.
  bool CancelPoll(WaiterId poll);
  // Tasks that did not reach their worker: as if they had never been claimed. `perhaps`: they were
  // on their way, and nobody knows; then those that run at most once stay claimed.
  void Undelivered(const std::vector<Task>& tasks, bool perhaps);

  Result<SessionId> OpenSession(Filter filter, std::string worker, int32_t capacity,
                                SessionSink sink);
  void DrainSession(SessionId session);
  // Gives its claims back, except on nodes that run at most once.
  void CloseSession(SessionId session);
  // Puts all that is only in memory into this turn's batch: before a stop.
  void Flush();
  // Hands out nothing more: polls are answered empty, sessions drained.
  void StopHandingOut();

  // Set once the store has lied: what it holds can no longer be trusted, the process must stop.
  const std::optional<Error>& broken() const;

  uint64_t epoch() const;
  PartitionId partition() const;
  uint64_t last_seq() const;
  const Registry& registry() const;
  const Store& store() const;
  rows::Resolve resolve() const;

 private:
  Engine(Store& store, EngineOptions options);

  // Start-up (recovery.cc): what is kept in memory is rebuilt from what lives.
  Result<Ok> Recover(uint64_t epoch, Timestamp now);
  Result<Ok> LoadMachines();
  Result<Ok> LoadLive();
  Result<Ok> LoadOne(Instance instance);
  Result<Ok> LoadResting(const rows::Resting& row, VersionState** version);

  void AddVersion(const std::string& ns, const Defined& one, Machine machine,
                  std::shared_ptr<const Machine> shown);
  template <typename Rule>
  Result<Ok> Control(const std::string& ns, const std::string& id, Rule rule);
  void BeginPass();
  void FireTimers();
  // Does one thing that follows from changes. False: there is none.
  bool WorkOne();

  struct Parts;  // parts.h: so that a change to a part's header rebuilds the engine alone
  const std::unique_ptr<Parts> parts_;
};

}  // namespace dfsmr
