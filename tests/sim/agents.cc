#include "tests/sim/agents.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/agents.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMachine = R"(
id: job
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 40.0, transitions: {ok: once, bad: failed}}
  once: {timeout: 0.0, transitions: {ok: done, bad: failed}}
  done: {final: true}
  failed: {final: true, result: error}
)";
constexpr Duration kAfterRestart = 30s;  // how long sessions are waited for at least
constexpr Duration kRefused = 60s;
constexpr Duration kLongestBegin = 20s;

std::string PlaceOf(const Task& task) { return task.machine + "/" + task.node; }

}  // namespace

AgentSim::AgentSim(uint64_t seed, bool trace)
    : random_(seed * 13 + 7),
      begins_(seed * 13 + 8),
      trace_(trace),
      store_(memory_),
      world_({}, &store_) {
  world_.Define(kMachine);
  for (const char* name : {"a0", "a1", "a2"}) agents_[name].name = name;
  world_.OnCommit([this](const Turn&, const std::vector<Event>& events) { Told(events); });
}

void AgentSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "agents: " + what;
  Note("WRONG: " + what);
}

void AgentSim::Note(const std::string& what) {
  if (!trace_) return;
  std::printf("%9.3f %s\n", static_cast<double>(Micros(world_.now()) % 1'000'000'000'000) / 1e6,
              what.c_str());
}

// The run ----------------------------------------------------------------------------------------

std::string AgentSim::Run() {
  for (size_t step = 40 + random_.Below(80); step > 0 && problem_.empty(); --step) Step();
  Quiet();
  if (problem_.empty()) Finish();
  return problem_;
}

void AgentSim::Step() {
  world_.Decide([this](Engine& engine) {
    Awaited();
    for (size_t n = random_.Below(4); n > 0; --n) {
      if (random_.Chance(15)) {
        Operate(engine);
      } else {
        auto which = agents_.begin();
        std::advance(which, random_.Below(agents_.size()));
        Act(engine, which->second);
      }
    }
  });
  worked_ = world_.now();
  Write();
  if (random_.Chance(30)) Quiet();
  const size_t dice = random_.Below(100);
  world_.Advance(dice < 60   ? Duration(random_.Below(400'000))
                 : dice < 95 ? Duration(random_.Below(4'000'000))
                             : Duration(random_.Below(50'000'000)));
}

// The turn is written, or stays in flight, or is lost with its server.
void AgentSim::Write() {
  const size_t dice = random_.Below(100);
  if (dice < 4) {
    Note("crash");
    world_.Crash();
    return Crashed();
  }
  if (dice < 6) {
    Note("restart");
    world_.Restart();
    return Crashed();
  }
  if (dice < 20) return;
  if (dice < 22) store_.FailNextWrite(FaultyStore::Outcome::kTorn);
  if (dice >= 22 && dice < 24) store_.FailNextWrite(FaultyStore::Outcome::kKept);
  world_.Commit();
  const bool failed = !world_.failed().empty();
  store_.Heal();
  if (!failed) return;
  Note("crash: " + world_.failed());
  world_.Crash();
  Crashed();
}

void AgentSim::Crashed() {
  ++epoch_;
  worked_ = {};
  fresh_ = true;
  for (auto& [claim, one] : operations_) {
    if (one.begun && !one.begin_kept) Doubt(claim, one);
    if (!Kept(one)) one.shared = true;  // it may have been lost before
  }
  for (auto& [name, agent] : agents_) {
    if (!agent.welcomed && agent.stream != 0) agent.drained.reset();
    agent.patience = std::max(agent.keep_for, kAfterRestart);
    agent.away = world_.now();
    agent.stream = 0;
    agent.welcomed = false;
    agent.refuses.clear();
  }
  for (auto& [claim, one] : operations_) {
    one.ordered = false;
    one.forgotten = true;
    one.deadline = one.settled;  // extensions are written a moment later
    // As long again to begin what was handed out, as far as that is known still.
    const Duration within = agents_[one.agent].begin_within;
    if (!one.begin_sent) one.begin_by = std::max(one.begin_by, world_.now() + within);
  }
}

// Its begin was told early. A crash may have lost it, with its claim; it never leaves a claim that
// has not begun. What runs at most once is never told early: with it nothing is in doubt.
void AgentSim::Doubt(const std::string& claim, Operation& one) {
  const auto instance = rows::GetInstance({world_.store(), world_.partition()},
                                          {"ns", one.task.instance},
                                          world_.engine().reader().registry.resolve());
  const Token* token = instance ? std::as_const(instance->tokens).Find(one.task.visit) : nullptr;
  const Claim* listed = token ? token->FindClaim(one.task.claim_id) : nullptr;
  Expect(!listed || !listed->Live() || listed->Begun(), claim + " is left without its begin");
  if (one.once) return;
  one.begun = false;
  Work& work = work_[{one.task.instance, one.task.visit}];
  --work.attempts;
  work.perhaps += 2;  // a claim that is made before it is heard of again keeps its number
}

// From the first turn on a new server waits for agents.
void AgentSim::Awaited() {
  if (!std::exchange(fresh_, false)) return;
  for (auto& [name, agent] : agents_) agent.away = world_.now();
}

void AgentSim::Quiet() {
  store_.Heal();
  Awaited();
  world_.Commit();
  world_.Drain();
  (void)world_.Do([](Engine& engine) { return engine.Settle("ns", ""); });
  if (!world_.failed().empty()) return;
  for (auto& [claim, one] : operations_) one.settled = one.deadline;
  Verify();
}

// What agents do ---------------------------------------------------------------------------------

void AgentSim::Act(Engine& engine, Agent& agent) {
  const size_t dice = random_.Below(100);
  if (dice < 3) return Die(agent);
  if (agent.stream == 0) {
    if (dice < 60) Attach(engine, agent);
    return;
  }
  if (dice < 9) return Break(engine, agent);
  if (dice < 12) return Rival(engine, agent);
  if (!agent.welcomed) return;  // it has not heard yet that it is there
  if (dice < 45) {
    if (Operation* one = Any(agent, false)) {
      random_.Chance(12) ? GiveBack(engine, *one, random_.Chance(60)) : Begin(engine, *one);
    }
    return;
  }
  Operation* one = Any(agent, true);
  if (!one) return;
  if (one->ordered && dice < 85) return Ended(engine, agent, *one);
  if (dice < 70) return Extend(engine, *one, random_.Chance(60));
  if (dice < 75) return GiveBack(engine, *one, false);
  Report(engine, *one, random_.Chance(85) ? "ok" : "bad");
}

void AgentSim::Attach(Engine& engine, Agent& agent) {
  if (agent.session.empty()) {
    agent.session = agent.name + "#" + std::to_string(agent.processes);
    agent.keep_for = Duration(1'000'000 * (1 + random_.Below(20)));
    agent.begin_within = Duration(1'000'000 * (1 + random_.Below(10)));
  }
  AttachArgs args{.ns = "ns", .name = agent.name, .row = {}, .filter = {.ns = "ns"}, .terms = {}};
  args.row.session = agent.session;
  args.row.slots = 1 + static_cast<uint32_t>(random_.Below(4));
  args.terms = {agent.begin_within, agent.session, agent.keep_for, agent.name};
  auto attached = engine.agents().Attach(
      args, [this, name = agent.name, session = agent.session](SessionUpdate update) {
        Receive(name, session, std::move(update));
      });
  if (!attached) {
    Expect(attached.error().reason == Reason::kAgentEvicted && agent.evict_sent,
           agent.name + " was refused: " + attached.error().message);
    return Die(agent);
  }
  Note("attach " + agent.session);
  Expect(!agent.evicted, agent.session + " was evicted and may come back");
  agent.stream = attached->stream;
  agent.attached = engine.now();
  agent.welcomed = false;
  // The processes of another session of the name are gone.
  for (auto& [claim, one] : operations_) {
    if (one.agent != agent.name || one.session == agent.session) continue;
    one.shared = one.over_sent = true;
  }
  for (auto& [claim, one] : operations_) {
    if (one.agent != agent.name || one.session != agent.session || one.over_sent) continue;
    if (random_.Chance(5)) {
      one.shared = one.forgotten = true;
    } else {
      one.forgotten = false;
      Extend(engine, one, false);
    }
  }
  engine.AfterCommit(
      [this, name = agent.name, session = agent.session, stream = agent.stream, epoch = epoch_] {
        Agent& one = agents_[name];
        if (epoch != epoch_ || one.stream != stream) return;
        one.welcomed = true;
        for (auto& [claim, old] : operations_) {
          if (old.agent == name && old.session != session) old.over = true;
        }
      });
}

// Another process of the name is refused while one is connected.
void AgentSim::Rival(Engine& engine, const Agent& agent) {
  AttachArgs args{.ns = "ns", .name = agent.name, .row = {}, .filter = {.ns = "ns"}, .terms = {}};
  args.row.session = "rival";
  args.terms = {1s, "rival", 1s, agent.name};
  auto attached = engine.agents().Attach(args, [](SessionUpdate) {});
  Expect(!attached && attached.error().reason == Reason::kAgentExists,
         "two processes are connected as " + agent.name);
}

void AgentSim::Break(Engine& engine, Agent& agent) {
  Note("break " + agent.session);
  engine.CloseSession(agent.stream);
  agent.stream = 0;
  agent.welcomed = false;
  agent.away = world_.now();
  agent.patience = agent.keep_for;
  for (auto& [claim, one] : operations_) {
    if (one.agent != agent.name) continue;
    one.ordered = false;
    if (one.begin_sent) continue;
    one.shared = true;
    if (!one.forgotten) one.begin_by = world_.now();  // ready at once
  }
}

// Its processes are gone, and it begins as another one.
void AgentSim::Die(Agent& agent) {
  if (agent.stream != 0) return;
  ++agent.processes;
  agent.session.clear();
  agent.evict_sent = agent.evicted = false;
  agent.refuses.clear();
}

void AgentSim::Receive(const std::string& name, const std::string& session, SessionUpdate update) {
  Agent& agent = agents_[name];
  for (const std::string& claim : update.cancelled) {
    auto one = operations_.find(claim);
    if (one != operations_.end()) one->second.ordered = true;
  }
  if (agent.session != session) return;
  if (!update.tasks.empty()) {
    Expect(agent.drained != true, name + " is drained and is given work");
  }
  for (Task& task : update.tasks) Take(agent, std::move(task));
}

void AgentSim::Take(Agent& agent, Task task) {
  const Visit visit{task.instance, task.visit};
  const std::string who =
      task.instance + " visit " + std::to_string(task.visit) + " at " + task.node;
  Note("task " + who + " claim " + task.claim + " to " + agent.session);
  Expect(!operations_.contains(task.claim), "a claim was told twice: " + task.claim);
  Expect(task.begin_by != kNever && task.deadline == kNever, who + " has begun already");
  const auto refused = agent.refuses.find(PlaceOf(task));
  Expect(refused == agent.refuses.end() || refused->second <= world_.now(),
         agent.session + " is offered what it has refused: " + PlaceOf(task));
  for (const auto& [claim, one] : operations_) {
    if (one.task.instance != task.instance || one.task.visit != task.visit) continue;
    Expect(!Kept(one), who + " is handed out while " + one.session + " has it");
  }
  Work& work = work_[visit];
  if (!meddled_.contains(task.instance)) {
    Expect(task.attempt > work.attempts && task.attempt <= work.attempts + work.perhaps + 1,
           who + " is attempt " + std::to_string(task.attempt) + " after " +
               std::to_string(work.attempts) + " and perhaps " + std::to_string(work.perhaps));
  }
  Expect(task.checkpoint.empty() ? work.checkpoints.empty() || work.checkpoints.contains("")
                                 : work.checkpoints.contains(task.checkpoint),
         who + " is given another checkpoint: " + task.checkpoint);
  Operation one{.task = std::move(task), .agent = agent.name, .session = agent.session};
  one.once = one.task.node == "once";
  one.begin_by = one.task.begin_by;
  one.epoch = epoch_;
  const std::string claim = one.task.claim;
  operations_.emplace(claim, std::move(one));
}

void AgentSim::Begin(Engine& engine, Operation& one) {
  Agent& agent = agents_[one.agent];
  const std::string claim = one.task.claim;
  const Visit visit{one.task.instance, one.task.visit};
  const bool first = !std::exchange(one.begin_sent, true);
  if (first) ++work_[visit].perhaps;
  const std::string checkpoint = begins_.Chance(15) ? NewCheckpoint(visit) : "";
  const Extended answer =
      engine.Extend("ns", one.task.instance, claim, std::nullopt,
                    {.begin = true, .checkpoint = checkpoint, .session = agent.stream});
  Note("begin " + claim + " " + checkpoint + (answer.early ? "early" : "") +
       (answer.error ? ": " + answer.error->message : ""));
  const auto told = [this, claim, visit, answer, checkpoint, last = checkpoints_, first,
                     now = engine.now(), worked = worked_, epoch = epoch_] {
    if (answer.error) {
      Operation& refused = operations_.at(claim);
      if (first && epoch == epoch_) --work_[visit].perhaps;
      refused.over_sent = refused.over = true;
      return;
    }
    if (!checkpoint.empty()) CheckpointKept(visit, last);
    Begun(claim, answer, now, worked);
  };
  if (answer.early) engine.AfterPass(agent.stream, [told](bool) { told(); });
  engine.AfterCommit([this, claim, answer, told] {
    if (!answer.early) told();
    if (!answer.error) operations_.at(claim).begin_kept = true;
  });
}

// The agent is told that it may run.
void AgentSim::Begun(const std::string& claim, const Extended& answer, Timestamp now,
                     Timestamp worked) {
  Operation& begun = operations_.at(claim);
  // What a crash had lost is no longer void.
  Expect(begun.begun || begun.epoch < epoch_ || begun.begin_by + 1s > worked,
         "a claim began that was void: " + claim);
  Expect((answer.deadline == kNever) == begun.once, claim + " has a wrong deadline");
  Expect(begun.once || answer.deadline > now + 39s,
         "the deadline of " + claim + " is not of its begin");
  begun.deadline = begun.settled = answer.deadline;
  if (std::exchange(begun.begun, true)) return;
  const Visit visit{begun.task.instance, begun.task.visit};
  Work& work = work_[visit];
  --work.perhaps;
  ++work.attempts;
  if (!begun.once) return;
  Expect(++work.begins <= 1 + work.frees, "began twice: " + visit.first + " visit " +
                                              std::to_string(visit.second) + " claim " + claim);
}

void AgentSim::Extend(Engine& engine, Operation& one, bool checkpoint) {
  Agent& agent = agents_[one.agent];
  const std::string claim = one.task.claim;
  const Visit visit{one.task.instance, one.task.visit};
  ExtendArgs args{.session = agent.stream};
  Work& work = work_[visit];
  if (checkpoint) args.checkpoint = NewCheckpoint(visit);
  Extended answer = engine.Extend("ns", one.task.instance, claim, std::nullopt, args);
  const bool begun = one.begun;
  // One that a crash had lost begins when it is heard of again, and may be lost again.
  const bool begins =
      !answer.error && !one.begin_sent && answer.deadline > engine.now() + kLongestBegin;
  if (begins) one.begin_sent = true;
  // A claim that was made meanwhile keeps its number, though it may never begin.
  if (begins) work.perhaps += 2;
  if (!answer.error && !one.begin_sent) one.begin_by = std::max(one.begin_by, answer.deadline);
  // An older claim is live again beside the later one.
  if (!answer.error && one.begun && one.deadline <= world_.now()) one.shared = true;
  Note("extend " + claim + " " + args.checkpoint +
       (answer.error ? ": " + answer.error->message : ""));
  engine.AfterCommit(
      [this, claim, visit, answer, text = args.checkpoint, begun, last = checkpoints_] {
        Operation& extended = operations_.at(claim);
        if (answer.error) {
          extended.shared = true;
          return;
        }
        if (begun) extended.deadline = answer.deadline;
        if (!text.empty()) CheckpointKept(visit, last);
      });
}

std::string AgentSim::NewCheckpoint(const Visit& visit) {
  std::set<std::string>& known = work_[visit].checkpoints;
  if (known.empty()) known.insert("");
  return *known.insert("{\"n\":" + std::to_string(++checkpoints_) + "}").first;
}

// Those of before are replaced; those sent since may be the latest one.
void AgentSim::CheckpointKept(const Visit& visit, int number) {
  std::erase_if(work_[visit].checkpoints, [&](const std::string& old) {
    return old.empty() || std::stoi(old.substr(5)) < number;
  });
}

void AgentSim::Report(Engine& engine, Operation& one, const std::string& transition) {
  const std::string claim = one.task.claim;
  one.over_sent = one.shared = true;
  ReportArgs args{.transition = transition, .claim = claim};
  auto answer = engine.Report("ns", one.task.instance, args);
  Note("report " + claim + " " + transition + (answer ? "" : ": " + answer.error().message));
  engine.AfterCommit([this, claim] { operations_.at(claim).over = true; });
}

void AgentSim::GiveBack(Engine& engine, Operation& one, bool refused) {
  const std::string claim = one.task.claim;
  const Visit visit{one.task.instance, one.task.visit};
  one.over_sent = one.shared = true;
  const bool begun = one.begin_sent;
  auto answer =
      engine.Relinquish("ns", one.task.instance, claim, {.reason = "drawn", .refused = refused});
  Note((refused ? "refuse " : "give back ") + claim + (answer ? "" : ": no"));
  ++work_[visit].frees;
  // What a crash had lost is an attempt, and one that is taken back meanwhile keeps its number.
  if (answer && one.forgotten) work_[visit].perhaps += 2;
  const Timestamp until = world_.now() + kRefused - 100ms;
  engine.AfterCommit([this, claim, refused, until, begun, given = answer.has_value()] {
    Operation& back = operations_.at(claim);
    back.over = true;
    Agent& agent = agents_[back.agent];
    const bool same = agent.session == back.session && agent.stream != 0 && !back.forgotten;
    if (refused && given && !begun && same) agent.refuses[PlaceOf(back.task)] = until;
  });
}

// No process of what was ordered to stop lives any more.
void AgentSim::Ended(Engine& engine, const Agent& agent, Operation& one) {
  const std::string claim = one.task.claim;
  if (random_.Chance(30)) {
    Note("signal " + claim);
    return engine.agents().Stopping(agent.stream, one.task.instance, claim, /*ended=*/false);
  }
  Note("ended " + claim);
  one.over_sent = one.shared = true;
  ++work_[{one.task.instance, one.task.visit}].frees;
  engine.agents().Stopping(agent.stream, one.task.instance, claim, /*ended=*/true);
  engine.AfterCommit([this, claim] { operations_.at(claim).over = true; });
}

// What people do ---------------------------------------------------------------------------------

std::string AgentSim::AnyInstance() {
  return "i" + std::to_string(started_ == 0 ? 0 : random_.Below(started_));
}

void AgentSim::Meddle(const std::string& instance) {
  meddled_.insert(instance);
  for (auto& [visit, work] : work_) {
    if (visit.first == instance) ++work.frees;
  }
  for (auto& [claim, one] : operations_) {
    if (one.task.instance == instance) one.shared = true;
  }
}

void AgentSim::Operate(Engine& engine) {
  const size_t dice = random_.Below(100);
  if (dice < 45) {
    (void)engine.Start({.ns = "ns", .machine = "job", .id = "i" + std::to_string(started_++)});
    return;
  }
  auto which = agents_.begin();
  std::advance(which, random_.Below(agents_.size()));
  if (dice < 55) return Drain(engine, which->second);
  if (dice < 60) return Evict(engine, which->second);
  const std::string id = AnyInstance();
  Meddle(id);
  if (dice < 85) {
    const CancelMode mode =
        random_.Of<CancelMode>({CancelMode::kCancel, CancelMode::kForce, CancelMode::kKill});
    Note("cancel " + id + " " + std::to_string(static_cast<int>(mode)));
    (void)engine.Cancel("ns", id, mode);
  } else {
    Note("resume " + id);
    (void)engine.Resume("ns", id, "", /*force=*/random_.Chance(50));
  }
}

void AgentSim::Drain(Engine& engine, Agent& agent) {
  const bool undo = random_.Chance(60);
  agent.drained.reset();
  if (!engine.agents().Drain("ns", agent.name, undo, "")) return;
  Note((undo ? "undrain " : "drain ") + agent.name);
  engine.AfterCommit([this, name = agent.name, undo] { agents_[name].drained = !undo; });
}

void AgentSim::Evict(Engine& engine, Agent& agent) {
  if (agent.session.empty() || !agent.welcomed) return;  // what crashes leave of it is not known
  auto evicted = engine.agents().Evict("ns", agent.name);
  if (!evicted) return;
  Note("evict " + agent.session);
  agent.drained.reset();
  agent.evict_sent = true;
  for (auto& [claim, one] : operations_) {
    if (one.agent == agent.name) one.shared = one.over_sent = true;
  }
  engine.CloseSession(agent.stream);
  agent.stream = 0;
  agent.welcomed = false;
  agent.away = world_.now();
  agent.patience = {};
  engine.AfterCommit([this, name = agent.name, session = agent.session, epoch = epoch_] {
    for (auto& [claim, one] : operations_) {
      if (one.agent == name && one.session == session) one.over = true;
    }
    Agent& one = agents_[name];
    one.drained = false;
    if (one.session == session && epoch == epoch_) one.evicted = true;
  });
}

// What must be true ------------------------------------------------------------------------------

bool AgentSim::Here(const Operation& one) const {
  const Agent& agent = agents_.at(one.agent);
  return agent.session == one.session && agent.stream != 0;
}

bool AgentSim::Kept(const Operation& one) const {
  if (!one.begun || one.over_sent || one.shared || world_.now() + 100ms >= one.deadline) {
    return false;
  }
  const Agent& agent = agents_.at(one.agent);
  if (Here(one)) return true;
  return world_.now() + 100ms < agent.away + agent.patience;
}

AgentSim::Operation* AgentSim::Any(const Agent& agent, bool begun) {
  std::vector<Operation*> all;
  for (auto& [claim, one] : operations_) {
    if (one.agent != agent.name || one.session != agent.session || one.over_sent) continue;
    if (one.begin_sent == begun) all.push_back(&one);
  }
  return all.empty() ? nullptr : random_.Of(all);
}

void AgentSim::Told(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind != ChangeKind::kAbandoned) continue;
    for (auto& [claim, one] : operations_) {
      const bool its = one.task.instance == event.instance && one.task.visit == event.visit &&
                       one.task.attempt == event.attempt && one.agent == event.client;
      if (!its) continue;
      const bool before = event.time < agents_.at(one.agent).attached;  // it came back afterwards
      Expect(before || !Kept(one), claim + " was abandoned while " + one.session + " has it");
      one.shared = true;
    }
  }
}

void AgentSim::Verify() {
  VerifyClaims();
  VerifyOperations();
}

// What nobody has any more is ready for others; what runs at most once is not.
void AgentSim::VerifyClaims() {
  for (const auto& [claim, one] : operations_) {
    if (meddled_.contains(one.task.instance)) continue;
    const Agent& agent = agents_.at(one.agent);
    auto instance = world_.Get(one.task.instance);
    if (!instance) continue;
    const Token* token = std::as_const(instance->tokens).Find(one.task.visit);
    const Claim* listed = token ? token->FindClaim(one.task.claim_id) : nullptr;
    const bool live = listed && listed->Live();
    const bool gone = agent.session != one.session || agent.stream == 0;
    if (one.over && !one.once) {
      Expect(!live, claim + " is over, and not void");
    } else if (!one.begin_sent && !one.over_sent) {
      Expect(!live || world_.now() < one.begin_by + 1s, claim + " has not begun, and is not void");
    } else if (one.begun && !one.once && gone && !one.over_sent) {
      const bool same = agent.session == one.session;
      Expect(!live || !same || world_.now() < agent.away + agent.patience + 1s,
             claim + " is kept though its session has not come back");
    } else if (one.begun && one.once && !one.over_sent && !one.shared) {
      Expect(live, claim + " runs at most once, and is not kept");
    }
  }
}

// What is in hand is listed until its agent has said that it is over, whatever became of its visit.
void AgentSim::VerifyOperations() {
  std::map<std::string, OperationView> listed;
  for (const auto& [name, agent] : agents_) {
    const OperationQuery query{
        .ns = "ns", .agent = name, .instance = "", .after = "", .limit = 10'000};
    for (OperationView& view : world_.engine().agents().ListOperations(query)) {
      const std::string claim =
          rules::ClaimText("ns", view.row.instance, view.row.visit, view.row.id);
      listed.emplace(claim, std::move(view));
    }
    const auto view = world_.engine().agents().Get("ns", name);
    if (view && agent.drained && agent.stream != 0) {
      Expect(view->row.drained == *agent.drained, name + " is drained, or is not");
    }
  }
  for (const auto& [claim, one] : operations_) {
    const auto view = listed.find(claim);
    if (one.over) Expect(view == listed.end(), claim + " is over, and listed");
    if (!one.begun || one.over_sent) continue;
    if (agents_.at(one.agent).session != one.session) continue;
    Expect(view != listed.end(), claim + " is in hand, and not listed");
    if (view == listed.end() || !Here(one) || !agents_.at(one.agent).welcomed) continue;
    const bool order = view->second.order != CancelMode::kNone;
    Expect(!order || one.ordered || one.forgotten, one.agent + " was not told to stop " + claim);
  }
}

// All agents come back and do their work; what runs at most once and was lost a person frees.
void AgentSim::Finish() {
  world_.Restart();
  Crashed();
  for (auto& [name, agent] : agents_) Die(agent);
  world_.Elapse(2min);
  (void)world_.Do([](Engine& engine) {
    for (const char* name : {"a0", "a1", "a2"}) (void)engine.agents().Drain("ns", name, true, "");
    return 0;
  });
  for (int round = 0; round < 40; ++round) {
    size_t live = 0;
    for (uint64_t i = 0; i < started_; ++i) {
      auto instance = world_.Get("i" + std::to_string(i));
      if (!instance || instance->Stopped()) continue;
      ++live;
      (void)world_.Do([&](Engine& engine) {
        if (instance->Cancelling()) return engine.Cancel("ns", instance->id, CancelMode::kForce);
        return engine.Resume("ns", instance->id, "", /*force=*/true);
      });
    }
    if (live == 0) return;
    for (const Task& task : world_.Ready()) (void)world_.Report(task, "ok");
    world_.Elapse(20s);
  }
  Expect(false, "never got done");
}

}  // namespace dfsmr
