// What workers, operators and children say to the steps of a plan.
#include <algorithm>
#include <array>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/base/template.h"
#include "fsm/rules/inside.h"

namespace dfsmr {

using namespace inside;  // NOLINT: these are its own rules

namespace {

constexpr std::array<std::string_view, 7> kVerbs = {"ok",   "error", "suspend", "retry",
                                                    "skip", "patch", "planned"};

bool IsVerb(std::string_view word) { return std::ranges::find(kVerbs, word) != kVerbs.end(); }

Error NotThere(const Scene& scene, const Node& node, const std::string& transition,
               std::string_view legal) {
  return Refused(Reason::kIllegalTransition,
                 Named(scene.instance) + " stands at " + Quoted(node.id) + ", which has no " +
                     "transition " + Quoted(transition) + "; it has: " + std::string(legal));
}

struct StepReport {
  Scene& scene;
  size_t slot;
  ClaimId claim;
  const ReportArgs& args;
  const Token left;
  const Node& node;
  const size_t first;  // of the events that it makes
  std::string client;

  Led led() const { return {args.transition, args.params, client}; }
};

Result<Ok> CheckOutput(const StepReport& report) {
  const StepAction& action = ActionOf(report.scene, report.left);
  if (!action.output.check || report.node.role == Role::kFinalize) return Ok{};
  const std::string& output = report.args.output;
  auto violation = action.output.check->Violation(output.empty() ? "{}" : std::string_view(output));
  if (!violation) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kBadParams,
               "action " + Quoted(action.name) + " does not allow this output: " + *violation};
}

Result<std::vector<std::string>> Done(const StepReport& report) {
  auto checked = CheckOutput(report);
  if (!checked) return checked.error();
  const Edge& ok = *report.scene.machine.nodes[report.left.home].FindTransition("ok");
  return LeadOn(report.scene, report.slot, ok, /*skipped=*/false, report.led());
}

// The nodes that the report has led to so far, the first hundred of them.
std::vector<std::string> Entered(const StepReport& report) {
  std::vector<std::string> nodes;
  for (size_t i = report.first; i < report.scene.events.size() && nodes.size() < 100; ++i) {
    const Event& event = report.scene.events[i];
    const bool entry = event.kind == ChangeKind::kTransitioned ||
                       event.kind == ChangeKind::kSuspended || event.kind == ChangeKind::kWoken;
    if (entry && event.visit != 0) nodes.push_back(event.node);
  }
  return nodes;
}

Result<std::vector<std::string>> Suspend(const StepReport& report) {
  Scene& scene = report.scene;
  const NodeIndex node = report.node.FindTransition("suspend")->targets.front();
  Token& token = MoveTo(scene, report.slot, node, TokenState::kWaiting, ChangeKind::kSuspended,
                        report.led());
  StepState& step = *token.step;
  const std::string was = step.event;
  if (was == "poll") step.poll_failures = 0;
  if (report.args.children > 0) {
    ChildCounts children;
    children.first = step.next_child;
    step.next_child += report.args.children;
    children.generation = token.visit;
    children.total = report.args.children;
    children.counted = true;
    children.concurrency = report.args.concurrency;
    step.children = std::move(children);
  }
  Suspended(scene, report.slot, report.args.wake_after);
  auto entered = Entered(report);
  // For children since an earlier suspend.
  const bool waits_still = report.args.children == 0 && step.children && step.children->Awaited();
  if (scene.instance.cancel_requested) {
    if (was == "cancel") {
      scene.instance.tokens.Remove(report.slot);
    } else {
      Wake(scene, report.slot, "cancel", "", "");
    }
  } else if (!TakeEvent(scene, report.slot) && waits_still) {
    JudgeChildren(scene, scene.instance.last_visit);
  }
  return entered;
}

// What is told changes what the token carries, not where it stands.
Result<std::vector<std::string>> Stays(const StepReport& report, std::string note) {
  Event& event = Emit(report.scene, ChangeKind::kTransitioned);
  event.prev_node = event.node = report.node.id;
  event.transition = report.args.transition;
  event.visit = report.left.visit;
  event.client = report.client;
  event.params = report.args.params;
  event.note = std::move(note);
  return std::vector<std::string>{report.node.id};
}

Result<std::vector<std::string>> SendEvent(const StepReport& report) {
  Scene& scene = report.scene;
  if (report.node.role == Role::kSuspended) {
    Wake(scene, report.slot, report.args.transition, report.args.params, report.client);
    return Entered(report);
  }
  const std::vector<std::pair<std::string, std::string>>& waiting = report.left.step->inbox;
  size_t bytes = report.args.params.size();
  for (const auto& [event, data] : waiting) bytes += event.size() + data.size();
  if (waiting.size() >= limits::kEvents || bytes > limits::kEventBytes) {
    return Error{Code::kResourceExhausted, Reason::kOverloaded,
                 "step " + Quoted(report.node.id) + " has " + std::to_string(waiting.size()) +
                     " events waiting already, of " + std::to_string(bytes) +
                     " bytes with this one; send more when it has taken some"};
  }
  StepState& step = *scene.instance.tokens.Mutable(report.slot).step;
  step.inbox.emplace_back(report.args.transition, report.args.params);
  return Stays(report, "waits until the step suspends");
}

Result<std::vector<std::string>> Fail(const StepReport& report) {
  Scene& scene = report.scene;
  const bool last = report.left.step->tries + 1 >= ActionOf(scene, report.left).retry.limit;
  const bool cancelled = scene.instance.cancel_requested;
  if (report.node.role != Role::kPlanner || !(last || cancelled)) {
    Failed(scene, report.slot, report.args.error, report.led());
    return Entered(report);
  }
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = report.node.id;
  event.transition = report.args.transition;
  event.client = report.client;
  event.left_visit = report.left.visit;
  if (cancelled) {
    scene.instance.tokens.Remove(report.slot);
  } else {
    FailStep(scene, report.left.visit,
             report.args.error.empty() ? "its planner reported an error" : report.args.error);
  }
  return std::vector<std::string>{};
}

// The input of this phase from now on, and of the finalize phase that is still to come.
Result<std::vector<std::string>> Patch(const StepReport& report) {
  Tokens& tokens = report.scene.instance.tokens;
  const Machine& machine = report.scene.machine;
  const PlanGraph& graph = *machine.graph;
  const NodeIndex home = report.left.home;
  const Step& step = graph.steps[report.node.step];
  const auto spawn = graph.spawns.find(report.node.step);
  const std::string& own = spawn == graph.spawns.end() ? step.input : spawn->second.input;
  const std::string* patched = tokens.Patched(home);
  const std::string input =
      json::Merge(patched ? *patched : own,
                  Literal(report.args.params.empty() ? "{}" : report.args.params));
  tokens.Patch(home, input);
  const bool run = machine.nodes[home].role != Role::kFinalize;
  if (run && step.finalize) tokens.Patch(machine.Find(step.path + "/finalize"), input);
  return Stays(report, "input changed");
}

// Whether a paused plan may go on: it gave its singleton back when it paused.
Result<Ok> KeyIsFree(const Scene& scene) {
  const Instance& instance = scene.instance;
  const bool stays = instance.state != InstanceState::kPaused || instance.plan->pause_requested;
  if (stays || scene.key_holder.empty()) return Ok{};
  return Refused(Reason::kIllegalTransition,
                 HeldBy(scene.key, scene.key_holder) + "; let this one go on when that has ended");
}

Result<std::vector<std::string>> Held(const StepReport& report) {
  const std::string& verb = report.args.transition;
  if (verb == "patch") return Patch(report);
  if (verb != "retry" && verb != "skip") {
    return NotThere(report.scene, report.node, verb, "retry, skip, patch (changes its input)");
  }
  auto free = KeyIsFree(report.scene);
  if (!free) return free.error();
  if (verb == "retry") {
    Retry(report.scene, report.slot, report.client);
    return Entered(report);
  }
  SkipHeld(report.scene, report.slot, report.client);
  return Entered(report);
}

Result<std::vector<std::string>> Act(const StepReport& report) {
  const std::string& verb = report.args.transition;
  const bool outside = !report.claim;
  const Role role = report.node.role;
  if (verb.starts_with(kSystemPrefix)) {
    return NotThere(report.scene, report.node, verb, report.node.LegalTransitions());
  }
  switch (role) {
    case Role::kError:
    case Role::kFinalizeError: return Held(report);
    case Role::kRun:
    case Role::kSuspended:
      if (verb == "ok") return Done(report);
      if (verb == "error") return Fail(report);
      if (verb == "suspend" && role == Role::kRun) return Suspend(report);
      if (outside && !IsVerb(verb)) return SendEvent(report);
      return NotThere(report.scene, report.node, verb,
                      role == Role::kRun ? "ok, error, suspend; events come from outside, without "
                                           "a claim"
                                         : "ok, error, and any event that wakes it");
    case Role::kFinalize:
      if (verb == "ok") return Done(report);
      if (verb == "error") return Fail(report);
      return NotThere(report.scene, report.node, verb, "ok, error");
    case Role::kPlanner:
      if (verb == "planned") {
        return LeadOn(report.scene, report.slot, *report.node.FindTransition("planned"),
                      /*skipped=*/false, report.led());
      }
      if (verb == "error") return Fail(report);
      return NotThere(report.scene, report.node, verb, "planned, error");
    case Role::kSpawn:
    case Role::kPass:
    case Role::kNone: break;
  }
  return Refused(Reason::kIllegalTransition,
                 Named(report.scene.instance) + " waits at " + Quoted(report.node.id) +
                     " for the instances that the step has started; it goes on when they have "
                     "stopped");
}

}  // namespace

Result<Answer> inside::ReportStep(Scene& scene, size_t slot, ClaimId id, const ReportArgs& args) {
  const Token& token = std::as_const(scene.instance.tokens)[slot];
  StepReport report{scene, slot, id, args, token, scene.machine.nodes[token.node],
                    scene.events.size(), args.client};
  const Claim* claim = id ? report.left.FindClaim(id) : nullptr;
  if (report.client.empty() && claim) report.client = claim->worker;
  const size_t first = report.first;
  auto entered = Act(report);
  if (!entered) return entered.error();
  SettleSteps(scene);
  Answer answer;
  answer.claim = id;
  answer.transition = args.transition;
  answer.prev_node = report.node.id;
  answer.nodes = *std::move(entered);
  answer.state = scene.instance.state;
  answer.result = scene.instance.result;
  for (size_t i = first; i < scene.events.size() && answer.visit == 0; ++i) {
    const bool entry = scene.events[i].kind != ChangeKind::kFinished &&
                       scene.events[i].kind != ChangeKind::kSkipped;
    if (entry) answer.visit = scene.events[i].visit;
  }
  Event& event = scene.events[first];
  event.attempt = claim ? claim->attempt : 0;
  if (event.note.empty()) event.note = args.error;
  const bool puts_out = args.transition == "ok" || args.transition == "suspend";
  if (puts_out && report.node.role != Role::kFinalize) event.output = args.output;
  const bool worked = report.node.kind == NodeKind::kWork && event.left_visit != 0;
  if (worked) SampleReport(scene, report.left, claim, event);
  if (id) {
    event.answer = answer;
    scene.instance.last_answer = answer;
  }
  return answer;
}

Result<size_t> inside::StepSlot(const Scene& scene, const std::string& node) {
  const Instance& instance = scene.instance;
  if (node.empty()) {
    if (instance.tokens.size() == 1) return size_t{0};
    if (instance.tokens.empty()) {
      return Refused(Reason::kIllegalTransition, Named(instance) + " stands nowhere; it is " +
                                                     std::string(Name(instance.state)));
    }
    std::string nodes;
    for (size_t i = 0; i < instance.tokens.size() && i < 10; ++i) {
      nodes += (i ? ", " : "") + scene.machine.nodes[instance.tokens[i].node].id;
    }
    if (instance.tokens.size() > 10) nodes += ", …";
    return Refused(Reason::kAmbiguousNode, Named(instance) + " stands on several nodes (" + nodes +
                                               "): say which one with 'node'");
  }
  const NodeIndex index = scene.machine.Find(node);
  if (index == kNoNode) {
    return Error{
        Code::kNotFound, Reason::kNoSuchNode,
        Named(instance) + " of plan " + Quoted(instance.machine) + " has no step " + Quoted(node)};
  }
  const Node& meant = scene.machine.nodes[index];
  const bool exact = meant.role == Role::kError || meant.role == Role::kSuspended ||
                     meant.role == Role::kFinalizeError;
  auto slot = instance.tokens.SlotOfHome(meant.home);
  if (exact && slot && instance.tokens[*slot].node != index) slot.reset();
  if (!slot && !exact) {
    const NodeIndex finalize = scene.machine.Find(node + "/finalize");
    if (finalize != kNoNode) slot = instance.tokens.SlotOfHome(finalize);
  }
  if (slot) return *slot;
  return Refused(Reason::kIllegalTransition, Named(instance) + " does not stand at " +
                                                 Quoted(node) +
                                                 ": the step has not begun, or has ended");
}

// Control ----------------------------------------------------------------------------------------

namespace {

std::vector<uint64_t> VisitsIn(const Instance& instance, TokenState state) {
  std::vector<uint64_t> visits;
  for (const Token& token : instance.tokens) {
    if (token.state == state) visits.push_back(token.visit);
  }
  std::ranges::sort(visits);
  return visits;
}

Error NotHeld(const Scene& scene, const std::string& node, const std::string& hint) {
  return Refused(Reason::kNotHeld, "nothing of " + Named(scene.instance) + " is held" +
                                       (node.empty() ? "" : " at " + Quoted(node)) + hint);
}

}  // namespace

Result<Ok> inside::ResumeSteps(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  std::vector<uint64_t> held;
  std::vector<uint64_t> claimed;
  if (node.empty()) {
    held = VisitsIn(instance, TokenState::kHeld);
    if (force) claimed = VisitsIn(instance, TokenState::kClaimed);
  } else {
    auto slot = StepSlot(scene, node);
    if (!slot && slot.error().reason == Reason::kNoSuchNode) return slot.error();
    const Token* token = slot ? &std::as_const(instance.tokens)[*slot] : nullptr;
    if (token && token->state == TokenState::kHeld) held.push_back(token->visit);
    if (token && force && token->state == TokenState::kClaimed) claimed.push_back(token->visit);
    if (held.empty() && claimed.empty()) {
      return NotHeld(scene, node, force ? "" : "; 'force' runs claimed work again");
    }
  }
  const bool paused = instance.plan->pause_requested && node.empty();
  if (!paused && held.empty() && claimed.empty()) return Ok{};
  if (node.empty()) instance.plan->pause_requested = false;
  const bool was_paused = instance.state == InstanceState::kPaused;
  if (was_paused && !instance.plan->pause_requested) {
    instance.plan->key = scene.key;
    instance.error.clear();
    SetState(scene, scene.machine.graph->planning ? InstanceState::kPlanning
                                                  : InstanceState::kRunning);
  }
  Emit(scene, ChangeKind::kResumed).node = node;
  bool finalized = false;  // retrying one finalize phase retries all
  for (uint64_t visit : held) {
    const auto slot = instance.tokens.SlotOf(visit);
    if (!slot) continue;
    const Token& token = std::as_const(instance.tokens)[*slot];
    if (scene.machine.nodes[token.home].role == Role::kFinalize &&
        std::exchange(finalized, true)) {
      continue;
    }
    Retry(scene, *slot, "");
  }
  for (uint64_t visit : claimed) Rerun(scene, visit);
  SettleSteps(scene);
  return Ok{};
}

Result<Ok> inside::SkipStep(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  std::vector<uint64_t> held;
  if (node.empty()) {
    held = VisitsIn(instance, TokenState::kHeld);
    if (held.size() > 1) {
      return Refused(Reason::kAmbiguousNode, std::to_string(held.size()) + " steps of " +
                                                 Named(instance) +
                                                 " are held: say which one with 'node'");
    }
  } else {
    auto slot = StepSlot(scene, node);
    if (!slot && slot.error().reason == Reason::kNoSuchNode) return slot.error();
    if (slot && std::as_const(instance.tokens)[*slot].state == TokenState::kHeld) {
      held.push_back(std::as_const(instance.tokens)[*slot].visit);
    }
  }
  if (held.empty()) return NotHeld(scene, node, "; only a held step can be skipped");
  auto free = KeyIsFree(scene);
  if (!free) return free;
  SkipHeld(scene, *instance.tokens.SlotOf(held.front()), "");
  SettleSteps(scene);
  return Ok{};
}

// Planning ---------------------------------------------------------------------------------------

void Planned(Scene& scene) {
  const PlanGraph& graph = *scene.machine.graph;
  PlanState& plan = *scene.instance.plan;
  plan.done_weight = plan.done_finalize = plan.partial = plan.weight = 0;
  for (const Step& step : graph.steps) {
    const Weights& weight = graph.actions[step.action].weight;
    if (step.kind != Step::Kind::kPass) plan.weight += weight.run;
    if (step.finalize) plan.weight += weight.finalize;
  }
  if (!graph.planning) {
    SetState(scene, InstanceState::kRunning);
    plan.ran = true;
  }
  EnterPlan(scene);
  SettleSteps(scene);
}

void TakeKey(Scene& scene) {
  Instance& instance = scene.instance;
  if (scene.key_holder.empty()) {
    instance.plan->key = scene.key;
    instance.plan->waits_for_key = false;
    return;
  }
  instance.plan->key.clear();
  const std::string why = HeldBy(scene.key, scene.key_holder);
  if (scene.on_conflict == OnConflict::kFail) return PlanningFailed(scene, why);
  instance.plan->waits_for_key = true;
  SetState(scene, InstanceState::kScheduled);
  Emit(scene, ChangeKind::kScheduled).note = why + "; it waits its turn";
}

void PlanningFailed(Scene& scene, const std::string& why) {
  Stop(scene, InstanceResult::kError, kNoNode, 0, why);
}

void FailStep(Scene& scene, uint64_t visit, const std::string& why) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  const Token token = std::as_const(scene.instance.tokens)[*slot];
  const Role role = scene.machine.nodes[token.node].role;
  if (role == Role::kPlanner) {
    PlanningFailed(scene, "step " + StepOf(scene, token).path + " could not be planned: " + why);
    return;
  }
  GiveUp(scene, *slot, why, {"error", {}, {}});
  SettleSteps(scene);
}

void AwaitKey(Scene& scene, uint64_t visit, const std::string& key, const std::string& holder,
              OnConflict on_conflict) {
  const std::string why = HeldBy(key, holder);
  if (on_conflict == OnConflict::kFail) return FailStep(scene, visit, why);
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token) return;
  if (scene.instance.cancel_requested) {  // it has not begun, and will not
    scene.instance.tokens.Remove(*scene.instance.tokens.SlotOf(visit));
    return SettleSteps(scene);
  }
  token->state = TokenState::kWaiting;
  token->step->ready_since = std::exchange(token->available_at, kNever);
  token->step->waits_for_key = true;
  token->step->key = key;
}

void RetryKey(Scene& scene, uint64_t visit) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->step || !token->step->waits_for_key) return;
  token->state = TokenState::kReady;
  // As old as it was: those that came later have their turn after it.
  const Timestamp since = std::exchange(token->step->ready_since, {});
  token->available_at = since == Timestamp() ? scene.now : since;
  token->step->waits_for_key = false;
  token->step->key.clear();
}

// Children ---------------------------------------------------------------------------------------

ChildClass ClassOf(const Instance& child) {
  if (child.state == InstanceState::kPaused) return ChildClass::kPaused;
  if (!child.Stopped()) return ChildClass::kRunning;
  switch (child.result) {
    case InstanceResult::kSuccess:
    case InstanceResult::kWarning: return ChildClass::kSuccess;
    case InstanceResult::kCancelled: return ChildClass::kCancelled;
    default: return ChildClass::kFailed;
  }
}

bool WantsChildren(const Instance& instance, const Token& token) {
  if (instance.Stopped() || !token.step || !token.step->children) return false;
  if (token.state != TokenState::kWaiting) return false;
  const ChildCounts& children = *token.step->children;
  if (!children.Awaited()) return false;
  if (instance.state != InstanceState::kRunning || instance.cancel_requested) return false;
  if (!children.counted) return true;
  if (!children.restart && children.started >= children.total) return false;
  return children.concurrency == 0 || children.running < children.concurrency;
}

void CountChildren(Scene& scene, uint64_t visit, uint64_t total) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->step->children) return;
  token->step->children->total = total;
  token->step->children->counted = true;
  JudgeChildren(scene, visit);
  SettleSteps(scene);
}

void ChildStarted(Scene& scene, NodeIndex home, const std::string& error) {
  const auto slot = scene.instance.tokens.SlotOfHome(home);
  if (!slot) return;
  Token& token = scene.instance.tokens.Mutable(*slot);
  ChildCounts& children = *token.step->children;
  ++children.started;
  uint64_t& highest = scene.instance.plan->children;
  highest = std::max(highest, children.first + children.started);
  if (error.empty()) {
    ++children.running;
    return;
  }
  ++children.failed;
  ++children.unplanned;
  if (children.error.empty()) children.error = error;
  JudgeChildren(scene, token.visit);
  SettleSteps(scene);
}

namespace {

void CountChild(ChildCounts& children, ChildClass child, int64_t by) {
  auto add = [by](uint64_t& count) { count += static_cast<uint64_t>(by); };
  switch (child) {
    case ChildClass::kNone:
    case ChildClass::kRunning: add(children.running); break;
    case ChildClass::kPaused: add(children.paused); break;
    case ChildClass::kSuccess: add(children.success); break;
    case ChildClass::kCancelled: add(children.cancelled); [[fallthrough]];
    case ChildClass::kFailed: add(children.failed); break;
  }
}

}  // namespace

void ChildMoved(Scene& scene, NodeIndex home, uint64_t generation, ChildClass from, ChildClass to,
                bool unplanned) {
  Instance& instance = scene.instance;
  const auto slot = instance.Stopped() ? std::nullopt : instance.tokens.SlotOfHome(home);
  if (!slot) return;
  const Token& standing = std::as_const(instance.tokens)[*slot];
  if (!standing.step || !standing.step->children ||
      standing.step->children->generation != generation) {
    return;
  }
  Token& token = instance.tokens.Mutable(*slot);
  ChildCounts& children = *token.step->children;
  /*mutant stopped-child-running*/ CountChild(children, from, -1); /*end*/
  CountChild(children, to, +1);
  if (unplanned && to == ChildClass::kFailed) ++children.unplanned;
  if (unplanned && from == ChildClass::kFailed) --children.unplanned;
  JudgeChildren(scene, token.visit);
  SettleSteps(scene);
}

void RestartedUpTo(Scene& scene, uint64_t visit, uint64_t number) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->step->children) return;
  ChildCounts& children = *token->step->children;
  children.restart_at = number;
  if (number < children.started) return;
  children.restart = false;
  children.restart_at = 0;
  JudgeChildren(scene, visit);
  SettleSteps(scene);
}

void BeginAgain(Scene& scene) {
  Instance& instance = scene.instance;
  instance.result = InstanceResult::kPending;
  instance.end_time = {};
  instance.error.clear();
  instance.tokens.Clear();
  if (instance.plan) instance.plan = PlanState();
  instance.start_time = {};
  instance.start_at = {};
  SetState(scene, InstanceState::kScheduled);
  Emit(scene, ChangeKind::kScheduled).note = "begins again: the step that started it was retried";
  StartDue(scene);
}

}  // namespace dfsmr
