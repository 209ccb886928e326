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

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dsrv/engine/registry.h"
#include "fsm/base/template.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/breaker.h"
#include "fsm/derived/latency.h"
#include "fsm/plan/compile.h"
#include "fsm/rules/rules.h"
#include "storage/rows/rows.h"
#include "storage/store.h"

namespace dfsmr {

// An instance as it is shown.
struct InstanceView {
  Instance instance;
  std::shared_ptr<const Spec> spec;
  std::vector<std::string> nodes;  // the tokens', by name
  std::map<std::string, std::string> outputs;
};

struct Task {
  std::string ns;
  std::string instance;
  std::string machine;
  uint32_t version = 0;
  std::string node;
  uint64_t visit = 0;
  uint32_t attempt = 0;
  ClaimId claim_id;
  std::string claim;  // as text
  Timestamp deadline = kNever;
  std::shared_ptr<const Spec> spec;  // null: a step's, and too large to be sent with each
  std::string node_params;
  std::string action;
  std::string queue;
  std::string event;
  std::string event_data;
  std::string phase;
  std::vector<std::string> middleware;
};

struct StartArgs {
  std::string ns;
  std::string machine;
  uint32_t version = 0;
  std::string id;
  Spec spec;
  int32_t priority = 0;
  Timestamp start_at;
  Timestamp start_before = kNever;
  bool hold = false;
  std::vector<Instance::Prerequisite> after;
  std::shared_ptr<const PlanSource> flow;  // of spec.flow
  // Of instances that the server starts by itself.
  std::string parent;
  Boxed<ParentStep> parent_step;
  bool implicit = false;  // the machine may be an action that nobody has defined
};
struct Started {
  InstanceView view;
  bool created = false;
};

struct Defined {
  std::string id;
  uint32_t version = 0;
  bool changed = false;
  UpgradeStrategy strategy = UpgradeStrategy::kContinue;
  uint64_t affected = 0;
};

struct NodeStats {
  uint64_t ready = 0;
  uint64_t claimed = 0;
  uint64_t waiting = 0;
  uint64_t held = 0;
  uint64_t completed = 0;
  uint64_t timed_out = 0;
  std::optional<Duration> p50;
  std::optional<Duration> p95;
  std::optional<Duration> timeout_now;
};
struct MachineStats {
  uint64_t scheduled = 0;
  uint64_t running = 0;
  uint64_t paused = 0;
  uint64_t stopped = 0;
  double retry_rate = 0;
  std::string_view breaker;
};
struct MachineView {
  MachineVersionPtr definition;
  std::shared_ptr<const Machine> machine;  // with its nodes: of a plan, as it is before any params
  MachineStats stats;
  std::vector<NodeStats> nodes;  // as machine->nodes
};

struct PollArgs {
  Filter filter;
  std::string worker;
  int32_t max_tasks = 1;
  Timestamp until;  // waits for the first task until then; not later than now: does not wait
};
// How much room the disk has for the store. What makes it grow is refused while there is still
// enough for the rest, since a write that fails is the end of the process.
enum class Room : uint8_t {
  kAmple,
  kScarce,  // nothing new: no definitions, no starts
  kNone,    // and no work is handed out or reported, but by who waits for it already
};

// What a Work stream is told. The engine calls it after the commit that made it true.
struct SessionUpdate {
  std::vector<Task> tasks;
  std::vector<std::string> cancelled;
  std::vector<std::string> killed;
  bool drained = false;  // nothing is in hand and nothing more will come
};
using SessionSink = std::function<void(SessionUpdate)>;
using SessionId = WaiterId;

struct Turn {
  uint64_t number = 0;
  Batch batch;
  std::vector<std::function<void()>> after;  // answers that the batch makes true
  std::shared_ptr<std::vector<rows::FeedPage>> feed;  // the batch's records, in order
  uint64_t feed_start = 0;  // not 0: the batch drops the records before this one

  size_t records() const {
    return feed->empty() ? 0 : feed->back().last - feed->front().first + 1;
  }
};

struct EngineOptions {
  PartitionId partition = 0;
  Duration retention = std::chrono::hours(24 * 7);
  Duration lazy = std::chrono::milliseconds(300);  // at most this long is a claim unwritten
  Duration stats_every = std::chrono::seconds(5);
  size_t cached_instances = 100'000;
  // Text → the one machine, plan or action in it; what was once accepted must be accepted for ever.
  std::function<Result<Machine>(std::string_view source)> compile;
  // Text of a flow, as sent with Start or by a planner.
  std::function<Result<std::shared_ptr<const PlanSource>>(std::string_view text)> parse_flow;
  // A JSON Schema that was accepted once. `subject` is what its violations call the value.
  std::function<std::shared_ptr<const ParamsCheck>(std::string_view schema,
                                                   std::string_view subject)> schema;
};

class Engine {
 public:
  // Takes over the partition and rebuilds what is kept in memory. Fails when the store is damaged.
  static Result<std::unique_ptr<Engine>> Open(Store& store, EngineOptions options, Timestamp now);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void SetRoom(Room room) { room_ = room; }  // kAmple at first; holds from the next call on
  void BeginTurn(Timestamp now, uint64_t random);
  void ResumeTurn(Timestamp now, uint64_t random);
  void Work();  // timers, background moves, hand-outs: after the commands
  std::vector<std::function<void()>> TakeAnswers();  // those that rest on nothing unwritten
  Turn EndTurn();
  void Committed(uint64_t turn) { committed_.store(turn, std::memory_order_release); }
  // When Work next has something to do. WorkLeft: it has now.
  Timestamp NextDeadline() const;
  bool WorkLeft() const { return NextDeadline() <= now_; }
  size_t TurnRecords() const { return turn_.records(); }  // of the feed, so far

  // Where rows of others than the engine go, to be durable with this turn.
  Batch& batch() { return turn_.batch; }

  // Runs `tell` when all that this turn and those before it have done is durable.
  void AfterCommit(std::function<void()> tell);
  // The same of a session; told whether more of this session's follows at once, which may be an
  // update. Then one message is enough for both.
  void AfterCommit(SessionId session, std::function<void(bool more)> tell);

  // All or none. `validate_only` tells what would happen. What is wrong with plans, given what else
  // is defined, goes to `problems`, each with the machine of `machines` that it is about: then the
  // answer is an error, unless they are warnings.
  struct DefineProblem {
    size_t machine;
    PlanProblem problem;
  };
  // Warnings come only where there is no error.
  static bool HasErrors(const std::vector<DefineProblem>& problems) {
    return !problems.empty() && !problems.front().problem.warning;
  }
  Result<std::vector<Defined>> Define(const std::string& ns, std::vector<Machine> machines,
                                      bool validate_only, std::vector<DefineProblem>* problems);
  // What is wrong with the plans of a source of which some documents (`unsound`) cannot be read.
  // Answers the nodes of those plans that are sound, as `machines`.
  std::vector<std::shared_ptr<const Machine>> CompileAll(const std::string& ns,
                                                         const std::vector<Machine>& machines,
                                                         const std::vector<std::string>& unsound,
                                                         std::vector<DefineProblem>* problems);
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
                                 const std::string& claim, const std::string& client);
  struct Extended {
    Timestamp deadline = kNever;
    bool cancel_requested = false;
    bool kill_requested = false;
    std::optional<Error> error;
  };
  Extended Extend(const std::string& ns, const std::string& instance, const std::string& claim,
                  std::optional<Duration> by, double progress);
  Result<Ok> Pause(const std::string& ns, const std::string& instance);
  Result<Ok> Resume(const std::string& ns, const std::string& instance, const std::string& node,
                    bool force);
  Result<Ok> Skip(const std::string& ns, const std::string& instance, const std::string& node);
  Result<Ok> Cancel(const std::string& ns, const std::string& instance, CancelMode mode);

  // Whether an instance is of one of `machines` and stands in one of `queues` (empty: any): with
  // the visit of `claim`, or anywhere when that is empty. A claim whose visit is over changes
  // nothing any more, and is left to be told so. False when there is no such instance, or it is not
  // its claim.
  bool Concerns(const std::string& ns, const std::string& instance, const std::string& claim,
                const std::vector<std::string>& machines, const std::vector<std::string>& queues);

  // Brings what is only in memory of one instance (of all, when `instance` is empty) into this
  // turn's batch, so that a read of the store after it shows what was told. kNotFound.
  Result<Ok> Settle(const std::string& ns, const std::string& instance);

  // Answers at once, or when work comes, or empty at args.until. The id cancels it; 0: answered.
  using PollSink = std::function<void(std::vector<Task>)>;
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
  const std::optional<Error>& broken() const { return broken_; }

  uint64_t epoch() const { return epoch_; }
  PartitionId partition() const { return options_.partition; }
  uint64_t last_seq() const { return last_seq_; }
  const Registry& registry() const { return registry_; }
  const Store& store() const { return store_; }
  rows::Resolve resolve() const;

 private:
  struct NodeState;
  struct VersionState;
  struct MachineState;
  // Not by address: the same seed gives the same run.
  struct ByNames {
    bool operator()(const MachineState* a, const MachineState* b) const;
  };
  using MachineSet = std::set<MachineState*, ByNames>;
  struct Resident;
  struct Graph;
  struct PlanCache;
  struct PlanItems;
  struct Waiter;
  struct Before;
  struct DefinitionSet;
  using GraphPtr = std::shared_ptr<const Graph>;
  // Residents are found by name, without a key made for it.
  struct ResidentName {
    std::string_view ns;
    std::string_view id;
    friend bool operator==(const ResidentName&, const ResidentName&) = default;
  };
  static ResidentName NameOf(const Resident& resident);
  struct ByName {
    using is_transparent = void;
    template <typename One>
    size_t operator()(const One& one) const;
    template <typename One, typename Other>
    bool operator()(const One& one, const Other& other) const;
  };
  using TimerKey = std::pair<Timestamp, uint64_t>;
  // What is taken back more often than it is due.
  struct Timer {
    Resident* resident = nullptr;     // a claim's deadline: what is claimed stays in memory
    uint64_t visit = 0;
    ClaimId claim{};
    MachineState* machine = nullptr;  // or: its breaker may let a retry go
    WaiterId poll = 0;                // or: a poll has waited long enough
  };
  // What comes when it is due, whatever happens meanwhile: an instance starts, or a wait of it
  // ends. There may be millions, so they hold the name of the instance and little else.
  class Alarm {
   public:
    Alarm(ResidentName name, uint64_t visit);
    std::pair<std::string, std::string> name() const;
    uint64_t visit() const;  // 0: its start

   private:
    std::unique_ptr<char[]> bytes_;
  };
  // A claim whose visit went on without it: its worker's late report still tells how long it took.
  struct EndedClaim {
    Latency* latency;
    Timestamp claim_time;
    Duration censored_at;
    bool retry;
  };

  Engine(Store& store, EngineOptions options);

  // Recovery.
  Result<Ok> Recover(Timestamp now);
  Result<Ok> LoadMachines();
  Result<Ok> LoadStats();
  Result<Ok> LoadLive();
  Result<Ok> LoadOne(Instance instance);
  Result<Ok> LoadResting(const rows::Resting& row, VersionState** version);
  void LoadPlan(Resident& resident);
  void CancelOrphans();
  void CompileDefined();

  // Definitions.
  MachineState& StateOf(const std::string& ns, const std::string& id);
  VersionState* VersionOf(std::string_view ns, std::string_view id, uint32_t version);
  VersionState& AddVersion(MachineVersionPtr definition, std::shared_ptr<const Machine> shown);
  MachineView View(const VersionState& version) const;
  void SetDestinations(MachineState& machine, VersionState& latest);
  void LeaveBehind(VersionState& latest);

  // Instances.
  Result<Resident*> Load(const std::string& ns, const std::string& id);  // as it is
  Result<Resident*> Touch(const std::string& ns, const std::string& id);  // moved if it must be
  Resident* InMemory(ResidentName name);  // null: it is not
  Resident* Insert(Instance instance, VersionState* version, GraphPtr graph);
  void Erase(Resident& resident);
  // Without bringing it into memory. nullopt: there is no such instance.
  Result<std::optional<uint64_t>> FirstSeqOf(const std::string& ns, const std::string& id);
  Result<Started> StartAgain(const StartArgs& args);
  Result<std::vector<std::pair<std::string, InstanceResult>>> EndedOf(
      const std::string& ns, const std::vector<Instance::Prerequisite>& after);
  Resident& Create(StartArgs args, std::vector<Instance::Prerequisite> after,
                   VersionState* version);
  Result<std::shared_ptr<const Spec>> SpecOf(Resident& resident);
  void Move(Resident& resident);
  void Evict();
  InstanceView ViewOf(Resident& resident);

  template <typename Rule>
  Result<Ok> Control(const std::string& ns, const std::string& id, Rule rule);
  // One change of an instance: decides by `rule`, stages what it did, draws the consequences.
  template <typename Rule>
  auto Change(Resident& resident, ClaimId self, Rule rule);
  void Stage(Resident& resident, std::vector<Event>& events);
  void Consequences(Resident& resident, const Before& before, ClaimId self,
                    const std::vector<InstanceState>& entered);
  void Follow(Resident& resident, const Before& before, const Tokens::Touched& touched,
              ClaimId self);
  void FreeClaim(Resident& resident, uint64_t visit, const dfsmr::Claim& claim, ClaimId self);
  void Lose(const Before& before, NodeIndex node, const dfsmr::Claim& claim);
  void HoldInHand(const Resident& resident, uint64_t visit, const dfsmr::Claim& claim);
  void Append(Event* event, VersionState* version);
  void Learn(const Event& event, VersionState* version);
  void CountState(const Resident& resident, int64_t by);
  void CountTokens(const Resident& resident, const Graph& before);
  static void CountToken(const Graph& graph, const Token& token, int64_t by);
  void MarkDirty(Resident& resident);
  void MarkLazy(Resident& resident);
  void NotLazy(Resident& resident);
  void Settle(Resident& resident);
  bool Durable(const Resident& resident) const;

  // The refusal when there is less room than that.
  std::optional<Error> NeedsRoom(Room least) const;

  // Hand-outs.
  std::vector<Task> Take(const Filter& filter, const std::string& worker, size_t max,
                         uint64_t session, bool* durable);
  bool TakeOne(Agenda::Popped popped, const std::string& worker, uint64_t session, Task* task,
               bool* durable);
  Agenda::Queue* QueueOf(VersionState& version, const Graph& graph, NodeIndex node);
  static ReadyEntry EntryOf(const Graph& graph, std::string id, int32_t priority,
                            const Token& token);
  void Enqueue(Resident& resident, const Token& token);
  bool Throttled(MachineState& machine, Agenda::Popped& popped);
  void ReleaseRetries(MachineState& machine);
  void ArmBreaker(MachineState& machine);
  void NoteBreaker(MachineState& machine, Breaker::Turn turn);
  ClaimId BornAfter(Resident& resident, ClaimId claim);
  void ForgetClaim(Resident& resident, const dfsmr::Claim& claim);
  void Serve(WaiterId id, const Filter& filter);
  void AnswerPoll(WaiterId poll, std::vector<Task> tasks, bool durable);
  void TellSessions();
  // Adds to what a stream is told after this pass: after the commit unless `durable`.
  void Tell(SessionId session, const std::function<void(SessionUpdate&)>& note,
            bool durable = false);

  bool Prepare(Resident& resident, const Token& token, Task* task, std::string* key);
  // The same of a step: its input, its event, the singleton that it takes.
  bool PrepareStep(Resident& resident, const Token& token, Task* task, std::string* key);

  // Plans (engine_plan.cc).
  VersionState& ImplicitVersion(const std::string& ns, const std::string& machine);
  VersionState* VersionFor(const Instance& instance);
  GraphPtr GraphOf(VersionState& version, std::shared_ptr<const Machine> machine);
  Result<GraphPtr> LoadGraph(const Instance& instance, VersionState& version);
  Result<GraphPtr> GraphOfPlan(const Instance& instance, VersionState& version);
  static std::string StatsName(const VersionState& version, std::string_view node);
  Result<std::shared_ptr<const PlanSource>> SourceOf(Resident& resident);
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns);
  static PlanCache& CacheOf(Resident& resident);
  GraphPtr Share(Resident& resident, GraphPtr graph);
  std::optional<std::string> ReadPlanned(Resident& resident, PlannedFlows* planned);
  Result<std::string> GroupValue(Resident& resident, const Group& group);
  Result<std::string> StepValue(Resident& resident, const Step& step);
  void CheckLeft(const Resident& resident, const Token& before);
  Result<std::string> ItemOf(Resident& resident, const Spawn& spawn, PlanItems* items,
                             uint64_t number);
  bool Forgotten(const Resident& resident) const;
  bool TakePlanKey(Resident& resident, const PlanSource& source);
  std::string HolderOf(const Instance& instance, const std::string& key) const;
  void SpawnNext();
  void CancelNext();
  void CountItems(Resident& resident, const Token& token);
  void Revive(Resident& resident);
  Result<Ok> CheckSuspend(const Resident& resident, const ReportArgs& args,
                          const std::vector<rows::ChildStart>& children);
  void AfterReport(Resident& resident, const ReportArgs& args, const Answer& answer,
                   const std::vector<rows::ChildStart>& children);
  Result<Ok> KeyIsFree(Resident& resident);
  void AskForKey(Resident& resident, Scene* scene);
  void Plan(Resident& resident);
  Result<std::string> OutputOf(Resident& resident, const std::string& step);
  Result<std::string> Value(Resident& resident, const Reference& reference);
  static std::optional<std::string_view> ParamAt(Resident& resident, std::string_view params,
                                                 std::span<const Reference::Part> path);
  Result<std::string> Fill(Resident& resident, std::string_view json);  // a template
  void FollowPlan(Resident& resident, const Before& before,
                  const std::vector<InstanceState>& entered);
  void NoteKey(Resident& resident, const std::string& was, bool waited, const std::string& is,
               bool waits, uint64_t visit);
  void HandOnKey(const std::string& key);
  void OrderKeys();
  bool SpawnSome(const std::string& key, uint64_t visit, size_t* budget);
  Result<StartArgs> ChildOf(Resident& resident, const Token& token, uint64_t number);
  void RestartChild(Resident& resident, const Token& token);
  void FireHooks(Resident& resident, const std::vector<InstanceState>& entered);
  void CancelChildren(const std::string& ns, const std::string& parent,
                      std::optional<uint64_t> generation, CancelMode mode);
  void SpawnLater(const Resident& resident, uint64_t visit);
  void MoveChild();  // the first of moved_
  void PlanWork();
  bool PlanPending() const;

  std::optional<Answer> FormerAnswer(Resident& resident, const ReportArgs& args);
  void LateReport(const Instance& instance, const std::string& claim);

  void StartFollowers();

  // Work.
  void FireTimers();
  void Fire(const Timer& timer);
  void Ring(const Alarm& alarm);
  void TimeOutClaim(const Timer& timer);
  void SettleLazy();
  void Sweep();
  void SweepSome(MachineState& machine);
  bool SweepFor(const Filter& filter);
  void DropExpired();
  bool DropExpired(const rows::Expired& one);
  void NoteDropped(VersionState& version);
  void TrimFeed();
  void SaveStats();
  TimerKey Arm(Timestamp at, Timer timer);
  void Await(Timestamp at, ResidentName name, uint64_t visit);
  void ArmClaim(Resident& resident, uint64_t visit, const dfsmr::Claim& claim);
  void DisarmClaim(Resident& resident, ClaimId claim);

  Store& store_;
  const EngineOptions options_;
  uint64_t epoch_ = 0;
  uint64_t last_seq_ = 0;
  uint64_t next_serial_ = 1;
  uint64_t next_id_ = 1;
  std::atomic<uint64_t> committed_{0};

  Registry registry_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>> machines_;
  MachineSet sweeping_;
  MachineSet unsaved_;  // counters or latencies changed since the last save

  absl::flat_hash_set<std::unique_ptr<Resident>, ByName, ByName> residents_;  // has no order
  std::list<Resident*> by_use_;  // the first is the next that may leave memory
  std::list<std::pair<Timestamp, Resident*>> lazy_;  // to be written by then, the first due first
  Agenda agenda_;
  std::unordered_map<WaiterId, std::unique_ptr<Waiter>> waiters_;
  std::map<TimerKey, Timer> timers_;
  absl::btree_map<TimerKey, Alarm> alarms_;
  std::unordered_map<uint64_t, EndedClaim> ended_;  // by serial, of this epoch
  std::deque<uint64_t> ended_order_;
  // Who waits for an instance to stop: ns\0id → ids.
  std::unordered_map<std::string, std::set<std::string>> followers_;
  struct StoppedNow {
    std::string ns;
    std::string id;
    InstanceResult result;
  };
  std::deque<StoppedNow> stopped_now_;  // in this turn, and its followers have not heard yet
  bool handing_out_ = true;
  Room room_ = Room::kAmple;

  // Plans. All of it is rebuilt from the live instances.
  std::map<std::string, std::shared_ptr<const DefinitionSet>> definitions_;  // by namespace
  std::deque<std::string> to_plan_;  // ns\0id of PLANNING instances that stand nowhere
  struct Singleton {
    std::string holder;  // an instance
    size_t held = 0;     // how often: by the instance and by its steps
    std::deque<std::pair<std::string, uint64_t>> waiting;  // instance, visit (0: itself)
  };
  std::map<std::string, Singleton> keys_;  // by ns\0key
  std::deque<std::string> freed_keys_;
  std::unordered_map<std::string, uint64_t> first_seq_;  // at recovery: ns\0id → its seq
  struct ChildMove {
    std::string ns;
    std::string parent;
    ParentStep step;
    ChildClass from;
    ChildClass to;
    bool unplanned;
  };
  std::deque<ChildMove> moved_;
  std::deque<std::pair<std::string, uint64_t>> spawning_;  // ns\0id, visit
  std::set<std::pair<std::string, uint64_t>> spawning_set_;
  std::deque<StartArgs> hooks_;
  std::unordered_map<std::string, std::map<std::string, uint64_t>> children_;  // ns\0parent → live
                                                                               // id → generation
  struct Cancellation {
    std::string ns;
    std::vector<std::string> ids;
    CancelMode mode;
  };
  std::deque<Cancellation> cancelling_;
  size_t starts_left_ = 0;  // in this pass
  size_t cancels_left_ = 0;
  static constexpr size_t kStartsPerTurn = 200;
  static constexpr size_t kCancelsPerTurn = 128;

  // This turn.
  Timestamp now_;         // a little later with each change
  Timestamp turn_began_;  // before all of them
  uint64_t random_ = 0;
  Turn turn_;
  std::vector<Resident*> dirty_;
  std::vector<std::function<void()>> answers_;
  std::map<SessionId, std::vector<std::function<void(bool)>>> session_answers_;
  std::map<SessionId, SessionUpdate> updates_;
  std::set<SessionId> update_waits_;
  MachineSet dropped_from_;
  struct Uncommitted {
    uint64_t turn;
    Timestamp began;
    std::shared_ptr<std::vector<rows::FeedPage>> feed;
  };
  std::deque<Uncommitted> uncommitted_;  // turns that have changed an instance

  // Instances dropped in turns that are not written yet: the store still has them.
  std::deque<std::pair<uint64_t, std::string>> dropped_order_;
  std::unordered_set<std::string> dropped_;

  uint64_t feed_start_ = 1;  // the lowest seq that the feed holds once all turns are written
  uint64_t stats_seq_ = 0;   // the counters on disk account for the feed up to here
  Timestamp stats_due_;
  Timestamp expiry_due_;
  Timestamp trim_due_;
  Timestamp expired_up_to_{};
  bool expired_pending_ = false;  // there are more
  std::optional<Error> broken_;
  bool more_ = false;  // background work is waiting for another turn
};

}  // namespace dfsmr
