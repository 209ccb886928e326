// What has become of the steps of a plan, for the conditions of other steps, and how a plan ends
// whose steps have failed.
//
// A step has settled when it is done, skipped or held. One that is done or skipped leads on; one
// that is held is announced to the conditions behind it, so that their steps are decided though
// those without an `if` wait on. Gates pass on what is announced once all before them have settled.
#include <algorithm>
#include <unordered_set>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/condition/condition.h"
#include "fsm/rules/inside.h"

namespace dfsmr {
namespace rules {
namespace {

// "#12", "@3", "##12", "@@3", "###12", "@@@3": a step or a group, by its number.
struct Numbered {
  bool group = false;
  bool as_it_is = false;  // for a compensation: its output if there is one
  uint32_t index = 0;
};
std::optional<Numbered> ReadNumber(const PlanGraph* graph, std::string_view name) {
  if (!graph || name.size() < 2 || (name[0] != '#' && name[0] != '@')) return std::nullopt;
  const size_t digits = std::min(name.find_first_not_of(name[0]), name.size());
  Numbered one{.group = name[0] == '@', .as_it_is = digits == 3};
  one.index =
      static_cast<uint32_t>(std::strtoul(std::string(name.substr(digits)).c_str(), nullptr, 10));
  const size_t size = one.group ? graph->groups.size() : graph->steps.size();
  return one.index < size ? std::optional(one) : std::nullopt;
}

// Of a place of which nothing is noted: whether it is of a section that is compensated, where that
// means that it was not reached.
bool NeverBegan(const Machine& machine, const Tokens& tokens, NodeIndex home) {
  if (machine.sections.empty()) return false;
  const std::vector<Section>& sections = machine.graph->sections;
  for (uint32_t at = machine.nodes[home].section; at != kNoSection; at = sections[at].outer) {
    const Keepsake* kept = tokens.KeptAt(machine.sections[at].exit);
    if (kept && kept->section && kept->section->phase != SectionState::Phase::kRuns) return true;
  }
  return false;
}

StepOutcome OutcomeOfStep(const Machine& machine, const Tokens& tokens, uint32_t index) {
  const Step& step = machine.graph->steps[index];
  if (step.left_out) return StepOutcome::kSkipped;
  const NodeIndex home = machine.Find(step.path);
  if (auto slot = tokens.SlotOfHome(home)) {
    const bool held = tokens[*slot].state == TokenState::kHeld;
    return held ? StepOutcome::kFailed : StepOutcome::kNone;
  }
  const Settling* settling = tokens.SettlingOf(home);
  if (settling && settling->outcome != StepOutcome::kNone) return settling->outcome;
  const bool blocked = (settling && settling->settled) || NeverBegan(machine, tokens, home);
  return blocked || tokens.Doomed(home) ? StepOutcome::kSkipped : StepOutcome::kSucceeded;
}

// Calls `visit` with each step of a group, until it returns false.
bool ForEachStep(const PlanGraph& graph, uint32_t group,
                 const std::function<bool(uint32_t)>& visit) {
  return std::ranges::all_of(graph.groups[group].members, [&](const Group::Member& member) {
    return member.group ? ForEachStep(graph, member.index, visit) : visit(member.index);
  });
}

std::string WhyOfStep(const Machine& machine, const Tokens& tokens, uint32_t index) {
  const Step& step = machine.graph->steps[index];
  if (step.left_out) return "its 'when' is false";
  const NodeIndex home = machine.Find(step.path);
  if (auto slot = tokens.SlotOfHome(home)) return tokens[*slot].error;
  const Settling* settling = tokens.SettlingOf(home);
  return settling ? settling->note : "";
}

// What a reference in an `if` leads to.
std::optional<std::string> ValueFor(Scene& scene, const Reference& reference) {
  const auto named = ReadNumber(scene.machine.graph.get(), reference.parts.front().key);
  if (!named) return scene.value ? scene.value(reference, scene.fresh) : std::nullopt;
  const std::string& root = reference.parts.front().key;
  const std::string& fact = reference.parts.size() > 1 ? reference.parts[1].key : root;
  const StepOutcome outcome = OutcomeOf(scene.machine, scene.instance, root);
  if (fact == "state") return json::Quote(Name(outcome));
  if (fact == "error") {
    const std::string why = WhyOf(scene.machine, scene.instance, root);
    return outcome == StepOutcome::kSucceeded ? "null" : json::Quote(why);
  }
  const bool left_out = !named->group && scene.machine.graph->steps[named->index].left_out;
  const bool given = named->group || left_out || named->as_it_is ||
                     /*mutant output-of-failed-step*/ outcome == StepOutcome::kSucceeded /*end*/;
  if (!given || !scene.value) return std::nullopt;
  return scene.value(reference, scene.fresh);
}

const Edge* WayOn(const Scene& scene, NodeIndex home) {
  return scene.machine.nodes[home].FindTransition("ok");
}

bool IsGate(const Node& node) {
  return node.kind == NodeKind::kGate &&
         (node.step == kNoStep || node.role == Role::kSection || node.role == Role::kSectionEnd);
}

// Where a step may stand, or be passed, before the finalize phases.
bool IsPlace(const Node& node) {
  return node.kind != NodeKind::kFinal && node.role != Role::kFinalize;
}

std::string WhyHeld(const Scene& scene, const Token& held) {
  return "step " + StepOf(scene, held).path + ": " +
         (held.error.empty() ? "it failed" : held.error);
}

// Takes a step away that is not done, since its plan stops.
void Drop(Scene& scene, uint64_t visit, const std::string& why) {
  Tokens& tokens = scene.instance.tokens;
  const size_t slot = *tokens.SlotOf(visit);
  const Token token = std::as_const(tokens)[slot];
  const Node& home = scene.machine.nodes[token.home];
  scene.instance.plan->partial -= token.step->progress * WeightOf(scene, home);
  Event& event = Emit(scene, ChangeKind::kSkipped);
  event.prev_node = scene.machine.nodes[token.node].id;
  event.node = home.id;
  event.transition = "stop";
  event.visit = visit;  // a resume may go on with it
  event.note = "its plan stops: " + why;
  SampleAbandoned(scene, token, {}, event);
  for (Claim& claim : tokens.Mutable(slot).claims) {
    if (claim.Live() && claim.Begun()) claim.sampled = scene.now - claim.BeginTime();
  }
  tokens.Leave(slot);
  Settling& settling = tokens.Settle(token.home);
  settling.dropped = true;
  settling.outcome = StepOutcome::kSkipped;
  settling.note = event.note;
  if (token.step->start_time != Timestamp()) {
    tokens.End(token.home, {true, visit, token.step->start_time, scene.now, {}, event.note});
  }
  Announce(scene, token.home);
}

// A decision that is taken counts no more what comes before it: it may have ended since.
bool CountsEarly(const Tokens& tokens, const Node& node, NodeIndex index) {
  if (!node.decides) return IsGate(node);
  const Settling* settling = tokens.SettlingOf(index);
  return !settling || settling->decision == Settling::Decision::kOpen;
}

}  // namespace

StepOutcome OutcomeOf(const Machine& machine, const Instance& instance, std::string_view step) {
  const auto named = ReadNumber(machine.graph.get(), step);
  if (!named) return StepOutcome::kNone;
  if (!named->group) return OutcomeOfStep(machine, instance.tokens, named->index);
  size_t steps = 0;
  size_t skipped = 0;
  StepOutcome outcome = StepOutcome::kSucceeded;
  ForEachStep(*machine.graph, named->index, [&](uint32_t index) {
    const StepOutcome one = OutcomeOfStep(machine, instance.tokens, index);
    ++steps;
    if (one == StepOutcome::kSkipped) ++skipped;
    const bool counts = one == StepOutcome::kFailed || one == StepOutcome::kNone;
    if (/*mutant group-never-fails*/ counts /*end*/) outcome = one;
    return outcome != StepOutcome::kFailed;
  });
  if (outcome != StepOutcome::kSucceeded) return outcome;
  return steps > 0 && skipped == steps ? StepOutcome::kSkipped : outcome;
}

std::string WhyOf(const Machine& machine, const Instance& instance, std::string_view step) {
  const auto named = ReadNumber(machine.graph.get(), step);
  if (!named) return "";
  if (!named->group) return WhyOfStep(machine, instance.tokens, named->index);
  std::string why;
  const StepOutcome wanted = OutcomeOf(machine, instance, step);
  ForEachStep(*machine.graph, named->index, [&](uint32_t index) {
    if (OutcomeOfStep(machine, instance.tokens, index) != wanted) return true;
    why = WhyOfStep(machine, instance.tokens, index);
    return why.empty();
  });
  return why;
}

bool Decide(Scene& scene, uint32_t step) {
  Facts facts;
  facts.value = [&](const Reference& reference) { return ValueFor(scene, reference); };
  facts.step = [&](std::string_view name) {
    return OutcomeOf(scene.machine, scene.instance, name);
  };
  return Holds(*scene.machine.graph->ifs.at(step).condition, facts);
}

void Announce(Scene& scene, NodeIndex home) {
  Tokens& tokens = scene.instance.tokens;
  if (const Settling* settling = tokens.SettlingOf(home); settling && settling->settled) return;
  std::vector<NodeIndex> open{home};
  while (!open.empty()) {
    const NodeIndex at = open.back();
    open.pop_back();
    tokens.Settle(at).settled = true;
    if (!scene.machine.nodes[at].announces) continue;
    for (NodeIndex target : WayOn(scene, at)->targets) {
      const Node& node = scene.machine.nodes[target];
      if (!CountsEarly(tokens, node, target)) continue;
      Settling& settling = tokens.Settle(target);
      const auto arrived = tokens.arrived().find(target);
      const uint32_t sure = arrived == tokens.arrived().end() ? 0 : arrived->second;
      if (++settling.early + sure != node.waits_for) continue;
      if (node.decides) {
        scene.instance.plan->open.push_back(ToDecide(target));
      } else if (!settling.settled) {
        open.push_back(target);
      }
    }
  }
}

void Withdraw(Scene& scene, NodeIndex home) {
  Tokens& tokens = scene.instance.tokens;
  std::vector<NodeIndex> open{home};
  while (!open.empty()) {
    const NodeIndex at = open.back();
    open.pop_back();
    const Settling* told = tokens.SettlingOf(at);
    if (!told || !told->settled) continue;
    tokens.Settle(at).settled = false;
    for (NodeIndex target : WayOn(scene, at)->targets) {
      const Node& node = scene.machine.nodes[target];
      if (!IsPlace(node)) continue;
      const bool counts = node.decides || IsGate(node);
      if (counts && !scene.machine.nodes[at].announces) continue;
      const bool counted = CountsEarly(tokens, node, target);
      const Settling* settling = counted ? tokens.SettlingOf(target) : nullptr;
      if (settling && settling->early > 0) --tokens.Settle(target).early;
      if (!node.decides) open.push_back(target);
    }
  }
}

bool CountBlocked(Scene& scene) {
  Tokens& tokens = scene.instance.tokens;
  std::vector<NodeIndex> open;
  bool news = false;
  for (const Token& token : std::as_const(tokens)) {
    // A section that is held, or whose compensation is, is a step like any other.
    const Node& node = scene.machine.nodes[token.home];
    uint32_t held = node.role == Role::kSection ? node.section : kNoSection;
    const uint32_t compensation = CompensationAround(*scene.machine.graph, node.section);
    if (compensation != kNoSection) held = scene.machine.graph->sections[compensation].outer;
    if (held == kNoSection || compensation != kNoSection) open.push_back(token.home);
    if (held == kNoSection) continue;
    const NodeIndex exit = scene.machine.sections[held].exit;
    const Settling* settling = tokens.SettlingOf(exit);
    news = news || !settling || !settling->settled;
    Announce(scene, exit);
    open.push_back(exit);
  }
  for (const auto& [home, settling] : tokens.settlings()) {
    const bool stays = settling.decision == Settling::Decision::kStays;
    if (stays || settling.dropped) open.push_back(home);
  }
  std::unordered_set<NodeIndex> seen(open.begin(), open.end());
  while (!open.empty()) {
    const NodeIndex at = open.back();
    open.pop_back();
    for (NodeIndex target : WayOn(scene, at)->targets) {
      const Node& node = scene.machine.nodes[target];
      if (!IsPlace(node) || node.decides || !seen.insert(target).second) continue;
      open.push_back(target);
      const Settling* settling = tokens.SettlingOf(target);
      if (IsGate(node) || (settling && settling->settled)) continue;
      Announce(scene, target);
      news = true;
    }
  }
  return news;
}

void AwaitOthers(Scene& scene, size_t slot) {
  const PlanState& plan = *scene.instance.plan;
  if (!plan.wait_after_fail) return;
  Token& token = scene.instance.tokens.Mutable(slot);
  token.available_at = After(scene.Clock(), *plan.wait_after_fail);
  const bool runs = scene.instance.state == InstanceState::kRunning;
  if (runs && *plan.wait_after_fail == Duration::zero()) RunOut(scene, slot);
}

void RunOut(Scene& scene, size_t slot) {
  PlanState& plan = *scene.instance.plan;
  if (plan.stopping) return;  // what runs now is what its conditions want to run at the end
  const Token held = std::as_const(scene.instance.tokens)[slot];
  if (ActionOf(scene, held).rescue != Rescue::kFail) {
    plan.impatient = held.home;
    return;
  }
  plan.stopping = true;
  const std::string why = WhyHeld(scene, held);
  const size_t portion = std::exchange(scene.portion, SIZE_MAX);
  WalkOn(scene);  // so that no part of the way is forgotten
  scene.portion = portion;
  TakeBackUnbegun(scene);
  for (uint64_t visit : VisitsWith(
           scene.instance, [](const Token& token) { return token.state != TokenState::kHeld; })) {
    Drop(scene, visit, why);
  }
  scene.instance.error = why;
}

bool OutOfPatience(Scene& scene) {
  PlanState& plan = *scene.instance.plan;
  if (plan.impatient == kNoNode) return false;
  const Tokens& tokens = scene.instance.tokens;
  const auto over = [&](const Token& token) {
    return token.state == TokenState::kHeld && token.available_at <= scene.now;
  };
  const auto slot = tokens.SlotOfHome(plan.impatient);
  if (slot && over(tokens[*slot])) return true;
  // It has been dealt with; another one may have waited as long.
  plan.impatient = kNoNode;
  const auto other = std::ranges::find_if(tokens, over);
  if (other == tokens.end()) return false;
  RunOut(scene, static_cast<size_t>(other - tokens.begin()));
  return plan.impatient != kNoNode;
}

}  // namespace rules
}  // namespace dfsmr
