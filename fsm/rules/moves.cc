// How the tokens of a plan move: along its edges, through joins and gates, into errors and
// suspensions and out of them.
#include <algorithm>
#include <deque>
#include <iterator>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

namespace {

constexpr size_t kNamed = 100;  // nodes that an answer names

// Goes along ok and skip edges to all nodes that open now. One walk may pass through many gates, so
// it keeps a list and does not recurse. It ends after scene.portion nodes, and leaves the rest of
// the way with the instance.
class Walk {
 public:
  Walk(Scene& scene, Led led) : scene_(scene), led_(std::move(led)) {}

  // One arrow of the way.
  struct Arrow {
    NodeIndex to;
    NodeIndex from;
    std::string transition;
    bool again = false;  // it has been open before: it opens at once
  };

  void Along(const Edge& edge, NodeIndex from, const std::string& transition);
  // At once, before the edges that are still open.
  void Arrive(const Arrow& arrow);
  // Answers the first kNamed nodes that were entered.
  std::vector<std::string> Go();
  // Goes on where another walk has ended.
  void GoOn();

 private:
  void Step();
  void Do();
  bool Opens(const Arrow& arrow, const Node& node);
  bool OpensDecision(const Node& node, NodeIndex index);
  void DecideEarly(NodeIndex index);
  // Takes what is to be done on the plan's open way into this walk.
  void TakeOpen();
  void Decided(const Node& node, NodeIndex index, uint64_t visit);
  void Stand(const Node& node, NodeIndex index, uint64_t visit);
  void Pass(const Node& node, NodeIndex index, uint64_t visit);

  Scene& scene_;
  Led led_;
  std::deque<OpenEdge> open_;
  std::vector<std::string> entered_;
  bool first_ = true;
};

void Walk::Along(const Edge& edge, NodeIndex from, const std::string& transition) {
  for (NodeIndex owner : {from, scene_.machine.nodes[from].home}) {
    const std::vector<Edge>& edges = scene_.machine.nodes[owner].transitions;
    const auto index = static_cast<size_t>(&edge - edges.data());
    if (index >= edges.size()) continue;
    open_.push_back({from, owner, static_cast<uint32_t>(index), 0, transition, led_.client});
    return;
  }
  Check(false, "a walk leaves a step along one of its edges");
}

std::vector<std::string> Walk::Go() {
  PlanState& plan = *scene_.instance.plan;
  if (scene_.instance.Cancelling()) {  // nothing opens before a resume goes this way again
    /*mutant way-not-shut*/ std::ranges::copy(open_, std::back_inserter(plan.shut)); /*end*/
  }
  size_t left = scene_.portion;
  for (; !open_.empty() && !scene_.instance.Stopped() && left > 0; --left) Step();
  if (!scene_.instance.Stopped() && !scene_.instance.Cancelling()) {
    /*mutant way-forgotten*/ std::ranges::move(open_, std::back_inserter(plan.open)); /*end*/
  }
  return std::move(entered_);
}

void Walk::GoOn() {
  TakeOpen();
  Go();
}

void Walk::Step() {
  OpenEdge& edge = open_.front();
  if (edge.edge >= kFirstDeed) return Do();
  const std::vector<NodeIndex>& targets =
      scene_.machine.nodes[edge.owner].transitions[edge.edge].targets;
  led_.client = edge.client;
  const Arrow arrow{targets[edge.next], edge.from, edge.transition};
  if (++edge.next == targets.size()) open_.pop_front();
  Arrive(arrow);
}

// What is first on the way and no edge.
void Walk::Do() {
  OpenEdge& deed = open_.front();
  if (deed.edge == kSweep && !SweepSome(scene_, deed)) return;
  if (deed.edge == kReset && !ResetSome(scene_, deed)) return;
  const OpenEdge done = std::move(deed);
  open_.pop_front();
  led_.client = done.client;
  if (done.edge == kDecision) return DecideEarly(done.owner);
  if (done.edge == kBegin && MayBegin(scene_, done.owner)) {
    Arrive({done.owner, done.from, done.transition, /*again=*/true});
  }
  TakeOpen();
}

void Walk::Arrive(const Arrow& arrow) {
  Instance& instance = scene_.instance;
  const Node& node = scene_.machine.nodes[arrow.to];
  const bool in_section = node.section != kNoSection;
  const bool crosses = in_section && arrow.from != kNoNode && !instance.Cancelling();
  if (crosses) NoteCrossing(scene_, arrow.from, arrow.to);
  const bool shut =
      in_section && /*mutant shut-section-entered*/ KeptShut(scene_, arrow.to) /*end*/;
  const bool opens = !instance.Cancelling() && !shut && (arrow.again || Opens(arrow, node));
  // It counts for the next try, also when the place has been put back already.
  if (crosses && shut && node.waits_for > 1) instance.tokens.Arrive(arrow.to);
  Event& event = Emit(scene_, ChangeKind::kTransitioned);
  if (arrow.from != kNoNode) event.prev_node = scene_.machine.nodes[arrow.from].id;
  event.node = node.id;
  event.transition = arrow.transition;
  event.client = led_.client;
  if (std::exchange(first_, false)) event.params = led_.params;
  if (!opens) return;
  if (!node.decides) instance.tokens.Open(arrow.to);
  const uint64_t visit = event.visit = ++instance.last_visit;
  if (entered_.size() < kNamed) entered_.push_back(node.id);
  if (node.decides) return Decided(node, arrow.to, visit);
  const bool doomed = node.home != kNoNode && instance.tokens.Doomed(node.home);
  if (doomed || node.kind == NodeKind::kGate) {
    Pass(node, arrow.to, visit);
  } else if (node.kind == NodeKind::kFinal) {
    if (scene_.machine.graph->planning) return;  // what was planned is compiled next
    Stop(scene_,
         /*mutant skipped-is-success*/ instance.plan->skipped ? InstanceResult::kWarning
                                                              : InstanceResult::kSuccess /*end*/,
         arrow.to, visit);
  } else {
    Stand(node, arrow.to, visit);
  }
}

void Walk::Stand(const Node& node, NodeIndex index, uint64_t visit) {
  Token token;
  token.node = index;
  token.visit = visit;
  token.home = node.home;
  token.available_at = scene_.now;
  token.state = TokenState::kReady;
  StepState step;
  step.next_child = FirstChildOf(scene_, node.home);
  step.tries_limit = node.settings->retry.limit;
  if (node.role == Role::kSpawn) {
    token.state = TokenState::kWaiting;
    token.available_at = kNever;
    step.start_time = scene_.now;
    ChildCounts children;
    children.generation = visit;
    children.first = step.next_child;
    children.concurrency = scene_.machine.graph->spawns.at(node.step).concurrency;
    step.children = std::move(children);
  }
  token.step = std::move(step);
  scene_.instance.tokens.Add(std::move(token));
}

bool Walk::Opens(const Arrow& arrow, const Node& node) {
  Tokens& tokens = scene_.instance.tokens;
  if (scene_.machine.conditional && arrow.from != kNoNode) {
    // What was counted as settled leads on after all.
    const Settling* before = tokens.SettlingOf(scene_.machine.nodes[arrow.from].home);
    const Settling* here = tokens.SettlingOf(arrow.to);
    if (before && before->settled && here && here->early > 0) {
      /*mutant settled-counts-twice*/ --tokens.Settle(arrow.to).early; /*end*/
    }
  }
  if (node.decides) return OpensDecision(node, arrow.to);
  if (node.waits_for <= 1) return true;
  const uint32_t arrived = tokens.Arrive(arrow.to);
  const Settling* here = tokens.SettlingOf(arrow.to);
  if (here && here->early > 0 && arrived + here->early == node.waits_for) {
    Announce(scene_, arrow.to);  // a gate: of the others some are held
    TakeOpen();
  }
  return /*mutant join-opens-early*/ arrived == node.waits_for /*end*/;
}

void Walk::TakeOpen() {
  std::ranges::move(std::exchange(scene_.instance.plan->open, {}), std::back_inserter(open_));
}

bool Walk::OpensDecision(const Node& node, NodeIndex index) {
  using enum Settling::Decision;
  Tokens& tokens = scene_.instance.tokens;
  const Settling* settling = tokens.SettlingOf(index);
  const Settling::Decision decision = settling ? settling->decision : kOpen;
  /*mutant decided-twice*/ if (decision == kRuns || decision == kPassed)
    return false; /*end*/
  const uint32_t arrived = tokens.Arrive(index);
  if (decision == kOpen) return arrived + (settling ? settling->early : 0) == node.waits_for;
  if (arrived < node.waits_for) return false;
  // It was skipped when those before it had settled; now they have led on, and so does this one.
  Settling& here = tokens.Settle(index);
  here.decision = kPassed;
  tokens.Open(index);
  tokens.End(index, {true, 0, scene_.now, scene_.now, {}, here.note});
  Along(*node.FindTransition("ok"), index, "skip");
  return false;
}

// All before it have settled, and some of them do not lead on.
void Walk::DecideEarly(NodeIndex index) {
  Instance& instance = scene_.instance;
  const Settling* settling = instance.tokens.SettlingOf(index);
  if (settling && settling->decision != Settling::Decision::kOpen) return;
  if (KeptShut(scene_, index)) return;
  const Node& node = scene_.machine.nodes[index];
  const auto arrived = instance.tokens.arrived().find(index);
  const uint32_t sure = arrived == instance.tokens.arrived().end() ? 0 : arrived->second;
  if ((settling ? settling->early : 0) + sure < node.waits_for) return;  // one is tried again
  Event& event = Emit(scene_, ChangeKind::kTransitioned);
  event.node = node.id;
  event.transition = "if";
  event.note = "all before it have settled";
  const uint64_t visit = event.visit = ++instance.last_visit;
  if (entered_.size() < kNamed) entered_.push_back(node.id);
  Decided(node, index, visit);
}

// The `if` of a step, or of a nested plan, is decided: the step runs, or is skipped. A skipped one
// leads on when all before it have; until then it has only settled.
void Walk::Decided(const Node& node, NodeIndex index, uint64_t visit) {
  Tokens& tokens = scene_.instance.tokens;
  const StepIf& decision = scene_.machine.graph->ifs.at(node.step);
  const bool doomed = tokens.Doomed(index);  // by the `if` of a plan around it
  const bool holds = !doomed && /*mutant if-always-true*/ Decide(scene_, node.step) /*end*/;
  Settling& here = tokens.Settle(index);
  const bool all = here.early == 0;
  if (holds || all) tokens.Open(index);  // else it goes on counting those that lead here
  if (holds) {
    here.decision = Settling::Decision::kRuns;
    here.early = 0;
    return node.kind == NodeKind::kGate ? Pass(node, index, visit) : Stand(node, index, visit);
  }
  here.decision = all ? Settling::Decision::kPassed : Settling::Decision::kStays;
  if (!doomed) here.note = "its 'if' is false: " + decision.text;
  for (uint32_t member : decision.members) {
    const std::string& path = scene_.machine.graph->steps[member].path;
    const NodeIndex home = scene_.machine.Find(path);
    LeaveOut(scene_, home, node.section);
    Settling& settling = tokens.Settle(home);
    settling.outcome = StepOutcome::kSkipped;
    settling.note = "the 'if' of " + node.id + " is false: " + decision.text;
    SkipReaders(scene_, member, node.section);
    if (all) continue;  // else it is passed in its turn
    tokens.End(home, {true, 0, scene_.now, scene_.now, {}, settling.note});
    Announce(scene_, home);
  }
  Event& event = Emit(scene_, ChangeKind::kSkipped);
  event.prev_node = event.node = node.id;
  event.visit = visit;
  event.transition = "skip";
  event.note = here.note;
  EndPhase(scene_, node, index, {true, visit, scene_.now, scene_.now, {}, here.note});
  if (all) return Along(*node.FindTransition("ok"), index, "skip");
  Announce(scene_, index);
  TakeOpen();
}

// Passes a node where no token stands: a gate, a step without a run phase, or a skipped step.
void Walk::Pass(const Node& node, NodeIndex index, uint64_t visit) {
  std::string transition = "ok";
  std::string note;
  if (node.step != kNoStep) {
    const bool skipped = scene_.instance.tokens.Doomed(node.home);
    if (skipped) {
      Event& event = Emit(scene_, ChangeKind::kSkipped);
      event.prev_node = event.node = node.id;
      event.visit = visit;
      event.transition = transition = "skip";
      event.note = "it needs the output of a step that was skipped";
      if (node.role == Role::kFinalize) event.note = "its step was skipped";
      const Settling* settling = scene_.instance.tokens.SettlingOf(node.home);
      if (settling && !settling->note.empty()) event.note = settling->note;
      note = event.note;
    }
    EndPhase(scene_, node, index, {skipped, visit, scene_.now, scene_.now, {}, std::move(note)});
  }
  if (node.role == Role::kSectionEnd) PassedSection(scene_, node);
  const Edge& on = *node.FindTransition("ok");
  if (!on.targets.empty()) Along(on, index, transition);
}

}  // namespace

std::vector<std::string> LeadOn(Scene& scene, size_t slot, const Edge& edge, bool skipped,
                                const Led& led) {
  const Token left = std::as_const(scene.instance.tokens)[slot];
  const Node& home = scene.machine.nodes[left.home];
  scene.instance.tokens.Remove(slot);
  if (left.step) scene.instance.plan->partial -= left.step->progress * WeightOf(scene, home);
  const size_t first = scene.events.size();
  Ended ended{skipped, left.visit, scene.now, scene.now, {}};
  if (skipped) {
    /*mutant skipped-no-warning*/ NoteSkipped(scene, home); /*end*/
    ended.note = left.error;
  }
  if (left.step) {
    if (left.step->start_time != Timestamp()) ended.start_time = left.step->start_time;
    ended.children = left.step->children;
    ended.tries = left.step->tries;
  }
  ended.worker = left.LastWorker();
  EndPhase(scene, home, left.home, std::move(ended));
  std::vector<std::string> entered;
  if (home.section != kNoSection) KeepChildren(scene, left);
  if (home.section != kNoSection && EndsAround(scene, left.home)) {
    CheckSectionsOf(scene, left.home);
    Event& event = Emit(scene, ChangeKind::kTransitioned);
    event.prev_node = scene.machine.nodes[left.node].id;
    event.node = scene.machine.nodes[scene.machine.sections[home.section].entry].id;
    event.transition = led.transition;
    event.params = led.params;
    event.client = led.client;
  } else {
    Walk walk(scene, led);
    walk.Along(edge, left.node, led.transition);
    entered = walk.Go();
  }
  if (scene.events.size() > first) scene.events[first].left_visit = left.visit;
  return entered;
}

void EnterPlan(Scene& scene) {
  const Led led;
  Walk walk(scene, led);
  const bool upgraded = std::exchange(scene.instance.plan->upgraded, false);
  const size_t first = scene.events.size();
  walk.Arrive({scene.machine.start, kNoNode, std::string(upgraded ? kUpgradedNode : "")});
  walk.Go();
  if (upgraded) scene.events[first].prev_node = kUpgradedNode;
}

bool HasOpenEdges(const Instance& instance) {
  return instance.plan && !instance.plan->open.empty();
}

void WalkOn(Scene& scene) {
  if (HasOpenEdges(scene.instance)) Walk(scene, {}).GoOn();
}

void OpenAgain(Scene& scene, NodeIndex gate, NodeIndex from, const std::string& transition,
               const std::string& client) {
  Walk walk(scene, {transition, {}, client});
  walk.Arrive({gate, from, transition, /*again=*/true});
  walk.Go();
}

void ReachMore(Scene& scene) {
  if (!HasOpenEdges(scene.instance)) return;
  WalkOn(scene);
  JudgeSteps(scene);
}

Token& MoveTo(Scene& scene, size_t slot, NodeIndex node, TokenState state, ChangeKind kind,
              const Led& led) {
  Instance& instance = scene.instance;
  const Token& left = std::as_const(instance.tokens)[slot];
  Check(static_cast<bool>(left.step) && scene.machine.nodes[node].home == left.home,
        "a step's token moves among the nodes of its step");
  Token token;
  token.node = node;
  token.visit = ++instance.last_visit;
  token.state = state;
  token.home = left.home;
  token.available_at = state == TokenState::kReady ? scene.now : kNever;
  token.step = left.step;
  token.step->worker = left.LastWorker();
  if (left.handling) KeepCheckpoint(token, left.handling->checkpoint);
  // What it holds it keeps until its phase is over.
  if (left.limits && left.limits->state == TokenLimits::State::kHolds) token.limits = left.limits;
  Event& event = Emit(scene, kind);
  event.prev_node = scene.machine.nodes[left.node].id;
  event.node = scene.machine.nodes[node].id;
  event.transition = led.transition;
  event.visit = token.visit;
  event.client = led.client;
  event.params = led.params;
  event.left_visit = left.visit;
  instance.tokens.Replace(slot, std::move(token));
  return instance.tokens.Mutable(slot);
}

void Wake(Scene& scene, size_t slot, std::string event, std::string data,
          const std::string& client) {
  const NodeIndex run = std::as_const(scene.instance.tokens)[slot].home;
  Token& token = MoveTo(scene, slot, run, TokenState::kReady, ChangeKind::kWoken,
                        {event, data, client});
  if (event == "poll") ++token.step->polls;
  token.step->event = std::move(event);
  token.step->event_data = std::move(data);
}

void Hold(Scene& scene, size_t slot, const std::string& error, const Led& led) {
  const Token& left = std::as_const(scene.instance.tokens)[slot];
  const NodeIndex node =
      scene.machine.nodes[left.home].FindTransition("error")->targets.front();
  Token& token = MoveTo(scene, slot, node, TokenState::kHeld, ChangeKind::kTransitioned, led);
  scene.events.back().note = error;
  token.error = error;
  token.limits.reset();
}

void GiveUp(Scene& scene, size_t slot, const Failure& failure, const Led& led) {
  const Rescue rescue = ActionOf(scene, std::as_const(scene.instance.tokens)[slot]).rescue;
  Hold(scene, slot, failure.error, led);
  if (scene.instance.Cancelling()) {
    scene.instance.tokens.Leave(slot);
  } else if (rescue == Rescue::kSkip) {
    SkipHeld(scene, slot, "", StepOutcome::kFailed);
  } else if (SectionTakes(scene, slot, failure)) {
    WalkOn(scene);
  } else {
    if (scene.machine.conditional) {
      const NodeIndex home = std::as_const(scene.instance.tokens)[slot].home;
      /*mutant failure-not-announced*/ Announce(scene, home); /*end*/
    }
    AwaitOthers(scene, slot);
    WalkOn(scene);
  }
}

void SkipHeld(Scene& scene, size_t slot, const std::string& client, StepOutcome outcome) {
  const Token& held = std::as_const(scene.instance.tokens)[slot];
  const Node& node = scene.machine.nodes[held.node];
  if (node.role == Role::kSection) {
    return LeaveHeldSection(scene, slot, SectionState::Then::kSkip, client);
  }
  const std::string why = scene.reason.empty() ? held.error : std::string(scene.reason);
  if (scene.machine.nodes[held.home].role != Role::kFinalize) {
    scene.instance.tokens.Settle(held.home).outcome = outcome;
    scene.instance.tokens.Settle(held.home).note = why;
  }
  Event& event = Emit(scene, ChangeKind::kSkipped);
  event.prev_node = node.id;
  event.node = scene.machine.nodes[held.home].id;
  event.transition = "skip";
  event.visit = held.visit;
  event.client = client;
  event.note = why;
  LeadOn(scene, slot, *node.FindTransition("skip"), /*skipped=*/true, {"skip", {}, client});
}
namespace {

// After a failed finalize phase all of them run again, except those that were skipped.
void RetryFinalize(Scene& scene, size_t slot, const std::string& client) {
  PlanState& plan = *scene.instance.plan;
  const Token held = std::as_const(scene.instance.tokens)[slot];
  scene.instance.tokens.Remove(slot);
  plan.partial -= held.step->progress * WeightOf(scene, scene.machine.nodes[held.home]);
  /*mutant finalize-weighs-twice*/ plan.done_weight -= std::exchange(plan.done_finalize, 0); /*end*/
  const Edge& first = *scene.machine.nodes[held.node].FindTransition("retry");
  OpenAgain(scene, first.targets.front(), held.node, "retry", client);
}

}  // namespace

void Retry(Scene& scene, size_t slot, const std::string& client) {
  const Token& held = std::as_const(scene.instance.tokens)[slot];
  const Node& home = scene.machine.nodes[held.home];
  if (home.role == Role::kFinalize) return RetryFinalize(scene, slot, client);
  if (home.role == Role::kSection) {
    return LeaveHeldSection(scene, slot, SectionState::Then::kAtOnce, client);
  }
  if (scene.machine.conditional) Withdraw(scene, held.home);
  const bool waits = Awaits(held);
  const NodeIndex node = waits && home.role != Role::kSpawn
                             ? home.FindTransition("suspend")->targets.front()
                             : held.home;
  Token& token = MoveTo(scene, slot, node, waits ? TokenState::kWaiting : TokenState::kReady,
                        ChangeKind::kTransitioned, {"retry", {}, client});
  StepState& step = *token.step;
  /*mutant planted-09*/ step.tries = step.polls = step.poll_failures = 0; /*end*/
  step.event.clear();
  step.event_data.clear();
  if (!waits) return;
  // Children that were never planned are started again. The other failed ones are waited for if
  // they run again.
  step.children->restart = step.children->unplanned > 0;
  const uint64_t visit = token.visit;
  if (!TakeEvent(scene, slot)) JudgeChildren(scene, visit);
}

bool TakeEvent(Scene& scene, size_t slot) {
  StepState& step = *scene.instance.tokens.Mutable(slot).step;
  if (step.inbox.empty()) return false;
  const auto [event, data] = std::move(step.inbox.front());
  step.inbox.erase(step.inbox.begin());
  Wake(scene, slot, event, data, "");
  return true;
}

void Suspended(Scene& scene, size_t slot, std::optional<Duration> wake_after) {
  Token& token = scene.instance.tokens.Mutable(slot);
  StepState& step = *token.step;
  const StepAction& action = ActionOf(scene, token);
  std::optional<Duration> after;
  if (wake_after) {
    after = wake_after;
    step.wake = "wake";
  } else if (Awaits(token)) {
    step.wake.clear();
  } else if (action.poll) {
    const size_t index = std::min<size_t>(step.polls / std::max(action.poll->per_interval, 1u),
                                          action.poll->intervals.size() - 1);
    after = action.poll->intervals[index];
    step.wake = "poll";
  }
  const bool limited = action.timeout.strategy == TimeoutPolicy::Strategy::kFixed &&
                       action.timeout.value > 0 && !Awaits(token);
  if (limited) {
    const Duration limit(static_cast<int64_t>(action.timeout.value * 1e6));
    if (/*mutant wake-beyond-timeout*/ !after || limit < *after /*end*/) {
      after = limit;
      step.wake = "timeout";
    }
  }
  token.available_at = after ? After(scene.Clock(), *after) : kNever;
  step.event.clear();
  step.event_data.clear();
}

void EndWaitOfStep(Scene& scene, size_t slot) {
  const Token& waiting = std::as_const(scene.instance.tokens)[slot];
  const Node& node = scene.machine.nodes[waiting.node];
  if (node.role == Role::kSuspended) {
    Wake(scene, slot, waiting.step->wake, "", "");
  } else if (node.role == Role::kSection) {
    BeginSection(scene, slot);
  } else if (node.role != Role::kSpawn) {  // the time between two tries is over
    Token& token = scene.instance.tokens.Mutable(slot);
    token.state = TokenState::kReady;
    token.available_at = scene.now;
  }
  JudgeSteps(scene);
}

}  // namespace dfsmr::rules
