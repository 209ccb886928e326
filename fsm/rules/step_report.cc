// Reports on the steps of a plan.
#include <algorithm>
#include <array>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/base/template.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
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
  if (report.args.made_up && output.empty()) return Ok{};
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
  Token& token =
      MoveTo(scene, report.slot, node, TokenState::kWaiting, ChangeKind::kSuspended, report.led());
  StepState& step = *token.step;
  const std::string was = step.event;
  /*mutant poll-errors-add-up*/ if (was == "poll")
    step.poll_failures = 0; /*end*/
  if (report.args.children > 0) {
    ChildCounts children;
    children.first = step.next_child;
    /*mutant planted-11*/ step.next_child += report.args.children; /*end*/
    children.generation = token.visit;
    children.total = report.args.children;
    children.counted = true;
    children.concurrency = report.args.concurrency;
    step.children = std::move(children);
  }
  Suspended(scene, report.slot, report.args.wake_after);
  auto entered = Entered(report);
  // Children of an earlier suspend may still run.
  const bool waits_still = report.args.children == 0 && step.children && step.children->Awaited();
  const bool ends = EndsAround(scene, report.left.home);
  if (scene.instance.Cancelling() || ends) {
    if (was == "cancel" && ends) {
      DropStep(scene, token.visit);
    } else if (was == "cancel") {
      scene.instance.tokens.Leave(report.slot);
    } else {
      Wake(scene, report.slot, "cancel", "", "");
    }
  } else if (!TakeEvent(scene, report.slot) && waits_still) {
    JudgeChildren(scene, scene.instance.last_visit);
  }
  return entered;
}

// What has happened, and why its caller says so.
std::string WithReason(const Scene& scene, std::string note) {
  return scene.reason.empty() ? note : note + "; " + std::string(scene.reason);
}

// The report changes what the token carries, and the token stays where it is.
Result<std::vector<std::string>> Stays(const StepReport& report, std::string note) {
  Event& event = Emit(report.scene, ChangeKind::kTransitioned);
  event.prev_node = event.node = report.node.id;
  event.transition = report.args.transition;
  event.visit = report.left.visit;
  event.client = report.client;
  event.params = report.args.params;
  event.note = WithReason(report.scene, std::move(note));
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
  /*mutant newest-event-first*/ step.inbox.emplace_back(report.args.transition,
                                                        report.args.params); /*end*/
  return Stays(report, "waits until the step suspends");
}

Result<std::vector<std::string>> Fail(const StepReport& report) {
  const ReportArgs& args = report.args;
  FailWork(report.scene, report.slot, {args.error, args.error_kind, args.fatal, args.retry_after},
           report.led());
  return Entered(report);
}

// Changes the input of this phase, and of the finalize phase that is still to come.
Result<std::vector<std::string>> Patch(const StepReport& report) {
  Tokens& tokens = report.scene.instance.tokens;
  const Machine& machine = report.scene.machine;
  const PlanGraph& graph = *machine.graph;
  const NodeIndex home = report.left.home;
  const Step& step = graph.steps[report.node.step];
  const auto spawn = graph.spawns.find(report.node.step);
  const std::string& own = spawn == graph.spawns.end() ? step.input : spawn->second.input;
  const std::string* patched = tokens.Patched(home);
  const std::string input = json::Merge(
      patched ? *patched : own, Literal(report.args.params.empty() ? "{}" : report.args.params));
  tokens.Patch(home, input);
  const bool run = machine.nodes[home].role != Role::kFinalize;
  /*mutant planted-10*/ if (run && step.finalize)
    tokens.Patch(machine.Find(step.path + "/finalize"), input); /*end*/
  return Stays(report, "input changed");
}

Result<std::vector<std::string>> Held(const StepReport& report) {
  const std::string& verb = report.args.transition;
  const bool section = report.node.role == Role::kSection;
  if (verb == "patch" && !section) return Patch(report);
  if (verb != "retry" && verb != "skip") {
    return NotThere(report.scene, report.node, verb,
                    section ? "retry, skip" : "retry, skip, patch (changes its input)");
  }
  auto may = MayGoOn(report.scene);
  if (!may) return may.error();
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
    case Role::kFinalizeError:
      return Held(report);
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
    case Role::kSection:
      if (report.left.state == TokenState::kHeld) return Held(report);
      return Refused(Reason::kIllegalTransition, "section " + Quoted(report.node.id) + " of " +
                                                     Named(report.scene.instance) +
                                                     " begins anew when its delay is over");
    case Role::kSectionEnd:
    case Role::kSpawn:
    case Role::kPass:
    case Role::kNone:
      break;
  }
  return Refused(Reason::kIllegalTransition,
                 Named(report.scene.instance) + " waits at " + Quoted(report.node.id) +
                     " for the instances that the step has started; it goes on when they have "
                     "stopped");
}

}  // namespace

Result<Answer> ReportStep(Scene& scene, size_t slot, ClaimId id, const ReportArgs& args) {
  const Token& token = std::as_const(scene.instance.tokens)[slot];
  StepReport report{
      scene,      slot, id, args, token, scene.machine.nodes[token.node], scene.events.size(),
      args.client};
  const Claim* claim = id ? report.left.FindClaim(id) : nullptr;
  if (report.client.empty() && claim) report.client = claim->worker;
  const size_t first = report.first;
  const bool puts_out = args.transition == "ok" || args.transition == "suspend";
  if (puts_out && report.node.role != Role::kFinalize && !args.output.empty()) {
    scene.fresh = {StepOf(scene, report.left).path, args.output};
  }
  auto entered = Act(report);
  if (!entered) return entered.error();
  Check(scene.events.size() > first, "an accepted report makes an event");
  JudgeSteps(scene);
  Answer answer;
  answer.claim = id;
  answer.transition = args.transition;
  answer.prev_node = report.node.id;
  answer.nodes = *std::move(entered);
  answer.state = scene.instance.state;
  answer.result = scene.instance.result;
  answer.started = args.started;
  for (size_t i = first; i < scene.events.size() && answer.visit == 0; ++i) {
    const bool entry = scene.events[i].kind != ChangeKind::kFinished &&
                       scene.events[i].kind != ChangeKind::kSkipped;
    if (entry) answer.visit = scene.events[i].visit;
  }
  Event& event = scene.events[first];
  event.attempt = claim ? claim->attempt : 0;
  if (event.note.empty() && !args.error.empty()) event.note = WithReason(scene, args.error);
  if (/*mutant finalize-output-kept*/ puts_out && report.node.role != Role::kFinalize /*end*/)
    event.output = args.output;
  const bool told = report.node.role != Role::kFinalize && args.transition == "ok" &&
                    scene.machine.nodes[report.left.home].tells_worker;
  if (told) event.worker = claim ? claim->worker : "";  // an operator is none
  const bool worked = report.node.kind == NodeKind::kWork && event.left_visit != 0;
  if (worked) SampleReport(scene, report.left, claim, event);
  if (id) KeepAnswer(answer, &scene.instance, &event);
  return answer;
}

}  // namespace dfsmr::rules
