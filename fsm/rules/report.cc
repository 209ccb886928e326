// Reports of workers and of callers from outside, and the end of a wait.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

// The token that a call from outside is about: the one at `node`, or the only one.
Result<size_t> OutsideSlot(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return StepSlot(scene, node);
  if (!node.empty()) {
    const NodeIndex index = scene.machine.Find(node);
    if (/*mutant wrong-node-illegal*/ index == kNoNode /*end*/) {
      return Error{Code::kNotFound, Reason::kNoSuchNode,
                   "machine " + Quoted(instance.machine) + " version " +
                       std::to_string(instance.version) + " has no node " + Quoted(node)};
    }
    auto it = std::ranges::find(instance.tokens, index, &Token::node);
    if (it == instance.tokens.end()) {
      return Refused(
          Reason::kIllegalTransition,
          Named(instance) + " does not stand at " + Quoted(node) +
              (instance.tokens.empty() ? ", it has not begun" : " but at " + Quoted(Where(scene))));
    }
    return static_cast<size_t>(it - instance.tokens.begin());
  }
  if (instance.tokens.empty()) {
    return Refused(Reason::kIllegalTransition,
                   Named(instance) + " has not begun; it is " + std::string(Name(instance.state)));
  }
  if (instance.tokens.size() > 1) {
    std::string nodes;
    for (const Token& token : instance.tokens) {
      nodes += (nodes.empty() ? "" : ", ") + std::string(NodeName(scene.machine, token.node));
    }
    return Refused(Reason::kAmbiguousNode, Named(instance) + " stands on several nodes (" + nodes +
                                               "): say which one with 'node'");
  }
  return size_t{0};
}

Result<const Edge*> LegalEdge(const Scene& scene, const Token& token,
                              const std::string& transition) {
  const Node& node = scene.machine.nodes[token.node];
  const bool reserved = transition.starts_with(kSystemPrefix);
  const Edge* edge = reserved ? nullptr : node.FindTransition(transition);
  if (edge) return edge;
  const std::string legal = node.LegalTransitions();
  return Refused(Reason::kIllegalTransition,
                 Named(scene.instance) + " stands at " + Quoted(node.id) +
                     ", which has no transition " + Quoted(transition) +
                     (reserved ? " that may be reported: 'dfsmr.' belongs to the server" : "") +
                     (legal.empty() ? "; nothing leads on from there" : "; it has: " + legal));
}

// A report on a node of a plain machine.
Result<Answer> ReportNode(Scene& scene, size_t slot, ClaimId id, const ReportArgs& args) {
  Instance& instance = scene.instance;
  const Token left = std::as_const(instance.tokens)[slot];
  const Node& node = scene.machine.nodes[left.node];
  const Failure failure{args.error, args.error_kind, args.fatal, args.retry_after};
  const NodeFailing failing = FailingOf(scene, left, args.transition, failure);
  const Edge* edge = nullptr;
  if (failing == NodeFailing::kMoves) {
    auto legal = LegalEdge(scene, left, args.transition);
    if (!legal) return legal.error();
    auto may = MayGoOn(scene);
    if (!may) return may.error();
    edge = *legal;
  }
  const Claim* claim = id ? left.FindClaim(id) : nullptr;
  Arrival arrival{.node = kNoNode,
                  .prev_node = node.id,
                  .transition = args.transition,
                  .params = args.params,
                  .client = args.client};
  if (arrival.client.empty() && claim) arrival.client = claim->worker;
  if (!args.error.empty()) instance.error = args.error;
  const size_t first = scene.events.size();
  if (!args.output.empty()) scene.fresh = {node.id, args.output};
  Answer answer;
  answer.claim = id;
  answer.transition = args.transition;
  answer.prev_node = node.id;
  if (edge) {
    const Edge& chosen = Choose(scene, node, *edge, &arrival);
    answer.nodes = Follow(scene, slot, chosen, std::move(arrival));
  } else {
    answer.nodes = StayFailed(scene, slot, failing, failure, arrival);
  }
  Check(scene.events.size() > first, "an accepted report makes an event");
  answer.visit = scene.events[first].visit;
  StopIfCancelled(scene);
  GoOnIfSaid(scene);
  answer.state = instance.state;
  answer.result = instance.result;
  answer.started = args.started;

  Event& event = scene.events[first];
  event.attempt = claim ? claim->attempt : 0;
  event.error_kind = args.error_kind;
  if (!args.error.empty()) event.note += (event.note.empty() ? "" : "; ") + args.error;
  /*mutant report-ends-no-visit*/ event.left_visit = left.visit; /*end*/
  event.output = args.output;
  if (scene.machine.nodes[left.node].tells_worker && args.transition == "ok") {
    event.worker = claim ? claim->worker : "";  // an operator is none
  }
  SampleReport(scene, left, claim, event);
  if (id) KeepAnswer(answer, &instance, &event);
  return answer;
}

// Moves the token at `slot`, which the report is about.
Result<Answer> Take(Scene& scene, size_t slot, const ReportArgs& args) {
  if (IsPlanned(scene)) return ReportStep(scene, slot, args.claim.id, args);
  return ReportNode(scene, slot, args.claim.id, args);
}

}  // namespace

Result<Answer> Report(Scene& scene, const ReportArgs& args) {
  Instance& instance = scene.instance;
  const ClaimId id = args.claim.id;
  if (args.claim.given()) {
    auto ours = CheckClaim(instance, args.claim);
    if (!ours) return ours.error();
    const auto& last = instance.last_answer;
    if (last && last->claim == id &&
        /*mutant planted-06*/ last->transition == args.transition /*end*/) {
      Answer again = *last;
      again.repeated = true;
      return again;
    }
  }
  if (!args.claim.given() && !instance.Stopped() && IsPlanned(scene)) {
    const auto section = SectionNamed(scene, args.node);
    if (section) return ReportSection(scene, *section, args);
  }
  auto slot = args.claim.given() ? ClaimedSlot(scene, args.claim) : OutsideSlot(scene, args.node);
  if (!slot) return slot.error();
  if (args.fault) return *args.fault;
  if (args.checkpoint.empty()) return Take(scene, *slot, args);
  Token& token = instance.tokens.Mutable(*slot);
  const auto before = token.handling;
  KeepCheckpoint(token, args.checkpoint);  // before the step moves on, and takes it along
  auto answer = Take(scene, *slot, args);
  if (!answer) instance.tokens.Mutable(*slot).handling = before;
  return answer;
}

void KeepAnswer(const Answer& answer, Instance* instance, Event* event) {
  event->answer = answer;
  instance->last_answer.reset();
  if (!answer.started) instance->last_answer = answer;
}

void EndWait(Scene& scene, uint64_t visit) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot) return;
  const Token& token = std::as_const(scene.instance.tokens)[*slot];
  if (token.available_at > scene.now) return;
  if (token.state == TokenState::kHeld && IsPlanned(scene)) {
    /*mutant patience-never-ends*/ if (scene.instance.state == InstanceState::kRunning) {
      RunOut(scene, *slot);
    } /*end*/
    return JudgeSteps(scene);
  }
  if (token.state != TokenState::kWaiting) return;
  if (IsPlanned(scene)) return EndWaitOfStep(scene, *slot);
  const Node& node = scene.machine.nodes[token.node];
  if (node.kind == NodeKind::kWork) {  // the time between two tries is over
    if (token.WaitsForLimits()) return;
    // Its place in line is that of the time that was set.
    scene.instance.tokens.Mutable(*slot).state = TokenState::kReady;
    return;
  }
  const size_t first = scene.events.size();
  Arrival arrival{.node = kNoNode,
                  .prev_node = node.id,
                  .transition = "ok",
                  .params = token.params,
                  .client = {}};
  const Edge& chosen = Choose(scene, node, *node.FindTransition("ok"), &arrival);
  Follow(scene, *slot, chosen, std::move(arrival));
  scene.events[first].left_visit = visit;
}

}  // namespace dfsmr::rules
