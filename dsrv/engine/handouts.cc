#include "dsrv/engine/handouts.h"

#include <algorithm>
#include <unordered_set>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/unclaimed.h"
#include "dsrv/engine/upgrades.h"
#include "dsrv/engine/values.h"
#include "dsrv/trace/span.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/dry_run.h"

namespace dfsmr {
namespace {

// What one reply holds, so that with one more task of the largest size it is still a message.
constexpr size_t kTaskBytes = limits::kMessage - 2 * limits::kJson - (64 << 10);
constexpr size_t kTasksAtFirst = 16;  // room for so many, when there is one

}  // namespace

std::optional<QueueKey> HandOuts::KeyOf(const PackageTable& packages, const VersionState& version,
                                        const Graph& graph, const Token& token, bool dry) {
  if (Unplaced(graph, token)) return std::nullopt;
  const MachineVersion& definition = *version.definition;
  const Node& node = graph.machine->nodes[token.node];
  QueueKey key{definition.ns,
               definition.machine.id,
               version.Now().definition->version,
               StatsName(version, node.id),
               node.settings->action,
               node.settings->queue};
  key.dry_run = dry;
  packages.Derive(version.Now().definition->package, &key);
  if (!token.runs_on) return key;
  key.capabilities = token.runs_on->capabilities;
  std::ranges::sort(key.capabilities);
  key.capabilities.erase(std::unique(key.capabilities.begin(), key.capabilities.end()),
                         key.capabilities.end());
  key.agent = token.runs_on->agent;
  // What the server has reported, no worker has.
  if (dry && key.agent == kDryRunClient) key.agent.clear();
  return key;
}

Agenda::Queue* HandOuts::QueueOf(VersionState& version, const Graph& graph, const Token& token,
                                 bool dry) {
  NodeState& state = graph.StateOf(token.node);
  if (state.queue && !dry) return state.queue;
  auto key = KeyOf(packages_, version, graph, token, dry);
  if (!key) return nullptr;
  Agenda::Queue* queue = agenda_.QueueFor(*key);
  if (dry) return queue;
  if (token.runs_on) {
    if (key->agent.empty()) state.last_queue = queue;
    return queue;
  }
  // Steps of one name may be of several actions, in the plans of several instances.
  if (!version.plan) state.queue = queue;
  state.last_queue = queue;
  return queue;
}

ReadyEntry HandOuts::EntryOf(const Graph& graph, std::string id, int32_t priority,
                             const Token& token) {
  const int64_t of_node = graph.machine->nodes[token.node].settings->priority;
  return {std::move(id), token.visit, token.available_at,
          /*mutant planted-14*/ of_node + priority /*end*/};
}

void HandOuts::Enqueue(Resident& resident, const Token& token) {
  const Instance& instance = resident.instance;
  const bool dry = static_cast<bool>(instance.dry_run);
  if (dry && !ForDryWorkers(resident.machine().nodes[token.node])) return;
  Agenda::Queue* queue = QueueOf(*resident.version, *resident.graph, token, dry);
  if (!queue) {
    unplaced_.emplace_back(ResidentKey(instance.ns, instance.id), token.visit);
    return;
  }
  agenda_.Push(queue, EntryOf(*resident.graph, instance.id, instance.priority, token));
}

void HandOuts::Load(Resident& resident) {
  if (!Runs(resident.instance.state) || resident.version->LeftBehind()) return;
  const Instance& instance = resident.instance;
  const bool dry = static_cast<bool>(instance.dry_run);
  for (const Token& token : std::as_const(instance.tokens)) {
    if (token.state != TokenState::kReady) continue;
    if (dry && !ForDryWorkers(resident.machine().nodes[token.node])) continue;
    if (Agenda::Queue* queue = QueueOf(*resident.version, *resident.graph, token, dry)) {
      ReadyEntry entry = EntryOf(*resident.graph, instance.id, instance.priority, token);
      const bool starting = turn_.number() == 0;  // there is more to come, and all is sorted then
      starting ? agenda_.Load(queue, std::move(entry)) : agenda_.Push(queue, std::move(entry));
    } else {
      unplaced_.emplace_back(ResidentKey(instance.ns, instance.id), token.visit);
    }
  }
}

void HandOuts::LoadResting(VersionState& version, std::string id, int32_t priority,
                           const Token& token) {
  if (!version.graph->machine->nodes[token.node].settings->limits.empty()) {
    limits_.LoadReady(version.definition->ns, id, token.visit);
  }
  if (Agenda::Queue* queue = QueueOf(version, *version.graph, token)) {
    agenda_.Load(queue, EntryOf(*version.graph, std::move(id), priority, token));
  } else {
    unplaced_.emplace_back(ResidentKey(version.definition->ns, id), token.visit);
  }
}

void HandOuts::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (instance.Stopped() || !Runs(instance.state)) return;
  for (const Tokens::Touched& touched : change.touched()) {
    const Token* token = instance.tokens.Find(touched.visit);
    if (!token || token->state != TokenState::kReady) continue;
    const bool was = touched.before && touched.before->state == TokenState::kReady &&
                     touched.before->available_at == token->available_at;
    if (!was || !Runs(change.before.state)) Enqueue(change.resident, *token);
  }
  /*mutant resumed-not-queued*/ if (change.before.state == InstanceState::kPaused) {
    EnqueueUntouched(change);
  } /*end*/
}

// The instance runs again: what lies ready and was not touched.
void HandOuts::EnqueueUntouched(const Change& change) {
  const Instance& instance = change.instance();
  std::unordered_set<uint64_t> touched;
  size_t ready = instance.tokens.Count(TokenState::kReady);
  for (const Tokens::Touched& one : change.touched()) {
    const Token* now = instance.tokens.Find(one.visit);
    if (!now || now->state != TokenState::kReady) continue;
    touched.insert(one.visit);
    --ready;
  }
  for (auto token = instance.tokens.begin(); ready > 0 && token != instance.tokens.end(); ++token) {
    if (token->state != TokenState::kReady || touched.contains(token->visit)) continue;
    Enqueue(change.resident, *token);
    --ready;
  }
}

std::vector<Task> HandOuts::Take(const Filter& filter, const Taker& taker, size_t max,
                                 bool* durable) {
  std::vector<Task> tasks;
  size_t bytes = 0;
  size_t sweeps =
      max / Upgrades::kMovesAtOnce + 2;  // enough to fill the reply, and no more than that
  while (tasks.size() < max && bytes < kTaskBytes && !stopped_ && !tired()) {
    while (PlaceOne()) {
    }
    auto popped = agenda_.Pop(filter, taker.worker);
    if (!popped && sweeps > 0 && upgrades_.MoveFor(filter)) {
      --sweeps;
      continue;
    }
    if (!popped) break;
    if (tasks.empty()) tasks.reserve(std::min(max, kTasksAtFirst));
    Task& task = tasks.emplace_back();
    if (TakeOne(*std::move(popped), taker, &task, durable)) {
      if (task.spec) bytes += task.spec->params.size();
      bytes += task.node_params.size() + task.event_data.size() + 256;
    } else {
      tasks.pop_back();
      if (--misses_ == 0) turn_.WantMore();
    }
  }
  return tasks;
}

bool HandOuts::TakeOne(Agenda::Popped popped, const Taker& taker, Task* task, bool* durable) {
  // A queue for one worker alone may be gone once its instance has moved.
  const bool stays = Agenda::KeyOf(popped.queue).agent.empty();
  auto touched = changer_.Touch(Agenda::KeyOf(popped.queue).ns, popped.entry.instance);
  if (!touched) return false;
  Resident& resident = **touched;
  const Instance& instance = resident.instance;
  MachineState& machine = *resident.version->machine;
  const Token* token = instance.tokens.Find(popped.entry.visit);
  // One that has another place in line by now was queued there anew.
  const bool stands = token && token->available_at == popped.entry.since;
  if (!stands || token->state != TokenState::kReady || !Runs(instance.state)) {
    throttle_.NotNeeded(machine, popped);
    if (stays) agenda_.KeepTurn(popped);
    return false;
  }
  if (!instance.dry_run && token->TimedOutBefore() && throttle_.HoldsBack(machine, popped)) {
    return false;
  }
  if (!Prepare(resident, *token, task)) return false;
  auto keys = limits_.Admit(resident, *token);
  if (!keys) return false;
  const NodeState& state = resident.StateOf(token->node);
  const TimeoutPolicy& policy = resident.machine().nodes[token->node].settings->timeout;
  const auto timeout = state.latency->Timeout(policy, token->TimedOutBefore(), state.claimed);
  ClaimArgs args{
      turn_.NextClaim(), taker.worker,     timeout ? After(turn_.clock(), *timeout) : kNever,
      taker.session,     *std::move(keys), taker.terms.NewOperation(turn_.now())};
  if (taker.terms.begin_within > Duration()) {
    args.deadline = After(turn_.clock(), taker.terms.begin_within);
  }
  MakeClaim(resident, token->visit, std::move(args), task, durable);
  return true;
}

// Not by the changer: a claim that may be lost in a crash is neither a change of its instance's row
// nor a record of the feed before something else happens to it.
void HandOuts::MakeClaim(Resident& resident, uint64_t visit, ClaimArgs args, Task* task,
                         bool* durable) {
  Instance& instance = resident.instance;
  Scene scene = changer_.SceneOf(resident, &resident.pending);
  Token& token = *instance.tokens.FindMutable(visit);
  const Node& node = resident.machine().nodes[token.node];
  if (!instance.dry_run) {
    measures_.HandedOut(*resident.version, node.id, resident.StateOf(token.node), token);
  }
  const Claim& claim = rules::TakeClaim(scene, token, std::move(args));
  Statistics::CountTokens(instance, *resident.graph, *resident.graph);
  instance.tokens.Forget();
  limits_.Claimed(resident, visit);
  unclaimed_.Claimed(resident, visit);
  if (/*mutant at-most-once-not-durable*/ node.AtMostOnce() /*end*/ && claim.Begun()) {
    residents_.Settle(resident);
  } else {
    residents_.MarkLazy(resident);
  }
  *durable = *durable && residents_.Durable(resident);
  timers_.ArmClaim(resident, visit, claim);
  task->attempt = claim.attempt;
  if (instance.traced) Trace(resident, task);
  task->claim_id = claim.id;
  task->claim = rules::ClaimText(instance, visit, claim.id);
  (claim.Begun() ? task->deadline : task->begin_by) = claim.deadline;
  if (!instance.dry_run) ++resident.StateOf(token.node).Pulse().claims.At(turn_.now());
  if (!instance.dry_run) throttle_.Claimed(*resident.version->machine, claim.retry);
}

bool HandOuts::Prepare(Resident& resident, const Token& token, Task* task) {
  auto spec = residents_.SpecOf(resident);
  if (!spec) return false;
  const Instance& instance = resident.instance;
  const Node& node = resident.machine().nodes[token.node];
  task->ns = instance.ns;
  task->instance = instance.id;
  task->machine = instance.machine;
  task->version = resident.version->Now().definition->version;
  task->node = node.id;
  task->visit = token.visit;
  task->spec = *std::move(spec);
  task->node_params = token.params;
  task->checkpoint = token.Checkpoint();
  task->action = node.settings->action;
  task->queue = node.settings->queue;
  task->tries = TriesOf(token);
  task->tries_limit = node.settings->retry.limit;
  task->run_timeout = node.settings->bounds.run_timeout;
  task->dry_run = static_cast<bool>(instance.dry_run);
  if (!packages_.empty()) ServeBy(resident.version->Now().definition->package, task);
  return !token.step || PrepareStep(resident, token, task);
}

// The task may go without its params, so without the spec.
void HandOuts::Trace(Resident& resident, Task* task) {
  auto spec = residents_.SpecOf(resident);
  if (!spec || !(*spec)->trace) return;
  task->traceparent =
      Traceparent(*(*spec)->trace, SpanId({task->ns, task->instance, task->visit, task->attempt}));
}

void HandOuts::ServeBy(const PackageVersionPtr& own, Task* task) const {
  task->package = packages_.ServerOf(own, task->ns, task->action);
  if (task->package) task->package_worker = task->package->WorkerOf(task->action);
}

std::vector<PackageWorkerRef> HandOuts::WorkersOf(const Resident& resident,
                                                  const Token& token) const {
  std::vector<PackageWorkerRef> workers;
  const auto& nodes = resident.machine().nodes;
  if (packages_.empty() || token.node >= nodes.size()) return workers;
  const PackageVersionPtr& now = resident.version->Now().definition->package;
  const PackageVersionPtr& before = resident.version->definition->package;
  std::vector<PackageVersionPtr> versions = {now};
  if (before != now) versions.push_back(before);
  for (const PackageVersionPtr& own : versions) {
    Task task;
    task.ns = resident.instance.ns;
    task.action = nodes[token.node].settings->action;
    ServeBy(own, &task);
    if (!task.package) continue;
    const auto worker = std::ranges::find(task.package->workers, task.package_worker,
                                          &PackageVersion::Worker::name);
    if (worker != task.package->workers.end()) workers.push_back({task.package, &*worker});
  }
  return workers;
}

bool HandOuts::Fail(Resident& resident, uint64_t visit, const std::string& why) {
  changer_.Apply(resident, [&](Scene& scene) { rules::FailStep(scene, visit, why); });
  residents_.MarkDirty(resident);
  return false;
}

Result<std::string> HandOuts::InputOf(Resident& resident, const Token& token) {
  const Node& node = resident.machine().nodes[token.node];
  const PlanGraph& graph = *resident.machine().graph;
  const Step& step = graph.steps[node.step];
  const std::string* patched = resident.instance.tokens.Patched(token.home);
  const std::string& input = patched ? *patched : step.input;
  const bool planner = node.role == Role::kPlanner;
  auto invalid = [](std::string why) {
    return Error{Code::kInvalidArgument, Reason::kNone, std::move(why)};
  };
  const uint64_t unknown = values_.unknown();
  auto filled = values_.Fill(resident, input);
  if (planner && !filled) filled = input;  // outputs are to come
  // Of a dry run: made of outputs that nobody gave, so there is nothing to check.
  const bool made_up = values_.unknown() != unknown;
  if (made_up && filled) {
    return json::KindOf(*filled) == json::Kind::kObject ? filled : Result<std::string>("{}");
  }
  if (!filled) return invalid("input: " + filled.error().message);
  if (json::KindOf(*filled) != json::Kind::kObject) {
    return invalid("input: expected an object, but it is " + Quoted(*filled));
  }
  if (filled->size() > limits::kJson) {
    return invalid("input: it has " + std::to_string(filled->size()) + " bytes; the limit is " +
                   std::to_string(limits::kJson));
  }
  const auto& check = graph.actions[step.action].input.check;
  if (check && !planner) {
    if (auto violation = check->Violation(*filled)) return invalid(*violation);
  }
  return filled;
}

bool HandOuts::TryInput(Resident& resident, const Token& token) {
  if (!token.step) return true;
  auto input = InputOf(resident, token);
  return input || Fail(resident, token.visit, input.error().message);
}

bool HandOuts::PrepareStep(Resident& resident, const Token& token, Task* task) {
  const PlanGraph& graph = *resident.machine().graph;
  const Node& node = resident.machine().nodes[token.node];
  auto input = InputOf(resident, token);
  if (!input) return Fail(resident, token.visit, input.error().message);
  task->node_params = *std::move(input);
  task->event = token.step->event;
  /*mutant event-data-not-handed*/ task->event_data = token.step->event_data; /*end*/
  task->phase = node.role == Role::kPlanner    ? "plan"
                : node.role == Role::kFinalize ? "finalize"
                                               : "run";
  task->middleware = graph.actions[graph.steps[node.step].action].middleware;
  const bool large = task->spec->params.size() > limits::kStepParams;
  if (large && node.role != Role::kPlanner) task->spec.reset();
  return true;
}

}  // namespace dfsmr
