// One simulated run: the real rules, engine, agenda, rows and feed on one thread, with a clock that
// is a number and a store that fails. Machines, plans, workers, operators, clients, watchers and
// faults are drawn from one seed, so that the seed alone replays the run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/feed/changes.h"
#include "dsrv/runtime/pool.h"
#include "dsrv/wire/requests.h"
#include "storage/rows/plan.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/audit.h"
#include "tests/sim/drills.h"
#include "tests/sim/faults.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/groups_audit.h"
#include "tests/sim/lockstep.h"
#include "tests/sim/random.h"

namespace dfsmr {

// What an engine tells of its groups.
std::string GroupsOf(Engine& engine);

class Sim {
 public:
  // `below` keeps the rows (null: memory). `trace` prints what happens as it happens.
  Sim(uint64_t seed, Store* below, bool trace);

  // Steps with faults, then honest workers until all is done; audited on the way and at the end.
  // The first thing that was found wrong; empty: all is well.
  std::string Run();

  const FaultCounts& hits() const { return hits_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  using Asked = model::Asked;
  struct Accepted {
    std::string instance;
    std::string transition;
    Answer answer;
  };
  // Somebody who reads the feed.
  struct Watcher {
    ChangeFilter filter;
    std::string cursor;
  };

  // What the seed draws before the run.
  std::string MachineText(const std::string& id, const std::string& strategy);
  ChangesSizes DrawSizes();
  static EngineOptions Options(Random& random, bool few, bool retention, bool portions);
  bool On(Fault fault) const { return on_.contains(fault); }
  bool Draw(Fault fault, int percent) { return On(fault) && random_.Chance(percent); }
  void Hit(Fault fault) { ++hits_[static_cast<size_t>(fault)]; }
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);
  void DefineAll();
  // A command in a turn of its own, that the model sees.
  template <typename Command>
  auto Do(Command command) {
    return world_.Do([&](Engine& engine) {
      Asked asked(engine, lockstep_);
      return command(asked);
    });
  }
  std::vector<Task> Ready();
  void DoWell(const Task& task);

  // The server.
  void Step();
  bool Joined();
  void InjectFault();
  void PassTime();
  void CrashSometimes();
  void StartAgain();
  void TakeOver();
  void Committed(const Turn& turn, const std::vector<Event>& events);
  void Extend();

  // What is asked of it.
  void Command(Asked& engine);
  void StartOne(Asked& engine);
  void RetryStart(Asked& engine);
  void PollOne(Asked& engine);
  void Receive(std::vector<Task> tasks);
  void CheckLeftOut(const Task& task);
  void UseTask(Asked& engine);
  void Lie(Asked& engine, const Task& task);
  void ReportTask(Asked& engine, const Task& task, const std::string& transition);
  std::string WordFor(const Task& task);
  void FailAs(ReportArgs* args);
  ReportArgs ArgsFor(const Task& task, const std::string& transition,
                     std::vector<rows::ChildStart>* children);
  std::vector<StartArgs> StartsFor();
  void Know(const StartArgs& args, bool created);
  void CheckAnswer(const Task& task, const std::string& transition, Answer answer);
  void Operate(Asked& engine);
  void OperatePlan(Asked& engine);
  void Control(Asked& engine);
  void ResumeStopped(Asked& engine);
  void FreeFamily(const std::string& id);
  void Cancel(Asked& engine, const std::string& id);
  void Streams(Asked& engine);
  void RedefineParts(Asked& engine);
  void Redefine(Asked& engine);
  void Watch();
  void CheckPortion(Watcher& watcher, const Changes::Portion& portion, uint64_t after);

  // Groups (sim_groups.cc).
  void Join(StartArgs* args);
  void OrderGroups(Engine& engine);
  void Ordered(const std::shared_ptr<GroupsAudit::Mark>& mark, GroupsAudit::Action action);
  void OrderOthers(Engine& engine, const std::string& first, GroupsAudit::Action action);
  void CheckGroups(const std::map<std::string, Instance>& instances);
  void CheckNobodyWaits(const std::string& group, const std::map<std::string, Instance>& instances);
  void OpenGroups();

  // Limits (sim_limits.cc).
  void AskForLimits(StartArgs* args);
  void OrderLimits(Engine& engine);
  void Override(Engine& engine, const std::string& key);
  void DefineLimit(Engine& engine, const std::string& name);
  void NumbersChange(const std::string& root);
  void CheckLimits();
  void OpenLimits();
  std::map<std::string, std::set<std::string>> HoldersOfLimits(
      std::map<std::string, size_t>* forced);

  // Dry runs (sim_dry.cc).
  void DryRun(Engine& engine);
  void StartDryRun(Engine& engine, const std::string& id);
  void EndDryRun(const std::string& id);
  void CheckDryRuns(const std::map<std::string, Instance>& instances);

  std::string AnyMachine();
  std::string AnyWorker();
  std::vector<std::string> AnyCapabilities();
  std::string AnyId();
  std::pair<std::string, std::string> AnyStep();
  bool Finished(const std::string& id) const;

  // Drills (sim_drill.cc).
  DrillKind DrawDrill();
  void Drill(Asked& engine);
  void SaySecondWord(Asked& engine);
  void SendEvents(Asked& engine);
  void ForceSome(Asked& engine);

  // Afterwards.
  void Verify();
  void CheckLateReports();
  void CheckTallies(const std::map<std::string, Instance>& instances);
  void CheckPlans(const std::map<std::string, Instance>& instances);
  void CheckWritten(const Instance& instance, const PlanGraph& graph);
  void CheckNested(const Instance& instance, const PlanGraph& graph, const FlowNode& flow);
  void CheckConditions(const Instance& instance, const PlanGraph& graph);
  void CheckTakenBack();
  void CheckEvents();
  void CheckNobodyUnasked(const std::map<std::string, Instance>& instances);
  void CheckOrdered(const std::map<std::string, Instance>& instances);
  void CheckStarts();
  void CheckStartsOfReports();
  InstanceQuery AnyList(const std::map<std::string, Instance>& instances);
  std::vector<std::string> InList(const InstanceQuery& query,
                                  const std::map<std::string, Instance>& instances);
  void CheckLists(const std::map<std::string, Instance>& instances);
  void CheckMachines();
  void CheckHistories(const std::map<std::string, Instance>& instances);
  void Rebuilt();
  void Finish();
  std::vector<Instance> Live();
  void Push(const Instance& instance, int round);
  void Force(const Instance& instance);
  void PushPlan(const Instance& instance, int round);
  void Tidy();  // nobody waits for work any more
  void PrintFeed();

  Random random_;
  Random of_groups_;  // of its own, so that seeds without groups stay what they were
  bool groups_ = false;
  Random of_dry_;  // of their own, too
  bool dry_ = false;
  uint64_t dry_runs_ = 0;
  Random of_times_;
  bool busy_ = false;  // one node is done over and over
  Random of_resumes_;
  bool resumes_ = false;
  Random of_more_;     // what is drawn in lists, and the sizes of what is read
  bool more_ = false;  // queues, and patches of the phase to come
  Random of_drills_;
  Random of_more_drills_;
  bool skips_ = false;  // what fails in a drill is skipped, too
  DrillKind drill_ = DrillKind::kNone;
  Random of_names_;
  bool names_ = false;  // the longest, and one that is defined late
  Random of_forces_;
  bool forces_ = false;  // what is stopped by force reports, and is resumed by force
  Random of_crowds_;
  bool crowds_ = false;  // several groups are opened at once
  bool crash_soon_ = false;   // what was asked for is not done yet
  bool verify_soon_ = false;  // and what comes of it is looked at
  GroupsAudit groups_audit_;
  std::vector<std::shared_ptr<GroupsAudit::Mark>> cancelled_groups_;  // since they were looked at
  Random of_limits_;  // the same
  bool limits_ = false;
  std::set<std::string> changed_limits_;       // since they were last counted
  std::map<std::string, size_t> held_limits_;  // when they were last counted
  const bool trace_;
  bool machines_ = false;  // plain machines m0 to m2
  bool plans_ = false;     // plans p0 to p2 and what they are made of
  bool plan_keys_ = false;
  bool singletons_ = false;
  std::set<Fault> on_;
  MemoryStore memory_;
  FaultyStore store_;
  EngineOptions options_;
  World world_;
  model::Lockstep lockstep_;
  ChangesSizes sizes_;
  Pool no_threads_{0};
  std::unique_ptr<Changes> changes_;
  FaultCounts hits_{};
  Ledger ledger_;
  std::set<std::string> finished_;  // instances of which the ledger says so
  std::string source_;

  std::map<std::string, StartArgs> started_;  // acknowledged
  std::map<std::string, StartArgs> created_;  // acknowledged as new
  std::map<std::string, Accepted> accepted_;  // acknowledged: claim → what
  std::set<std::string> relinquished_;
  std::set<std::string> claims_;
  // At-most-once visits may be told once, and once more each time that someone allowed it.
  std::map<std::pair<std::string, uint64_t>, int> told_;
  std::map<std::string, int> frees_;
  // By instance and visit: the event that tasks have held, and its data.
  std::map<std::pair<std::string, uint64_t>, std::pair<std::string, std::string>> events_given_;
  std::vector<Task> hands_;
  std::vector<Task> undelivered_;
  std::vector<WaiterId> polls_;
  std::vector<SessionId> streams_;
  int step_ = 0;
  // By claim: the step in which its stream was told that nothing is in hand; 0: it was not yet.
  std::map<std::string, std::shared_ptr<int>> drained_;
  std::vector<Watcher> watchers_;
  Timestamp latest_;  // that the clock has shown
  std::optional<Fault> armed_;  // shows when the store is used next
  std::vector<std::pair<std::string, std::string>> failed_;  // steps that were held: instance, step
  int steps_ = 0;
  std::string problem_;
};

}  // namespace dfsmr
