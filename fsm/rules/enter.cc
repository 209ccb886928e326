// How the token of a machine moves: along an edge, past nodes without visits left, onto a node.
#include "fsm/base/json.h"
#include "fsm/condition/condition.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

Event& EmitTransition(Scene& scene, const Arrival& arrival, uint64_t visit) {
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = arrival.prev_node;
  event.node = scene.machine.nodes[arrival.node].id;
  event.transition = arrival.transition;
  event.visit = visit;
  event.client = arrival.client;
  event.params = arrival.params;
  event.note = arrival.note;
  return event;
}

bool CountsEntries(const Node& node) {
  return node.settings->max_visits > 0 || node.kind == NodeKind::kDelay;
}

// What a token does on its node: it is ready, waits, is held, or done.
void SetTokenState(Scene& scene, Token& token) {
  const Node& node = scene.machine.nodes[token.node];
  token.available_at = scene.now;
  switch (node.kind) {
    case NodeKind::kWork:
      token.state = TokenState::kReady;
      break;
    case NodeKind::kDelay: {
      const double fraction = Fraction(scene.random, token.visit);
      token.state = TokenState::kWaiting;
      token.available_at = After(
          scene.Clock(), DelayOf(node.settings->delay, scene.instance.Entries(node.id), fraction));
      break;
    }
    case NodeKind::kHeld:
      token.state = TokenState::kHeld;
      token.available_at = kNever;
      break;
    case NodeKind::kManual:
    case NodeKind::kGate:
      token.state = TokenState::kWaiting;
      token.available_at = kNever;
      break;
    case NodeKind::kFinal:
      token.state = TokenState::kDone;
      break;
  }
}

}  // namespace

InstanceResult ResultOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess:
      return InstanceResult::kSuccess;
    case Outcome::kWarning:
      return InstanceResult::kWarning;
    case Outcome::kError:
      return InstanceResult::kError;
  }
  return InstanceResult::kNone;
}

const Edge& Choose(Scene& scene, const Node& node, const Edge& first, Arrival* arrival) {
  const std::vector<ConditionPtr>& choices = node.settings->choices;
  if (choices.empty()) return first;
  auto at = static_cast<size_t>(&first - node.transitions.data());
  if (!choices[at]) return first;
  Facts facts;
  facts.value = [&](const Reference& reference) -> std::optional<std::string> {
    if (reference.parts.front().key == "given") {
      const std::string_view given =
          arrival->params.empty() ? "{}" : std::string_view(arrival->params);
      auto found = Find(given, std::span(reference.parts).subspan(1));
      if (!found) return std::nullopt;
      return std::string(*found);
    }
    return scene.value ? scene.value(reference, scene.fresh) : std::nullopt;
  };
  while (choices[at] && !/*mutant first-choice-always*/ Holds(*choices[at], facts) /*end*/) ++at;
  const Edge& chosen = node.transitions[at];
  arrival->note = "chose " + scene.machine.nodes[chosen.targets.front()].id;
  if (choices[at]) arrival->note += ": " + TextOf(*choices[at]);
  return chosen;
}

bool Enter(Scene& scene, size_t slot, Arrival arrival, bool announce) {
  Instance& instance = scene.instance;
  Check(!IsPlanned(scene), "the tokens of a plan move by its graph");
  Check(slot <= instance.tokens.size(), "a token that moves is there, or is the next one");
  const uint64_t visit = /*mutant visit-number-reused*/ ++instance.last_visit /*end*/;
  for (size_t hops = 0;; ++hops) {
    if (announce) EmitTransition(scene, arrival, visit);
    announce = true;
    const Node& node = scene.machine.nodes[arrival.node];
    const uint32_t most = node.settings->max_visits;
    const uint32_t entries =
        most == 0 ? 0 : /*mutant planted-02*/ instance.Entries(node.id) /*end*/;
    if (/*mutant max-visits-ignored*/ most == 0 || entries < most /*end*/) break;
    if (hops > scene.machine.nodes.size()) {
      if (instance.Cancelling()) {
        if (slot < instance.tokens.size()) {  // there it would stand anew
          Token again;
          again.node = std::as_const(instance.tokens)[slot].node;
          again.visit = visit;
          SetTokenState(scene, again);
          instance.tokens.Replace(slot, std::move(again));
        }
        return StopCancelled(scene), false;
      }
      Stop(scene, InstanceResult::kError, arrival.node, visit,
           "no node left to go to: every node on the way had been visited as often as its "
           "max_visits allows");
      return false;
    }
    Arrival diverted = {.node = kNoNode,
                        .prev_node = node.id,
                        .transition = std::string(kExhausted),
                        .params = std::move(arrival.params),
                        .client = {}};
    const Edge& edge = Choose(scene, node, *node.FindTransition(kExhausted), &diverted);
    diverted.node = edge.targets.front();
    arrival = std::move(diverted);
  }
  const Node& node = scene.machine.nodes[arrival.node];
  if (CountsEntries(node)) ++instance.Entries(node.id);
  Token token;
  token.node = arrival.node;
  token.visit = visit;
  token.params = std::move(arrival.params);
  SetTokenState(scene, token);
  if (slot < instance.tokens.size()) {
    instance.tokens.Replace(slot, std::move(token));
  } else {
    instance.tokens.Add(std::move(token));
  }
  if (node.kind != NodeKind::kFinal) return true;
  if (instance.Cancelling()) {
    StopCancelled(scene);
  } else {
    Stop(scene, ResultOf(node.result), arrival.node, visit);
  }
  return false;
}

std::vector<std::string> Follow(Scene& scene, size_t slot, const Edge& edge, Arrival arrival) {
  Instance& instance = scene.instance;
  std::vector<std::string> entered;
  for (size_t i = 0; i < edge.targets.size(); ++i) {
    if (i > 0) slot = instance.tokens.size();
    Arrival next = arrival;
    next.node = edge.targets[i];
    const bool goes_on = Enter(scene, slot, std::move(next));
    for (auto event = scene.events.rbegin(); event != scene.events.rend(); ++event) {
      if (event->kind != ChangeKind::kTransitioned) continue;
      entered.push_back(event->node);
      break;
    }
    if (!goes_on) break;
  }
  return entered;
}

}  // namespace dfsmr::rules
