// How the members of a group follow an order, and how those begin that a closed group held back:
// some in each pass, so that a million of them hold nobody up.
#include <algorithm>

#include "dsrv/engine/groups.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/resumer.h"
#include "dsrv/engine/turn.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kFollowAtOnce = 250;
constexpr size_t kScannedAtOnce = 1'000;

CancelMode ModeOf(rows::GroupOrder::Action action) {
  using Action = rows::GroupOrder::Action;
  if (action == Action::kKill) return CancelMode::kKill;
  return action == Action::kForce ? CancelMode::kForce : CancelMode::kCancel;
}

}  // namespace

Groups::Held Groups::HeldOf(const Instance& instance) {
  return {-int64_t{instance.priority}, instance.history.empty() ? 0 : instance.history.front(),
          instance.id};
}

void Groups::FollowLater(Group& group) {
  if (!std::exchange(group.following, true)) following_.push_back(&group);
}

void Groups::FollowSome() {
  if (following_.empty()) return;
  Group& group = *following_.front();
  following_.erase(following_.begin());
  if (Follow(group)) {
    group.following = false;
  } else {
    following_.push_back(&group);
  }
  if (!following_.empty()) turn_.WantMore();
}

bool Groups::Follow(Group& group) {
  const bool released = Release(group);
  if (group.row.order.action == Action::kNone) return released;
  if (group.ordered_turn == turn_.number() || !Sweep(group)) return false;
  group.row.order = {};
  MarkDirty(group);
  return released;
}

bool Groups::Sweep(Group& group) {
  std::vector<std::string> ids;
  size_t scanned = 0;
  bool done = true;
  const rows::Reader reader = turn_.reader();
  rows::GroupOrder& order = group.row.order;
  const auto look = [&](std::string_view id) {
    if (ids.size() == kFollowAtOnce || scanned == kScannedAtOnce) return done = false;
    ++scanned;
    order.swept = id;
    auto live = rows::IsLive(reader, {group.ns, id});
    if (!turn_.Trust(live)) return done = false;
    if (*live || order.action == Action::kResume) ids.emplace_back(id);
    return true;
  };
  const std::string after = order.swept;
  if (!turn_.Trust(rows::ScanMembers(reader, {group.ns, after}, group.name, look))) return false;
  if (scanned > 0) MarkDirty(group);
  std::vector<Held> turns;
  for (const std::string& id : ids) {
    if (auto resident = changer_.Touch(group.ns, id))
      turns.push_back(HeldOf((*resident)->instance));
  }
  std::ranges::sort(turns);
  for (const Held& one : turns) {
    auto resident = changer_.Touch(group.ns, std::get<2>(one));
    /*mutant group-member-disobeys*/ if (resident)
      Obey(order.action, **resident); /*end*/
  }
  return done && (!order.Cancels() || CancelHeld(group));
}

void Groups::Obey(Action action, Resident& resident) {
  const InstanceState state = resident.instance.state;
  if (state == InstanceState::kStopped) {
    // One that limits refuse stays as it is.
    if (action == Action::kResume && resident.instance.resumable) {
      (void)resumer_.Resume(resident, "", false);
    }
    return;
  }
  if (action == Action::kPause) {
    if (!Runs(state)) return;
    (void)changer_.Apply(resident, [](Scene& scene) { return rules::Pause(scene); });
  } else if (action == Action::kResume) {
    if (state != InstanceState::kPaused || !limits_.MayResume(resident, "")) return;
    (void)changer_.Apply(resident, [](Scene& scene) { return rules::Resume(scene, "", false); });
  } else {
    (void)changer_.Apply(resident,
                         [&](Scene& scene) { return rules::Cancel(scene, ModeOf(action)); });
  }
  if (!resident.instance.Stopped()) residents_.MarkDirty(resident);
}

Resident* Groups::NextHeld(Group& group) {
  const std::string id = std::get<2>(*group.held.begin());
  group.held.erase(group.held.begin());
  auto resident = changer_.Touch(group.ns, id);
  if (!resident || !(*resident)->instance.waits.Has(Wait::kGroup)) return nullptr;
  return *resident;
}

// Those that were started while the members followed an order to cancel, and wait therefore.
bool Groups::CancelHeld(Group& group) {
  for (size_t i = 0; i < kFollowAtOnce && !group.held.empty(); ++i) {
    if (Resident* resident = NextHeld(group)) Obey(group.row.order.action, *resident);
  }
  return group.held.empty();
}

bool Groups::Release(Group& group) {
  for (size_t i = 0; i < kFollowAtOnce && !group.held.empty() && !group.Closed(); ++i) {
    Resident* resident = NextHeld(group);
    if (!resident) continue;
    changer_.Apply(*resident, [](Scene& scene) { rules::StartDue(scene); });
  }
  return group.held.empty() || group.Closed();
}

}  // namespace dfsmr
