#include "dsrv/engine/engine.h"

#include <algorithm>

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

}  // namespace

Engine::Engine(Store& store, EngineOptions options)
    : options_(std::move(options)),
      turn_(store, options_.partition),
      catalog_(turn_, options_),
      statistics_(turn_, catalog_, options_),
      residents_(turn_, catalog_, statistics_, options_),
      changer_(turn_, residents_),
      timers_(turn_),
      throttle_(turn_, statistics_, timers_, agenda_),
      claims_(turn_, catalog_, statistics_, residents_, changer_, throttle_),
      upgrades_(turn_, catalog_, residents_, changer_, agenda_, throttle_),
      values_(turn_, residents_, options_),
      singletons_(turn_, residents_, changer_, values_),
      planner_(turn_, catalog_, residents_, changer_, values_, singletons_, options_),
      followers_(residents_, changer_),
      starter_(turn_, catalog_, residents_, changer_, followers_, planner_),
      hooks_(catalog_, values_, starter_),
      family_(residents_, changer_),
      canceller_(turn_, residents_, changer_, family_),
      spawner_(turn_, catalog_, statistics_, residents_, changer_, values_, followers_, family_,
               starter_, options_),
      reports_(turn_, catalog_, residents_, changer_, claims_),
      handouts_(turn_, agenda_, residents_, changer_, values_, singletons_, throttle_, timers_,
                upgrades_),
      desk_(turn_, agenda_, timers_, claims_, handouts_),
      retention_(turn_, catalog_, statistics_, residents_, options_),
      parts_{&followers_, &planner_,  &family_, &singletons_, &hooks_, &spawner_,
             &canceller_, &upgrades_, &claims_, &timers_,     &desk_,  &handouts_} {
  changer_.Tell(parts_);
}

Engine::~Engine() = default;

// Turns -----------------------------------------------------------------------------------------

void Engine::BeginTurn(Timestamp now, uint64_t random) {
  turn_.Begin(now, random);
  BeginPass();
}

void Engine::ResumeTurn(Timestamp now, uint64_t random) {
  turn_.Resume(now, random);
  BeginPass();
}

void Engine::BeginPass() {
  for (Part* part : parts_) part->BeginPass();
}

void Engine::Work() {
  FireTimers();
  residents_.SettleDue();
  upgrades_.MoveSome();
  retention_.Work();
  if (statistics_.Due() <= turn_.now()) statistics_.Save();
  // A hand-out may fail its step, which may stop an instance: what follows is of the same commit.
  do {
    while (WorkOne()) {
    }
  } while (desk_.Serve());
}

bool Engine::WorkOne() {
  return std::ranges::any_of(parts_, [](Part* part) { return part->Work(); });
}

void Engine::FireTimers() {
  for (size_t fired = 0; timers_.Due() <= turn_.now(); ++fired) {
    if (fired == kTimersPerPass) return turn_.WantMore();
    std::visit(Overloaded{[this](const ClaimDeadline& deadline) { claims_.TimeOut(deadline); },
                          [this](const BreakerTick& tick) { throttle_.Tick(*tick.machine); },
                          [this](const PollEnd& end) { desk_.Expire(end.poll); },
                          [this](const Alarm& alarm) {
                            auto touched = changer_.Touch(alarm.ns, alarm.id);
                            if (!touched) return;
                            changer_.Apply(**touched, [&](Scene& scene) {
                              alarm.visit == 0 ? rules::StartDue(scene)
                                               : rules::EndWait(scene, alarm.visit);
                            });
                          }},
               *timers_.PopDue());
  }
}

std::vector<std::function<void()>> Engine::TakeAnswers() {
  desk_.TellSessions();
  return turn_.TakeAnswers();
}

Turn Engine::EndTurn() {
  residents_.Write();
  statistics_.Stage();
  Turn turn = turn_.End();
  residents_.Evict();
  return turn;
}

Timestamp Engine::NextDeadline() const {
  if (turn_.more()) return turn_.now();
  return std::min({retention_.Due(), statistics_.Due(), timers_.Due(), residents_.SettleDueAt()});
}

void Engine::AfterCommit(std::function<void()> tell) { turn_.AfterCommit(std::move(tell)); }

void Engine::AfterCommit(SessionId session, std::function<void(bool)> tell) {
  desk_.AfterCommit(session, std::move(tell));
}

void Engine::Flush() {
  residents_.SettleAll();
  statistics_.Save();
}

// Definitions -----------------------------------------------------------------------------------

std::shared_ptr<const DefinitionSet> Engine::DefinitionsOf(const std::string& ns) {
  return catalog_.DefinitionsOf(ns);
}

Result<std::vector<Defined>> Engine::Define(const std::string& ns, std::vector<Machine> machines,
                                            bool validate_only,
                                            std::vector<DefineProblem>* problems) {
  Compiled compiled = CompileAll(catalog_.DefinitionsOf(ns), machines, {});
  auto defined = *Define(ns, &machines, compiled, validate_only);
  *problems = std::move(compiled.problems);
  return defined;
}

std::optional<Result<std::vector<Defined>>> Engine::Define(const std::string& ns,
                                                           std::vector<Machine>* machines,
                                                           const Compiled& compiled,
                                                           bool validate_only) {
  if (compiled.under != catalog_.DefinitionsOf(ns)) return std::nullopt;
  if (!compiled.Sound()) {
    return Error{Code::kInvalidArgument, Reason::kBadMachine,
                 compiled.problems.front().problem.message};
  }
  auto full = validate_only ? std::nullopt : turn_.NeedsRoom(Room::kAmple);
  if (full) return *std::move(full);
  std::vector<Defined> defined;
  for (size_t i = 0; i < machines->size(); ++i) {
    defined.push_back(catalog_.Preview(ns, (*machines)[i]));
    if (!defined.back().changed || validate_only) continue;
    AddVersion(ns, defined.back(), std::move((*machines)[i]), compiled.shown[i]);
  }
  return defined;
}

void Engine::AddVersion(const std::string& ns, const Defined& one, Machine machine,
                        std::shared_ptr<const Machine> shown) {
  auto definition = std::make_shared<const MachineVersion>(
      MachineVersion{ns, one.version, std::move(machine), turn_.now()});
  rows::PutMachine(turn_.writer(),
                   {ns, one.id, one.version, definition->machine.source, turn_.now()});
  VersionState& added = catalog_.Add(definition, std::move(shown));
  Event event;
  event.kind = ChangeKind::kDefined;
  event.time = turn_.now();
  event.ns = ns;
  event.machine = one.id;
  event.version = one.version;
  statistics_.Record(&event, nullptr);
  const bool moves = one.strategy != UpgradeStrategy::kContinue;
  if (moves && one.version > 1) upgrades_.LeaveBehind(added);
}

Result<MachineView> Engine::GetMachine(const std::string& ns, const std::string& id,
                                       uint32_t version) {
  return catalog_.GetMachine(ns, id, version);
}

std::vector<MachineView> Engine::ListMachines(const std::string& ns, bool all_versions,
                                              const std::pair<std::string, uint32_t>& after,
                                              size_t limit) {
  return catalog_.ListMachines(ns, all_versions, after, limit);
}

// Instances -------------------------------------------------------------------------------------

Result<Started> Engine::Start(StartArgs args) { return starter_.Start(std::move(args)); }

Result<Answer> Engine::Report(const std::string& ns, const std::string& id, ReportArgs args,
                              const std::vector<rows::ChildStart>& children) {
  return reports_.Report(ns, id, std::move(args), children);
}

Result<std::string> Engine::Relinquish(const std::string& ns, const std::string& id,
                                       const std::string& claim, const std::string& client) {
  return claims_.Relinquish(ns, id, claim, client);
}

Engine::Extended Engine::Extend(const std::string& ns, const std::string& id,
                                const std::string& claim, std::optional<Duration> by,
                                double progress) {
  return claims_.Extend(ns, id, claim, by, progress);
}

template <typename Rule>
Result<Ok> Engine::Control(const std::string& ns, const std::string& id, Rule rule) {
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  auto outcome = changer_.Apply(**resident, rule);
  if (outcome && !(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
  return outcome;
}

Result<Ok> Engine::Pause(const std::string& ns, const std::string& id) {
  return Control(ns, id, [](Scene& scene) { return rules::Pause(scene); });
}

Result<Ok> Engine::Resume(const std::string& ns, const std::string& id, const std::string& node,
                          bool force) {
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  if (auto may = singletons_.MayResume(**resident); !may) return may;
  return Control(ns, id, [&](Scene& scene) { return rules::Resume(scene, node, force); });
}

Result<Ok> Engine::Skip(const std::string& ns, const std::string& id, const std::string& node) {
  return Control(ns, id, [&](Scene& scene) { return rules::Skip(scene, node); });
}

Result<Ok> Engine::Cancel(const std::string& ns, const std::string& id, CancelMode mode) {
  return Control(ns, id, [&](Scene& scene) { return rules::Cancel(scene, mode); });
}

Result<Ok> Engine::Settle(const std::string& ns, const std::string& id) {
  if (id.empty()) {
    residents_.SettleAll();
    return Ok{};
  }
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  residents_.Settle(**resident);
  return Ok{};
}

bool Engine::Concerns(const std::string& ns, const std::string& id, const std::string& claim,
                      const std::vector<std::string>& machines,
                      const std::vector<std::string>& queues) {
  auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  auto loaded = residents_.Load(ns, id);
  if (!loaded) return false;
  const Resident& resident = **loaded;
  const Tokens& tokens = resident.instance.tokens;
  auto stands_there = [&](const Token& token) {
    const auto& nodes = resident.machine().nodes;
    return token.node < nodes.size() && among(queues, nodes[token.node].settings->queue);
  };
  if (!among(machines, resident.instance.machine)) return false;
  if (claim.empty()) return queues.empty() || std::ranges::any_of(tokens, stands_there);
  auto ref = rules::ParseClaim(resident.instance, claim);
  if (!ref) return false;
  const Token* token = tokens.Find(ref->visit);
  return !token || stands_there(*token);
}

// Work ------------------------------------------------------------------------------------------

Result<WaiterId> Engine::Poll(PollArgs args, PollSink sink) {
  return desk_.Poll(std::move(args), std::move(sink));
}

bool Engine::CancelPoll(WaiterId poll) { return desk_.CancelPoll(poll); }

void Engine::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  claims_.Undelivered(tasks, perhaps);
}

Result<SessionId> Engine::OpenSession(Filter filter, std::string worker, int32_t capacity,
                                      SessionSink sink) {
  return desk_.OpenSession(std::move(filter), std::move(worker), capacity, std::move(sink));
}

void Engine::DrainSession(SessionId session) { desk_.DrainSession(session); }

void Engine::CloseSession(SessionId session) { desk_.CloseSession(session); }

void Engine::StopHandingOut() { desk_.StopHandingOut(); }

}  // namespace dfsmr
