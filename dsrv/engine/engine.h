// The engine of one partition. It takes commands, decides them by fsm's rules, and makes one batch
// of them in each turn. It has no thread, no clock, no gRPC and no RocksDB of its own: its driver
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
// wait for its own commit. Until the last one is written it may take more commands, in further
// passes: ResumeTurn, commands, Work, TakeAnswers. One thread at a time, except for Committed and
// reader().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/reader.h"
#include "dsrv/engine/types.h"
#include "storage/rows/clock.h"
#include "storage/rows/plan.h"
#include "storage/rows/reader.h"
#include "storage/rows/resting.h"

namespace dfsmr {

class Engine {
 public:
  // Takes over the partition and rebuilds the state in memory. Fails when the store is damaged, or
  // was begun under the other kind of clock. A virtual clock shows `now`, or where it stood in the
  // store when that is later.
  static Result<std::unique_ptr<Engine>> Open(Store& store, EngineOptions options, Timestamp now);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // How much room the disk has: kAmple at first. In force from the next call on.
  void SetRoom(Room room);
  // `real` is the time for callers that wait, and for rows that are written late. Give it when the
  // clock is virtual and `now` is what that shows: the two have nothing to do with each other then.
  void BeginTurn(Timestamp now, uint64_t random, std::optional<Timestamp> real = {});
  void ResumeTurn(Timestamp now, uint64_t random, std::optional<Timestamp> real = {});
  void Work();  // timers, background moves, hand-outs: after the commands
  std::vector<std::function<void()>> TakeAnswers();  // that depend on nothing unwritten
  Turn EndTurn();
  void Committed(uint64_t turn);
  // When Work next has something to do: NextDue or NextChore or, if it has something left, now.
  // WorkLeft: it has something to do now.
  Timestamp NextDeadline() const;
  Timestamp now() const;  // of this pass
  bool WorkLeft() const;
  // When the next timer is due, by the clock; kNever: none is armed.
  Timestamp NextDue() const;
  // The same without alarms that nothing waits for any more.
  Timestamp NextEvent();
  // When a virtual clock has to show a time so that all happens at its own: NextEvent, or the end
  // of a stopped instance's retention.
  Timestamp NextStep();
  // When something is to be done by real time: rows that are written late, polls that end.
  Timestamp NextChore() const;
  // What the clock shows, and how many timers have been due since the engine was opened.
  Timestamp clock() const;
  bool has_virtual_clock() const;
  uint64_t timers_fired() const;
  size_t TurnRecords() const;  // the feed's records of this turn, so far

  // Takes rows that are not the engine's own, and are to be durable with this turn.
  rows::Writer writer();

  // Runs `tell` when this turn and those before it are durable.
  void AfterCommit(std::function<void()> tell);
  // The same when all partitions have heard of what this turn has changed of limits, as LimitCensus
  // has it.
  void AfterHeard(std::function<void()> tell);
  // The same for a session. `more`: another answer or update for the session follows at once, so
  // that one message can hold both.
  void AfterCommit(SessionId session, std::function<void(bool more)> tell);
  // At the end of this pass: for what need not be durable (Extended::early).
  void AfterPass(SessionId session, std::function<void(bool more)> tell);

  // The definitions of a namespace, for compiling a source; any thread may read the set.
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns);
  // Defines what was compiled, all or none, in the order of the text; an error when it is not
  // sound, also because other documents have already what it has: those problems are in `compiled`
  // then. `validate_only`: only returns what would happen. nullopt: something else has been defined
  // since, so compile `sources`, which are unchanged, again.
  std::optional<Result<std::vector<Defined>>> Define(const std::string& ns, Sources* sources,
                                                     Compiled* compiled, bool validate_only);
  // Takes over what home has defined since, in the engine of another partition.
  void Adopt(Adoption adoption);
  // Schedules, triggers and limits as they were defined.
  Documents& documents();
  // Packages: what is put, activated and removed.
  Packages& packages();
  Occurrences& occurrences();
  Launcher& launcher();
  Schedules& schedules();
  Backfills& backfills();
  // Instances under one name.
  Groups& groups();
  Triggers& triggers();
  Limits& limits();
  Agents& agents();
  // What people ask about the whole.
  Survey& survey();
  // What is counted for those who scrape the server. Hand it on after the commit of this turn.
  Measured Measure();
  // One thing done to many instances.
  Bulks& bulks();
  // Namespaces.
  Spaces& namespaces();
  Result<Ok> MayChange(const std::string& ns) const;  // NAMESPACE_DELETING
  // Nothing is handed out in a namespace, and its schedules and triggers rest, or all goes on again.
  // NO_SUCH_NAMESPACE, NAMESPACE_DELETING.
  Result<Ok> Freeze(const std::string& ns, bool frozen, const std::string& client);
  Deletions& deletions();
  // What another server has exported.
  Imports& imports();
  // How many instances other partitions have.
  Elsewhere& elsewhere();
  // To and from other partitions.
  Messages& messages();
  // What only holders of claims get.
  Secrets& secrets();
  // From now on nothing of a namespace is taken or handed out; the rest is done in the background.
  // As Deletions::Begin.
  Result<SpaceView> Delete(const std::string& ns, Duration drain, const std::string& client);
  // Claims and nodes as logs want to know them.
  Traces& traces();
  Result<MachineView> GetMachine(const std::string& ns, const std::string& id, uint32_t version);
  // At most `limit` machines after `after`, ordered by (id, version).
  std::vector<MachineView> ListMachines(const std::string& ns, bool all_versions,
                                        const std::pair<std::string, uint32_t>& after,
                                        size_t limit);

  Result<Started> Start(StartArgs args);
  // Elsewhere than at home: what home is to be asked before this is started, because limits may
  // leave it out, as text for `Limits::Reserve`; `home_says` is the answer. The start has its id
  // then. nullopt: nothing.
  std::optional<std::string> QuestionOf(StartArgs* args);
  // `children` are the instances that a suspending report asks to be started. `starts` are started
  // with the report, all of them or none: one that cannot be started refuses the report.
  Result<Answer> Report(const std::string& ns, const std::string& instance, ReportArgs args,
                        const std::vector<rows::ChildStart>& children = {},
                        std::vector<StartArgs> starts = {}, const std::string& reason = "");
  Result<std::string> Relinquish(const std::string& ns, const std::string& instance,
                                 const ClaimRef& claim, const GiveBackArgs& args);
  Extended Extend(const std::string& ns, const std::string& instance, const ClaimRef& claim,
                  std::optional<Duration> by, ExtendArgs args);
  // `reason`: why; it is noted with the records of the change.
  Result<Ok> Pause(const std::string& ns, const std::string& instance,
                   const std::string& reason = "");
  Result<Ok> Resume(const std::string& ns, const std::string& instance, const std::string& node,
                    bool force, const std::string& reason = "");
  Result<Ok> Skip(const std::string& ns, const std::string& instance, const std::string& node,
                  const std::string& reason = "");
  Result<Ok> Cancel(const std::string& ns, const std::string& instance, CancelMode mode,
                    const std::string& reason = "");

  // The state and the result of an instance; nullopt: there is no such instance.
  std::optional<std::pair<InstanceState, InstanceResult>> StandingOf(const std::string& ns,
                                                                     const std::string& instance);
  // What an instance and its tokens wait for; null: there is no such instance, or it waits for
  // nothing that only the engine knows.
  std::shared_ptr<const InstanceWaits> WaitsOf(const std::string& ns, const std::string& instance);

  // Whether an instance is of one of `machines` and stands in one of `queues` (empty: any) with the
  // visit of `claim`, or with any token when none is given. False: there is no such instance, or
  // the claim is not of this instance. A claim whose visit is over is in every queue: it cannot
  // change anything any more, and the caller learns so when it uses the claim.
  bool Concerns(const std::string& ns, const std::string& instance, const ClaimRef& claim,
                const std::vector<std::string>& machines, const std::vector<std::string>& queues);

  // Puts what is only in memory of one instance (of all, when `instance` is empty) into this turn's
  // batch, so that reads of the store after its commit show everything that was answered before.
  // kNotFound: there is no such instance.
  Result<Ok> Settle(const std::string& ns, const std::string& instance);

  // Calls `sink` at once, or when there is work, or with no tasks at args.until. Returns the id for
  // CancelPoll; 0: `sink` was called already.
  Result<WaiterId> Poll(PollArgs args, PollSink sink);
  // The same, and only says what there is. It takes nothing.
  Result<WaiterId> Peek(PollArgs args, PeekSink sink);
  // True: the poll was still waiting, and its sink will never be called.
  bool CancelPoll(WaiterId poll);
  // Takes back tasks that did not reach their worker, as if they had never been claimed. `perhaps`:
  // they may have reached it; then those that run at most once stay claimed.
  void Undelivered(const std::vector<Task>& tasks, bool perhaps);

  Result<SessionId> OpenSession(Filter filter, std::string worker, int32_t capacity,
                                SessionSink sink, WorkerTerms terms = {});
  void DrainSession(SessionId session);
  // Of a session on credit: as Desk's.
  void Allow(SessionId session, size_t tasks);
  void TakeUp(SessionId session, const std::vector<HeldClaim>& held);
  void Refuse(SessionId session, RefusedWork work);
  // Gives the session's claims back, except on nodes that run at most once, and those that its
  // worker's terms keep for it: those go back only when the worker has half-closed its stream.
  void CloseSession(SessionId session, StreamEnd how = StreamEnd::kBroken);
  // Before a stop: puts everything that is only in memory into this turn's batch.
  void Flush();
  // Stops handing out work: answers polls without tasks, and drains sessions. `moves`: to another
  // server; then those on credit end at once, and what they have in hand goes with the partition.
  void StopHandingOut(bool moves = false);

  // The store's first error, after which it cannot be trusted and the process must stop.
  const std::optional<Error>& broken() const;

  uint64_t epoch() const;
  uint64_t last_seq() const;
  Reader reader() const;

 private:
  Engine(Store& store, EngineOptions options);

  // Start-up (recovery.cc): rebuilds the state in memory from the live instances.
  Result<Ok> Recover(uint64_t epoch, Timestamp now);
  Result<Ok> CheckClock(uint64_t epoch, const std::optional<rows::ClockRow>& kept);
  Result<Ok> KeepClock(Store& store);
  Result<Ok> LoadMachines();
  Result<Ok> LoadLive();
  Result<Ok> LoadOne(Instance instance);
  Result<Ok> LoadResting(const rows::Resting& row, VersionState** version);

  void AddVersion(const std::string& ns, const Defined& one, Machine machine,
                  std::shared_ptr<const Machine> shown);
  Result<Ok> MayDefine(const std::string& ns, const Sources& sources);
  std::vector<DefineProblem> TakenFrom(const std::string& ns, const Sources& sources) const;
  void BeginPass();
  void FireTimers();
  // Does one thing that follows from changes. False: there is nothing to do.
  bool WorkOne();

  struct Parts;  // parts.h; so a change to a part's header does not rebuild the engine's users
  const std::unique_ptr<Parts> parts_;
};

// Compiles and defines a source at once, which holds up all other work as long as compiling takes.
// All or none. `problems` has everything that is wrong, or warnings.
Result<std::vector<Defined>> DefineAtOnce(Engine& engine, const std::string& ns,
                                          Sources sources, bool validate_only,
                                          std::vector<DefineProblem>* problems);

}  // namespace dfsmr
