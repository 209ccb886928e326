#include "dsrv/engine/engine.h"

#include <algorithm>

#include "dsrv/engine/owners.h"
#include "dsrv/engine/parts.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/inherit.h"
#include "storage/rows/machine.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

constexpr size_t kTimersPerPass = 1'000;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 cannot deduce them without

// Whether an instance still waits for an alarm that was set for it.
bool Awaits(const Instance& instance, uint64_t visit, Timestamp at) {
  if (instance.Stopped()) return false;
  if (visit == 0) return rules::NextStart(instance) == at;
  const Token* token = instance.tokens.Find(visit);
  // A held step's time is the end of its plan's wait_after_fail.
  const bool waits =
      token && (token->state == TokenState::kWaiting || token->state == TokenState::kHeld);
  return waits && token->available_at == at;
}

}  // namespace

Engine::Engine(Store& store, EngineOptions options)
    : parts_(std::make_unique<Parts>(store, std::move(options))) {}

Engine::~Engine() = default;

void Engine::SetRoom(Room room) { parts_->turn.SetRoom(room); }
void Engine::Committed(uint64_t turn) { parts_->turn.Committed(turn); }
Timestamp Engine::now() const { return parts_->turn.now(); }
Timestamp Engine::clock() const { return parts_->turn.clock(); }
bool Engine::has_virtual_clock() const { return parts_->turn.has_virtual_clock(); }
uint64_t Engine::timers_fired() const {
  return parts_->timers.fired() + parts_->schedules.fired();
}
size_t Engine::TurnRecords() const { return parts_->turn.records(); }
rows::Writer Engine::writer() { return parts_->turn.writer(); }
const std::optional<Error>& Engine::broken() const { return parts_->turn.broken(); }
uint64_t Engine::epoch() const { return parts_->turn.epoch(); }
uint64_t Engine::last_seq() const { return parts_->turn.last_seq(); }
Reader Engine::reader() const {
  return {parts_->catalog.registry(), parts_->turn.store(), parts_->turn.partition(),
          parts_->options.partitions};
}

// Turns -----------------------------------------------------------------------------------------

void Engine::BeginTurn(Timestamp now, uint64_t random, std::optional<Timestamp> real) {
  parts_->turn.Begin(now, random, real.value_or(now));
  BeginPass();
}

void Engine::ResumeTurn(Timestamp now, uint64_t random, std::optional<Timestamp> real) {
  parts_->turn.Resume(now, random, real.value_or(now));
  BeginPass();
}

void Engine::BeginPass() {
  for (Part* part : parts_->all) part->BeginPass();
}

void Engine::Work() {
  FireTimers();
  parts_->desk.EndPolls();
  parts_->residents.SettleDue();
  parts_->upgrades.MoveSome();
  parts_->groups.FollowSome();
  parts_->bulks.Work();
  parts_->retention.Work();
  parts_->occurrences.Work();
  parts_->packages.Work();
  parts_->secrets.Work();
  parts_->deletions.Work();
  if (parts_->statistics.Due() <= parts_->turn.real()) parts_->statistics.Save();
  if (parts_->throttle.TellDue() <= parts_->turn.real()) parts_->throttle.Tell();
  // A hand-out may fail its step, which may stop an instance: what follows is of the same commit.
  do {
    while (WorkOne()) {
    }
  } while (parts_->desk.Serve());
}

bool Engine::WorkOne() {
  return std::ranges::any_of(parts_->all, [](Part* part) { return part->Work(); });
}

void Engine::FireTimers() {
  for (size_t fired = 0; parts_->timers.Due() <= parts_->turn.clock(); ++fired) {
    if (fired == kTimersPerPass) return parts_->turn.WantMore();
    std::visit(
        Overloaded{[this](const ClaimDeadline& deadline) { parts_->claims.TimeOut(deadline); },
                   [this](const BreakerTick& tick) { parts_->throttle.Tick(*tick.machine); },
                   [this](const ReadyEnd& end) { parts_->unclaimed.End(end); },
                   [this](const Alarm& alarm) {
                     auto touched = parts_->changer.Touch(alarm.ns, alarm.id);
                     if (!touched) return;
                     parts_->changer.Apply(**touched, [&](Scene& scene) {
                       alarm.visit == 0 ? rules::StartDue(scene)
                                        : rules::EndWait(scene, alarm.visit);
                     });
                   }},
        *parts_->timers.PopDue());
  }
}

std::vector<std::function<void()>> Engine::TakeAnswers() {
  parts_->desk.TellSessions();
  return parts_->turn.TakeAnswers();
}

Turn Engine::EndTurn() {
  if (std::exchange(parts_->flushed, false)) parts_->limits.Save();
  parts_->residents.Write();
  parts_->groups.Write();
  parts_->bulks.Write();
  parts_->triggers.Stage();
  if (parts_->options.partitions > 1) {
    parts_->shares.Write();
    parts_->limits.Tell();
  }
  parts_->messages.Write();
  parts_->statistics.Stage();
  Turn turn = parts_->turn.End();
  parts_->residents.Evict();
  return turn;
}

Timestamp Engine::NextDeadline() const {
  if (parts_->turn.more()) return parts_->turn.clock();
  if (parts_->turn.has_virtual_clock()) return NextDue();
  return std::min({NextDue(), NextChore(), parts_->retention.Due(), parts_->occurrences.Due()});
}

bool Engine::WorkLeft() const {
  if (NextDeadline() <= parts_->turn.clock()) return true;
  return parts_->turn.has_virtual_clock() && NextChore() <= parts_->turn.real();
}

Timestamp Engine::NextDue() const {
  return std::min({parts_->timers.Due(), parts_->schedules.Due(), parts_->triggers.Due(),
                   parts_->limits.Due(), parts_->deletions.Due()});
}

Timestamp Engine::NextEvent() {
  while (auto next = parts_->timers.NextAlarm()) {
    const auto& [at, alarm] = *next;
    auto loaded = parts_->residents.Load(alarm.ns, alarm.id);
    if (loaded && Awaits((*loaded)->instance, alarm.visit, at)) break;
    parts_->timers.ForgetNextAlarm();
  }
  return NextDue();
}

Timestamp Engine::NextStep() {
  if (WorkLeft()) return parts_->turn.clock();
  return std::min(NextEvent(), parts_->retention.NextExpiry());
}

Timestamp Engine::NextChore() const {
  return std::min({parts_->statistics.Due(), parts_->residents.SettleDueAt(),
                   parts_->desk.PollsDue(), parts_->limits.SaveDue(), parts_->sessions.Due(),
                   parts_->deletions.ChoreDue(), parts_->groups.TellDue(), parts_->shares.Due(),
                   parts_->throttle.TellDue()});
}

void Engine::AfterCommit(std::function<void()> tell) { parts_->turn.AfterCommit(std::move(tell)); }

void Engine::AfterHeard(std::function<void()> tell) {
  parts_->limits.census().AfterHeard(std::move(tell));
}

void Engine::AfterCommit(SessionId session, std::function<void(bool)> tell) {
  parts_->desk.AfterCommit(session, std::move(tell));
}

void Engine::AfterPass(SessionId session, std::function<void(bool)> tell) {
  parts_->desk.AfterPass(session, std::move(tell));
}

void Engine::Flush() {
  parts_->residents.SettleAll();
  parts_->statistics.SaveInTheEnd();
  parts_->flushed = true;
  parts_->agents.Save();
}

// Definitions -----------------------------------------------------------------------------------

std::shared_ptr<const DefinitionSet> Engine::DefinitionsOf(const std::string& ns) {
  return parts_->catalog.DefinitionsOf(ns);
}

std::optional<Result<std::vector<Defined>>> Engine::Define(const std::string& ns,
                                                           Sources* sources,
                                                           Compiled* compiled,
                                                           bool validate_only) {
  if (compiled->under != parts_->catalog.DefinitionsOf(ns)) return std::nullopt;
  if (auto may = parts_->spaces.MayUse(ns); !may) return may.error();
  if (compiled->Sound()) {
    auto taken = TakenFrom(ns, *sources);
    if (!taken.empty()) compiled->problems = std::move(taken);
  }
  if (!compiled->Sound()) {
    return Error{Code::kInvalidArgument, Reason::kBadMachine,
                 compiled->problems.front().problem.message};
  }
  auto full = validate_only ? std::nullopt : parts_->turn.NeedsRoom(Room::kAmple);
  if (full) return *std::move(full);
  if (auto refused = parts_->packages.Refuse(ns, *sources)) return *std::move(refused);
  auto room = MayDefine(ns, *sources);
  if (room && !validate_only) room = parts_->spaces.Use(ns);
  if (!room) return room.error();
  std::vector<Defined> defined;
  auto document = sources->documents.begin();
  for (size_t i = 0;; ++i) {
    for (; document != sources->documents.end() && document->machines_before == i; ++document) {
      auto one = parts_->documents.Preview(ns, *document);
      if (!one) return one.error();
      defined.push_back(*one);
      if (one->changed && !validate_only) parts_->documents.Add(ns, *one, std::move(*document));
    }
    if (i == sources->machines.size()) return defined;
    defined.push_back(parts_->catalog.Preview(ns, sources->machines[i]));
    if (!defined.back().changed || validate_only) continue;
    AddVersion(ns, defined.back(), std::move(sources->machines[i]), compiled->shown[i]);
  }
}

// What of these documents others have.
std::vector<DefineProblem> Engine::TakenFrom(const std::string& ns, const Sources& sources) const {
  return CheckOwners(
      sources, OwnersBeside(ns, sources.documents, parts_->triggers, parts_->limits));
}

Messages& Engine::messages() { return parts_->messages; }
Packages& Engine::packages() { return parts_->packages; }
// Whether the quota of a namespace has room for what is new of these.
Result<Ok> Engine::MayDefine(const std::string& ns, const Sources& sources) {
  uint64_t more = 0;
  for (const Machine& machine : sources.machines) {
    const MachineState* const known = parts_->catalog.Find(ns, machine.id);
    if (!known || !known->Stands()) ++more;
  }
  for (const Document& document : sources.documents) {
    auto stands = parts_->documents.Stands({ns, document.kind(), document.name});
    if (!stands) return stands.error();
    if (!*stands) ++more;
  }
  return parts_->spaces.MayDefine(ns, more);
}

Result<Ok> Engine::MayChange(const std::string& ns) const { return parts_->spaces.MayChange(ns); }
Spaces& Engine::namespaces() { return parts_->spaces; }
Secrets& Engine::secrets() { return parts_->secrets; }
Deletions& Engine::deletions() { return parts_->deletions; }
Imports& Engine::imports() { return parts_->imports; }
Elsewhere& Engine::elsewhere() { return parts_->elsewhere; }

Result<Ok> Engine::Freeze(const std::string& ns, bool frozen, const std::string& client) {
  using rows::SpaceState;
  Spaces& spaces = parts_->spaces;
  const SpaceState state = spaces.StateOf(ns);
  if (state == SpaceState::kNone) return NoSuchNamespace(ns);
  if (auto may = spaces.MayChange(ns); !may) return may;
  if ((state == SpaceState::kFrozen) == frozen) return Ok{};
  if (frozen) parts_->schedules.BeforeFreeze(ns);
  spaces.SetState(ns, frozen ? SpaceState::kFrozen : SpaceState::kActive, {}, client);
  parts_->agenda.SetFrozen(ns, frozen);
  parts_->schedules.FreezeChanged(ns);
  parts_->triggers.FreezeChanged(ns);
  return Ok{};
}

Result<SpaceView> Engine::Delete(const std::string& ns, Duration drain, const std::string& client) {
  const bool rested = parts_->spaces.Frozen(ns);
  auto begun = parts_->deletions.Begin(ns, drain, client);
  if (!begun || rested) return begun;
  parts_->schedules.FreezeChanged(ns);
  parts_->triggers.FreezeChanged(ns);
  return begun;
}

Documents& Engine::documents() { return parts_->documents; }
Occurrences& Engine::occurrences() { return parts_->occurrences; }
Launcher& Engine::launcher() { return parts_->launcher; }
Schedules& Engine::schedules() { return parts_->schedules; }
Backfills& Engine::backfills() { return parts_->backfills; }
Triggers& Engine::triggers() { return parts_->triggers; }
Groups& Engine::groups() { return parts_->groups; }
Agents& Engine::agents() { return parts_->agents; }
Survey& Engine::survey() { return parts_->survey; }
Measured Engine::Measure() {
  size_t reads = Survey::kReadsOfCopy;
  const auto oldest = [&](const Agenda::Queue* queue) {
    return parts_->survey.OldestOf(queue, &reads);
  };
  return parts_->measures.Copy(parts_->agenda, parts_->package_table, oldest);
}
Bulks& Engine::bulks() { return parts_->bulks; }
Limits& Engine::limits() { return parts_->limits; }

void Engine::AddVersion(const std::string& ns, const Defined& one, Machine machine,
                        std::shared_ptr<const Machine> shown) {
  parts_->packages.AddVersion({ns, one.version, std::move(machine), parts_->turn.now()},
                              std::move(shown));
}

Result<MachineView> Engine::GetMachine(const std::string& ns, const std::string& id,
                                       uint32_t version) {
  return parts_->catalog.GetMachine(ns, id, version);
}

std::vector<MachineView> Engine::ListMachines(const std::string& ns, bool all_versions,
                                              const std::pair<std::string, uint32_t>& after,
                                              size_t limit) {
  return parts_->catalog.ListMachines(ns, all_versions, after, limit);
}

// Instances -------------------------------------------------------------------------------------

Result<Started> Engine::Start(StartArgs args) {
  args.outside = true;
  auto started = parts_->starter.Start(std::move(args));
  if (started && !started->created) {
    const Instance& known = started->view.instance;
    if (known.Stopped()) {
      started->view.leftovers = parts_->operations.LeftoversOf(known.ns, known.id);
    }
  }
  return started;
}

std::optional<std::string> Engine::QuestionOf(StartArgs* args) {
  auto question = parts_->starter.QuestionOf(args);
  if (!question) return std::nullopt;
  return rows::EncodeMessage({*std::move(question)});
}

Result<Answer> Engine::Report(const std::string& ns, const std::string& id, ReportArgs args,
                              const std::vector<rows::ChildStart>& children,
                              std::vector<StartArgs> starts, const std::string& reason) {
  const ChangedBy by{"", reason};
  const Changer::By noted(parts_->changer, by);
  const ClaimRef claim = args.claim;
  const std::string client = args.client;
  auto answer = parts_->reports.Report(ns, id, std::move(args), children, std::move(starts));
  if (answer) return answer;
  parts_->operations.EndedLate(claim);
  if (answer.error().reason == Reason::kStaleClaim) parts_->workers.NoteStale(ns, client);
  return answer;
}

Result<std::string> Engine::Relinquish(const std::string& ns, const std::string& id,
                                       const ClaimRef& claim, const GiveBackArgs& args) {
  auto node = parts_->claims.Relinquish(ns, id, claim, args);
  if (!node) parts_->operations.EndedLate(claim);
  return node;
}

Extended Engine::Extend(const std::string& ns, const std::string& id, const ClaimRef& claim,
                        std::optional<Duration> by, ExtendArgs args) {
  parts_->sessions.Complete(ns, &args);
  if (args.begin) {
    // What has been blocked since it was handed out is not begun: it is ready again, and waits.
    auto loaded = parts_->residents.Load(ns, id);
    const Token* token =
        loaded ? std::as_const((*loaded)->instance.tokens).Find(claim.visit) : nullptr;
    const Claim* held = token ? token->FindClaim(claim.id) : nullptr;
    const bool unbegun = held && held->Live() && !held->Begun();
    if (unbegun && parts_->trust.Blocks(**loaded, *token)) {
      (void)parts_->claims.Relinquish(ns, id, claim, {});
    }
  }
  return parts_->claims.Extend(ns, id, claim, by, std::move(args));
}

Result<Ok> Engine::Pause(const std::string& ns, const std::string& id, const std::string& reason) {
  return parts_->control.Pause(ns, id, {"", reason});
}

Result<Ok> Engine::Resume(const std::string& ns, const std::string& id, const std::string& node,
                          bool force, const std::string& reason) {
  return parts_->control.Resume(ns, id, node, force, {"", reason});
}

Result<Ok> Engine::Skip(const std::string& ns, const std::string& id, const std::string& node,
                        const std::string& reason) {
  return parts_->control.Skip(ns, id, node, {"", reason});
}

Result<Ok> Engine::Cancel(const std::string& ns, const std::string& id, CancelMode mode,
                          const std::string& reason) {
  return parts_->control.Cancel(ns, id, mode, {"", reason});
}

Result<Ok> Engine::Settle(const std::string& ns, const std::string& id) {
  if (id.empty()) {
    parts_->residents.SettleAll();
    return Ok{};
  }
  auto resident = parts_->changer.Touch(ns, id);
  if (!resident) return resident.error();
  parts_->residents.Settle(**resident);
  return Ok{};
}

std::optional<std::pair<InstanceState, InstanceResult>> Engine::StandingOf(const std::string& ns,
                                                                           const std::string& id) {
  auto resident = parts_->residents.Load(ns, id);
  if (!resident) return std::nullopt;
  return std::pair((*resident)->instance.state, (*resident)->instance.result);
}

std::shared_ptr<const InstanceWaits> Engine::WaitsOf(const std::string& ns, const std::string& id) {
  auto resident = parts_->residents.Load(ns, id);
  if (!resident) return nullptr;
  InstanceWaits waits;
  if (!(*resident)->instance.Stopped()) {
    waits = parts_->limits.reader().WaitsOf((*resident)->instance);
    const auto why_not = [this](const std::string& in, const std::string& agent) {
      return parts_->agents.WhyNot(in, agent);
    };
    parts_->desk.Explain(**resident, why_not, &waits);
    parts_->trust.Explain(**resident, &waits);
  }
  if (parts_->spaces.Frozen(ns) && !(*resident)->instance.Stopped()) {
    for (const Token& token : std::as_const((*resident)->instance.tokens)) {
      if (token.state == TokenState::kReady) {
        waits.why[token.visit] = "namespace " + Quoted(ns) + " hands nothing out: it is " +
                                 (parts_->spaces.MayChange(ns) ? "frozen" : "being deleted");
      }
    }
  }
  if ((*resident)->instance.Stopped()) waits.leftovers = parts_->operations.LeftoversOf(ns, id);
  return std::make_shared<const InstanceWaits>(std::move(waits));
}

bool Engine::Concerns(const std::string& ns, const std::string& id, const ClaimRef& claim,
                      const std::vector<std::string>& machines,
                      const std::vector<std::string>& queues) {
  auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  auto loaded = parts_->residents.Load(ns, id);
  if (!loaded) return false;
  const Resident& resident = **loaded;
  const Tokens& tokens = resident.instance.tokens;
  auto stands_there = [&](const Token& token) {
    const auto& nodes = resident.machine().nodes;
    return token.node < nodes.size() && among(queues, nodes[token.node].settings->queue);
  };
  if (!among(machines, resident.instance.machine)) return false;
  if (!claim.given()) return queues.empty() || std::ranges::any_of(tokens, stands_there);
  if (!rules::CheckClaim(resident.instance, claim)) return false;
  const Token* token = tokens.Find(claim.visit);
  return !token || resident.instance.Stopped() || stands_there(*token);
}

Traces& Engine::traces() { return parts_->traces; }

// Work ------------------------------------------------------------------------------------------

Result<WaiterId> Engine::Poll(PollArgs args, PollSink sink) {
  parts_->workers.Polled(args.filter, args.worker, args.terms);
  return parts_->desk.Poll(std::move(args), std::move(sink));
}

Result<WaiterId> Engine::Peek(PollArgs args, PeekSink sink) {
  parts_->workers.Polled(args.filter, args.worker, args.terms);
  return parts_->desk.Peek(std::move(args), std::move(sink));
}

bool Engine::CancelPoll(WaiterId poll) { return parts_->desk.CancelPoll(poll); }

void Engine::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  parts_->claims.Undelivered(tasks, perhaps);
}

Result<SessionId> Engine::OpenSession(Filter filter, std::string worker, int32_t capacity,
                                      SessionSink sink, WorkerTerms terms) {
  auto opened = parts_->desk.OpenSession(filter, worker, capacity, std::move(sink), terms);
  if (opened) parts_->workers.Opened(*opened, filter, worker, capacity, terms);
  return opened;
}

void Engine::Allow(SessionId session, size_t tasks) { parts_->desk.Allow(session, tasks); }

void Engine::TakeUp(SessionId session, const std::vector<HeldClaim>& held) {
  parts_->desk.TakeUp(session, held);
}

void Engine::Refuse(SessionId session, RefusedWork work) {
  parts_->desk.Refuse(session, std::move(work));
}

void Engine::DrainSession(SessionId session) { parts_->desk.DrainSession(session); }

void Engine::CloseSession(SessionId session, StreamEnd how) {
  parts_->desk.CloseSession(session, how);
  parts_->workers.Closed(session);
  // Agents go on with another server.
  if (how == StreamEnd::kUnknown && parts_->handouts.stopped()) return;
  parts_->agents.Ended(session, how == StreamEnd::kHalfClosed);
}

void Engine::StopHandingOut(bool moves) {
  parts_->desk.StopHandingOut(moves);
  parts_->limits.census().StopWaiting();
  if (parts_->options.partitions > 1) parts_->statistics.Save();  // messages still arrive
}

Result<std::vector<Defined>> DefineAtOnce(Engine& engine, const std::string& ns,
                                          Sources sources, bool validate_only,
                                          std::vector<DefineProblem>* problems) {
  Compiled compiled = CompileAll(engine.DefinitionsOf(ns), sources, {}, engine.now());
  auto defined = *engine.Define(ns, &sources, &compiled, validate_only);
  *problems = std::move(compiled.problems);
  return defined;
}

}  // namespace dfsmr
