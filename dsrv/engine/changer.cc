#include "dsrv/engine/changer.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/groups.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "storage/rows/plan.h"

namespace dfsmr {

namespace {

void ListClaims(const Instance& instance, std::vector<ClaimChange>* claims) {
  for (const Tokens::Touched& touched : instance.tokens.touched()) {
    const Token* was = touched.before ? &*touched.before : nullptr;
    const Token* now = instance.Stopped() ? nullptr : instance.tokens.Find(touched.visit);
    if (was) {
      for (const Claim& claim : was->claims) {
        claims->push_back(
            {touched.visit, was, now, &claim, now ? now->FindClaim(claim.id) : nullptr});
      }
    }
    if (!now) continue;
    for (const Claim& claim : now->claims) {
      if (was && was->FindClaim(claim.id)) continue;
      claims->push_back({touched.visit, was, now, nullptr, &claim});
    }
  }
}

}  // namespace

namespace {

// It has stopped, and stays as what it counts as: of the later version that its own stands for.
void SettleVersion(Resident& resident) {
  resident.version = &resident.version->Now();
  resident.instance.version = resident.version->definition->version;
  if (!resident.instance.plan) resident.graph = resident.version->graph;
}

}  // namespace

Before::Before(const Resident& resident)
    : state(resident.instance.state),
      cancel(resident.instance.cancel),
      child(rules::ClassOf(resident.instance)),
      waits(resident.instance.waits),
      plan(static_cast<bool>(resident.instance.plan)),
      open(rules::HasOpenEdges(resident.instance)),
      limits(resident.instance.limits),
      share(resident.instance.provenance ? ShareOf(resident.instance) : MemberShare()),
      version(resident.version),
      graph(resident.graph) {}

Result<Resident*> Changer::Touch(const std::string& ns, const std::string& id) {
  auto resident = residents_.Load(ns, id);
  if (resident && (*resident)->version->LeftBehind() && !(*resident)->instance.Stopped()) {
    Move(**resident);
  }
  return resident;
}

void Changer::Move(Resident& resident) {
  VersionState* from = resident.version;
  Apply(resident, [&](Scene& scene) {
    if (from->aborted_by) {
      rules::Abort(scene, from->aborted_by->definition->version);
      return;
    }
    resident.version = from->upgrades_to;
    resident.graph = resident.version->graph;
    const MachineVersion& next = *from->upgrades_to->definition;
    const bool planned = resident.instance.plan && !resident.instance.plan->graph.empty();
    rules::Upgrade(scene, next.machine, next.version);
    // A machine that has become a plan had outputs, too.
    const bool anew = resident.instance.plan && resident.instance.Begun();
    if (planned || anew) rows::DropPlan(turn_.writer(), resident.instance);
    resident.plan.reset();
  });
}

Scene Changer::SceneOf(Resident& resident, std::vector<Event>* events) {
  Scene scene{.machine = resident.machine(),
              .instance = resident.instance,
              .now = turn_.now(),
              .epoch = turn_.epoch(),
              .random = turn_.random(),
              .events = *events,
              .portion = options_.steps_at_once};
  if (turn_.has_virtual_clock()) scene.clock = turn_.clock();
  if (by_) scene.reason = by_->reason;
  if (scene.machine.conditional) {
    scene.value = [this, &resident](const Reference& reference, const FreshOutput& fresh) {
      return ask_(resident, reference, fresh);
    };
  }
  return scene;
}

void Changer::Run(Resident& resident, ClaimId self, const std::function<void(Scene&)>& rule) {
  Instance& instance = resident.instance;
  Check(instance.tokens.touched().empty(), "one change of an instance ends before the next begins");
  turn_.NextChange();
  std::vector<Event> events = std::exchange(events_, {});
  std::vector<ClaimChange> claims = std::exchange(claims_, {});
  Scene scene = SceneOf(resident, &events);
  const Change change{resident, self, scene.entered, Before(resident), claims};
  const bool dry = static_cast<bool>(instance.dry_run);
  /*mutant change-counted-twice*/ if (!dry)
    Statistics::CountState(*resident.version, instance.state, -1);
  /*end*/
  if (dry) Statistics::CountDryRun(*resident.version, instance.state, -1);
  if (instance.provenance) groups_->AdviseMember(instance, &scene);
  if (/*mutant nobody-asks-limits*/ !instance.Begun() || !instance.waits.empty() /*end*/)
    limits_->Advise(resident, &scene);
  rule(scene);
  if (!dry) Statistics::CountState(*resident.version, instance.state, +1);
  if (dry) Statistics::CountDryRun(*resident.version, instance.state, +1);
  Statistics::CountTokens(instance, *change.before.graph, *resident.graph);
  if (instance.provenance) {
    for (Event& event : events) {
      event.about = Event::About{.cause = instance.provenance->cause,
                                 .group = instance.provenance->group,
                                 .depth = instance.provenance->depth};
    }
  }
  if (by_) {
    for (Event& event : events) {
      if (event.client.empty()) event.client = by_->client;
      if (event.note.empty()) event.note = by_->reason;
    }
  }
  if (because_) {
    for (Event& event : events) {
      if (!event.about) event.about = Event::About{};
      event.about->cause = because_->cause;
      event.about->depth = std::max(event.about->depth, because_->depth);
    }
  }
  if (!events.empty() || instance.tokens.HasResets()) {
    residents_.Stage(resident, events);
  } else if (change.before.open) {
    residents_.MarkDirty(resident);  // the way through a plan may go on without a record
  } else if (!instance.tokens.touched().empty()) {
    residents_.MarkLazy(resident);
  }
  ListClaims(instance, &claims);
  /*mutant part-not-told*/ for (Part* part : parts_) {
    part->Absorb(change);
  } /*end*/
  if (resident.version->stands_for && instance.Stopped()) SettleVersion(resident);
  instance.tokens.Forget();
  constexpr size_t kKept = 64;  // a large change does not keep its memory
  if (events.capacity() > kKept || claims.capacity() > kKept) return;
  events.clear();
  events_ = std::move(events);
  claims.clear();
  claims_ = std::move(claims);
}

}  // namespace dfsmr
