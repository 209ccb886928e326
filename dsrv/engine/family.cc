#include "dsrv/engine/family.h"

#include <algorithm>
#include <set>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

constexpr size_t kCancelsPerPass = 128;

// How the children of an instance that has ended, or is being cancelled, are cancelled.
CancelMode ModeOf(const Instance& instance) {
  const CancelMode asked = /*mutant children-cancelled-gently*/ instance.cancel /*end*/;
  return std::max(asked, CancelMode::kCancel);
}

}  // namespace

bool Unplanned(const Instance& instance) {
  if (!instance.Stopped() || instance.result != InstanceResult::kError) return false;
  return instance.plan ? !instance.plan->ran : !instance.Begun();
}

const Family::Children* Family::ChildrenOf(const std::string& ns, const std::string& parent) const {
  auto it = children_.find(ResidentKey(ns, parent));
  return it == children_.end() ? nullptr : &it->second;
}

void Family::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  if (!instance.parent_step) return;
  /*mutant recover-no-children*/ children_[ResidentKey(instance.ns, instance.parent)][instance.id] =
      instance.parent_step->generation; /*end*/
}

void Family::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.parent_step) return;
  const ChildClass from = change.before.child;
  const ChildClass to = rules::ClassOf(instance);
  if (from != to) {
    const bool unplanned = from == ChildClass::kFailed || Unplanned(instance);
    /*mutant child-not-counted*/ moved_.push_back(
        {instance.ns, instance.parent, *instance.parent_step, from, to, unplanned}); /*end*/
  }
  const std::string parent = ResidentKey(instance.ns, instance.parent);
  auto& siblings = children_[parent];
  if (instance.Stopped()) {
    siblings.erase(instance.id);
    if (siblings.empty()) children_.erase(parent);
  } else {
    siblings[instance.id] = instance.parent_step->generation;
  }
}

bool Family::Work() {
  if (moved_.empty()) return false;
  const Moved move = std::move(moved_.front());
  moved_.pop_front();
  auto parent = changer_.Touch(move.ns, move.parent);
  if (!parent || !residents_.LoadLeft(**parent, move.step.home)) return true;
  changer_.Apply(**parent, [&](Scene& scene) {
    rules::ChildMoved(scene, move.step.home, move.step.generation, move.from, move.to,
                      move.unplanned);
  });
  const Instance& instance = (*parent)->instance;
  if (!instance.Stopped() || instance.resumable) residents_.MarkDirty(**parent);
  return true;
}

// Whether a call has resumed it when its parent did not wait for it any more.
bool Canceller::GoesOnAlone(const std::string& ns, const std::string& id) {
  auto child = residents_.Load(ns, id);
  return child && (*child)->instance.with_parent && !(*child)->instance.Cancelling();
}

// Children whose parent was cancelled, has stopped, or has gone on without them.
void Canceller::Loaded() {
  for (const auto& [key, children] : family_.all()) {
    const auto [ns, id] = SplitKey(key);
    auto parent = residents_.Load(ns, id);
    std::set<uint64_t> waited_for;
    if (parent && !(*parent)->instance.Stopped() && !(*parent)->instance.Cancelling()) {
      for (const Token& token : std::as_const((*parent)->instance.tokens)) {
        if (token.step && token.step->children && !token.step->children->cancelled_all)
          waited_for.insert(token.step->children->generation);
      }
    }
    Job job{.ns = ns, .mode = parent ? ModeOf((*parent)->instance) : CancelMode::kCancel};
    for (const auto& [child, generation] : children) {
      if (!waited_for.contains(generation) && !GoesOnAlone(ns, child)) job.ids.push_back(child);
    }
    if (!job.ids.empty()) jobs_.push_back(std::move(job));
  }
}

void Canceller::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.plan && !change.before.plan) return;
  if (!family_.ChildrenOf(instance.ns, instance.id)) return;
  /*mutant children-outlive-parent*/ if (change.Cancelled() || change.Stopped() || change.Moved()) {
    Job job{.ns = instance.ns, .mode = ModeOf(instance)};
    job.spares_alone = !change.Cancelled() && !change.Moved();
    return CancelChildren(instance, std::nullopt, std::move(job));
  } /*end*/
  for (const Tokens::Touched& touched : change.touched()) {
    const auto& was = touched.before;
    if (was && was->step && was->step->children) CheckLeft(instance, *was);
  }
}

// A token that waited for children has gone on: without them, when they have not all stopped.
void Canceller::CheckLeft(const Instance& instance, const Token& before) {
  const uint64_t generation = before.step->children->generation;
  const auto slot = instance.tokens.SlotOfHome(before.home);
  if (slot) {
    const StepState& step = *instance.tokens[*slot].step;
    if (step.children && step.children->generation == generation) {
      const bool now = step.children->cancelled_all && !before.step->children->cancelled_all;
      if (!now) return;
    }
  }
  CancelChildren(instance, generation, {.ns = instance.ns, .mode = CancelMode::kCancel});
}

void Canceller::CancelChildren(const Instance& instance, std::optional<uint64_t> generation,
                               Job job) {
  const Family::Children* children = family_.ChildrenOf(instance.ns, instance.id);
  if (!children) return;
  for (const auto& [id, of] : *children) {
    if (!generation || of == *generation) job.ids.push_back(id);
  }
  if (!job.ids.empty()) jobs_.push_back(std::move(job));
}

void Canceller::BeginPass() { left_ = kCancelsPerPass; }

bool Canceller::Work() {
  if (jobs_.empty()) return false;
  if (left_ == 0) {
    turn_.WantMore();
    return false;
  }
  --left_;
  Job& job = jobs_.front();
  const std::string id = std::move(job.ids.back());
  job.ids.pop_back();
  const std::string ns = job.ns;
  const CancelMode mode = job.mode;
  const bool spares_alone = job.spares_alone;
  if (job.ids.empty()) jobs_.pop_front();
  auto loaded = residents_.Load(ns, id);
  if (!loaded || (*loaded)->instance.Stopped()) return true;
  if (spares_alone && GoesOnAlone(ns, id)) return true;
  auto parent = residents_.Load(ns, (*loaded)->instance.parent);
  // It was resumed meanwhile.
  if (parent && rules::AwaitsChild((*parent)->instance, (*loaded)->instance)) return true;
  auto child = changer_.Touch(ns, id);
  auto outcome = changer_.Apply(**child, [&](Scene& scene) {
    const bool first = !scene.instance.Stopped() && !scene.instance.Cancelling();
    auto cancelled = rules::Cancel(scene, mode);
    if (first) scene.instance.with_parent = true;
    return cancelled;
  });
  if (outcome && !(*child)->instance.Stopped()) residents_.MarkDirty(**child);
  return true;
}

}  // namespace dfsmr
