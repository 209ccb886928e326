#include "dsrv/engine/resumer.h"

#include <utility>
#include <vector>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/family.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/reports.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "storage/rows/instance.h"
#include "storage/rows/retention.h"

namespace dfsmr {
namespace {

constexpr size_t kChildrenAtOnce = 32;
constexpr size_t kChildrenPerPass = 256;

using Resuming = PlanState::Resuming;

bool IsResuming(const Instance& instance) {
  return instance.plan && !instance.Stopped() && instance.plan->resuming != Resuming::kNone;
}

// What was reported of visits that were over by then. By force nothing of it counts.
std::vector<ReportArgs> LateReportsOf(const Instance& instance, bool force) {
  std::vector<ReportArgs> late;
  for (const auto& [key, token] : instance.tokens.left()) {
    if (token.late && !force) late.push_back(rules::ReportOf(instance, token.visit, *token.late));
  }
  return late;
}

}  // namespace

Result<Ok> Resumer::MayResume(Resident& resident, const std::string& node) {
  const Instance& instance = resident.instance;
  if (instance.resumable && resident.version->LeftBehind()) {
    return Error{Code::kFailedPrecondition, Reason::kSupersededVersion,
                 "instance " + Quoted(instance.id) + " is of version " +
                     std::to_string(instance.version) + " of " + Quoted(instance.machine) +
                     ", which a later version has left behind; start it anew"};
  }
  if (auto loaded = residents_.LoadLeft(resident); !loaded) return loaded;
  std::vector<Event> none;
  auto may = rules::MayContinue(changer_.SceneOf(resident, &none), node);
  return may ? limits_.MayResume(resident, "") : may;
}

Result<Ok> Resumer::Resume(Resident& resident, const std::string& node, bool force) {
  auto done = Continue(resident, node, force);
  Instance& instance = resident.instance;
  if (!done || !instance.parent_step || instance.Stopped()) return done;
  auto parent = residents_.Load(instance.ns, instance.parent);
  instance.with_parent = !parent || !rules::AwaitsChild((*parent)->instance, instance);
  return done;
}

Result<Ok> Resumer::Continue(Resident& resident, const std::string& node, bool force) {
  if (auto may = MayResume(resident, node); !may) return may;
  const Instance& instance = resident.instance;
  const std::vector<ReportArgs> late = LateReportsOf(instance, force);
  if (std::exchange(resident.stopped_on_disk, false)) {
    /*mutant resumed-expires*/ rows::Revive(turn_.writer(), instance,
                                            residents_.ExpiryOf(resident)); /*end*/
  }
  // Among those that have stopped it does not count.
  if (!instance.dry_run) statistics_.NoteDropped(*resident.version, instance.result);
  changer_.Apply(resident, [&](Scene& scene) {
    limits_.Advise(resident, &scene);
    rules::Continue(scene, node, force);
  });
  residents_.MarkDirty(resident);
  Enlist(instance);
  for (const ReportArgs& report : late) reports_.ReportLate(resident, report);
  return Ok{};
}

// Children ---------------------------------------------------------------------------------------

void Resumer::Enlist(const Instance& instance) {
  if (IsResuming(instance)) jobs_.push_back({instance.ns, instance.id, turn_.number(), ""});
}

void Resumer::Load(Resident& resident) {
  /*mutant recover-children-not-resumed*/ if (IsResuming(resident.instance)) {
    jobs_.push_back({resident.instance.ns, resident.instance.id, 0, ""});
  } /*end*/
}

void Resumer::BeginPass() { left_ = kChildrenPerPass; }

bool Resumer::Work() {
  if (jobs_.empty()) return false;
  if (left_ == 0 || jobs_.front().turn == turn_.number()) {
    turn_.WantMore();
    return false;
  }
  Job& job = jobs_.front();
  auto parent = changer_.Touch(job.ns, job.parent);
  if (!parent || !IsResuming((*parent)->instance)) return jobs_.pop_front(), true;
  std::vector<std::string> ids;
  auto scanned =
      rows::ScanChildren(turn_.reader(), {job.ns, job.after}, job.parent, [&](std::string_view id) {
        ids.emplace_back(id);
        return ids.size() < kChildrenAtOnce;
      });
  if (!turn_.Trust(scanned)) return false;
  if (ids.empty()) {
    jobs_.pop_front();
    changer_.Apply(**parent, [](Scene& scene) { rules::ChildrenResumed(scene); });
    residents_.MarkDirty(**parent);
    return true;
  }
  job.after = ids.back();
  left_ -= std::min(left_, ids.size());
  const Instance& of = (*parent)->instance;
  for (const std::string& id : ids) ResumeChild(of, id);
  return true;
}

bool Resumer::Awaits(const Instance& parent, const Instance& child) {
  return child.with_parent && rules::AwaitsChild(parent, child);
}

void Resumer::ResumeChild(const Instance& parent, const std::string& id) {
  const bool force = parent.plan->resuming == Resuming::kForces;
  auto loaded = residents_.Load(parent.ns, id);
  if (!loaded || !Awaits(parent, (*loaded)->instance)) return;
  Resident& child = **loaded;
  if (child.instance.Stopped()) {
    // One that limits refuse stays as it is, and counts as failed.
    (void)Continue(child, "", force);
    return;
  }
  auto touched = changer_.Touch(parent.ns, id);
  if (!touched || (*touched)->instance.Stopped()) return;
  const std::vector<ReportArgs> late = LateReportsOf((*touched)->instance, force);
  changer_.Apply(**touched, [&](Scene& scene) {
    rules::CallOff(scene, force);
    scene.instance.with_parent = false;  // it may have gone on by itself
  });
  for (const ReportArgs& report : late) reports_.ReportLate(**touched, report);
  if ((*touched)->instance.Stopped()) return;
  residents_.MarkDirty(**touched);
  Enlist((*touched)->instance);
}

}  // namespace dfsmr
