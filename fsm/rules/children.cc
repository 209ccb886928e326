// The instances that a step starts and waits for.
#include <algorithm>

#include "fsm/base/json.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

ChildClass ClassOf(const Instance& child) {
  if (child.state == InstanceState::kPaused) return ChildClass::kPaused;
  if (!child.Stopped()) return ChildClass::kRunning;
  switch (child.result) {
    case InstanceResult::kSuccess:
    case InstanceResult::kWarning:
      /*mutant warning-child-failed*/ return ChildClass::kSuccess; /*end*/
    case InstanceResult::kCancelled:
      return ChildClass::kCancelled;
    default:
      return ChildClass::kFailed;
  }
}

bool AwaitsChild(const Instance& parent, const Instance& child) {
  if (parent.Stopped() || parent.Cancelling() || !child.parent_step) return false;
  const auto slot = parent.tokens.SlotOfHome(child.parent_step->home);
  if (!slot) return false;
  const Token& token = parent.tokens[*slot];
  if (!Awaits(token) || token.step->children->cancelled_all) return false;
  return token.step->children->generation == child.parent_step->generation;
}

bool WantsChildren(const Instance& instance, const Token& token) {
  if (instance.Stopped() || !token.step || !token.step->children) return false;
  if (token.state != TokenState::kWaiting) return false;
  const ChildCounts& children = *token.step->children;
  if (!children.Awaited()) return false;
  if (instance.state != InstanceState::kRunning || instance.Cancelling()) return false;
  if (instance.plan->resuming != PlanState::Resuming::kNone) return false;
  if (!children.counted) return true;
  if (!children.restart && children.started >= children.total) return false;
  return children.concurrency == 0 ||
         /*mutant one-child-too-many*/ children.running < children.concurrency /*end*/;
}
namespace {

std::string OutputOf(const ChildCounts& children) {
  auto member = [](const char* name, uint64_t count) {
    return json::Quote(name) + ":" + std::to_string(count);
  };
  return "{" + member("total", children.total) + "," + member("success", children.success) + "," +
         member("failed", children.failed + children.paused) + "," +
         member("cancelled", children.cancelled) + "}";
}

}  // namespace

void JudgeChildren(Scene& scene, uint64_t visit) {
  Instance& instance = scene.instance;
  const auto slot = instance.tokens.SlotOf(visit);
  if (!slot) return;
  const Token token = std::as_const(instance.tokens)[*slot];
  if (token.state != TokenState::kWaiting || !Awaits(token)) return;
  if (instance.plan->resuming != PlanState::Resuming::kNone) return;
  if (!token.step->children->AllEnded()) return;
  const ChildCounts& children = *token.step->children;
  const Node& home = scene.machine.nodes[token.home];
  const bool spawn = home.role == Role::kSpawn;
  if (!spawn && token.node == token.home) return;  // it waits for its next try, which asks again
  const uint64_t failed = children.failed + children.paused;
  const bool ends = EndsAround(scene, token.home);
  if (instance.Cancelling() || ends) {
    if (children.paused > 0) return;  // they are told of the cancel, and stop
    if (spawn && ends) return DropStep(scene, visit);
    if (spawn) instance.tokens.Leave(*slot);
  } else if (failed > 0) {
    std::string why = std::to_string(failed) + " of " + std::to_string(children.total) +
                      (children.total == 1 ? " child" : " children") + " failed";
    if (!children.error.empty()) why += "; " + children.error;
    GiveUp(scene, *slot, {.error = why, .kind = {}}, {"error", {}, {}});
  } else if (spawn) {
    const size_t first = scene.events.size();
    const std::string output = OutputOf(children);
    scene.fresh = {home.id, output};
    LeadOn(scene, *slot, *home.FindTransition("ok"), /*skipped=*/false, {"ok", {}, {}});
    scene.events[first].output = output;
  } else {
    Wake(scene, *slot, "children", OutputOf(children), "");
    instance.tokens.FindMutable(instance.last_visit)->step->children->told = true;
  }
}

void CountChildren(Scene& scene, uint64_t visit, uint64_t total) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || !token->step->children) return;
  token->step->children->total = total;
  token->step->children->counted = true;
  JudgeChildren(scene, visit);
  JudgeSteps(scene);
}

void ChildStarted(Scene& scene, NodeIndex home, const std::string& error) {
  const auto slot = scene.instance.tokens.SlotOfHome(home);
  if (!slot) return;
  Token& token = scene.instance.tokens.Mutable(*slot);
  ChildCounts& children = *token.step->children;
  ++children.started;
  uint64_t& highest = scene.instance.plan->children;
  /*mutant child-numbers-reused*/ highest =
      std::max(highest, children.first + children.started); /*end*/
  if (error.empty()) {
    ++children.running;
    return;
  }
  ++children.failed;
  ++children.unplanned;
  if (children.error.empty()) children.error = error;
  JudgeChildren(scene, token.visit);
  JudgeSteps(scene);
}
namespace {

void CountChild(ChildCounts& children, ChildClass child, int64_t by) {
  auto add = [by](uint64_t& count) { count += static_cast<uint64_t>(by); };
  switch (child) {
    case ChildClass::kNone:
    case ChildClass::kRunning:
      add(children.running);
      break;
    case ChildClass::kPaused:
      add(children.paused);
      break;
    case ChildClass::kSuccess:
      add(children.success);
      break;
    case ChildClass::kCancelled:
      /*mutant cancelled-children-not-told*/ add(children.cancelled); /*end*/
      [[fallthrough]];
    case ChildClass::kFailed:
      add(children.failed);
      break;
  }
}

void CountMove(ChildCounts& children, ChildClass from, ChildClass to, bool unplanned) {
  /*mutant stopped-child-running*/ CountChild(children, from, -1); /*end*/
  CountChild(children, to, +1);
  if (unplanned && to == ChildClass::kFailed) ++children.unplanned;
  if (unplanned && from == ChildClass::kFailed) --children.unplanned;
}

}  // namespace

void ChildMoved(Scene& scene, NodeIndex home, uint64_t generation, ChildClass from, ChildClass to,
                bool unplanned) {
  Instance& instance = scene.instance;
  const auto slot = instance.Stopped() ? std::nullopt : instance.tokens.SlotOfHome(home);
  if (!slot) {
    // It was cancelled, and counts on for its resume.
    Token* left = instance.tokens.LeftAt(home);
    const bool theirs = left && left->step && left->step->children &&
                        left->step->children->generation == generation;
    /*mutant left-step-not-counted*/ if (theirs)
      CountMove(*left->step->children, from, to, unplanned); /*end*/
    return;
  }
  const Token& standing = std::as_const(instance.tokens)[*slot];
  if (!standing.step || !standing.step->children ||
      standing.step->children->generation != generation) {
    return;
  }
  Token& token = instance.tokens.Mutable(*slot);
  ChildCounts& children = *token.step->children;
  CountMove(children, from, to, unplanned);
  JudgeChildren(scene, token.visit);
  JudgeSteps(scene);
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
  JudgeSteps(scene);
}

void KeepChildren(Scene& scene, const Token& token) {
  if (!token.step) return;
  uint64_t next = token.step->next_child;
  if (token.step->children) {
    next = std::max(next, token.step->children->first + token.step->children->started);
  }
  if (next > FirstChildOf(scene, token.home)) {
    scene.instance.tokens.Keep(token.home).next_child = next;
  }
}

uint64_t FirstChildOf(const Scene& scene, NodeIndex home) {
  const uint64_t first = scene.instance.plan->first_child;
  if (scene.machine.nodes[home].section == kNoSection) return first;
  const Keepsake* kept = scene.instance.tokens.KeptAt(home);
  return /*mutant children-of-tries-clash*/ kept ? std::max(first, kept->next_child)
                                                 : first /*end*/;
}

}  // namespace dfsmr::rules
