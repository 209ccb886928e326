#include "dsrv/engine/groups.h"

#include <algorithm>

#include "dsrv/engine/limits.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kMadePerPass = 250;
// With no other limit, so many members may wait before more are made.
constexpr uint64_t kWaitingAhead = 100;
constexpr size_t kErrorShown = 200;

std::string KeyOf(const std::string& group) { return "group:" + group; }

std::string Members(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " member" : " members");
}

}  // namespace

Error NoSuchGroup(const std::string& ns, const std::string& name) {
  return {Code::kNotFound, Reason::kNoSuchGroup,
          "namespace " + Quoted(ns) + " has no group " + Quoted(name) +
              "; the first instance that is started with it makes it"};
}

// What there is ----------------------------------------------------------------------------------

Result<Ok> Groups::Recover() {
  return rows::ScanGroups(turn_.reader(), [&](rows::GroupName name, rows::GroupRow row) {
    Group& group = groups_[{std::string(name.ns), std::string(name.name)}];
    group.ns = name.ns;
    group.name = name.name;
    group.row = std::move(row);
    limits_.CloseGroup(group.ns, group.name, group.Closed());
    KeepEmpty(group);
    if (Apart()) TellLater(group);
    /*mutant group-order-lost*/ if (group.row.order.action != Action::kNone)
      FollowLater(group); /*end*/
  });
}

Groups::Group* Groups::Find(const std::string& ns, const std::string& name) {
  const auto it = groups_.find({ns, name});
  return it == groups_.end() || it->second.gone ? nullptr : &it->second;
}

Groups::Group& Groups::Make(const std::string& ns, const std::string& name) {
  const auto [it, added] = groups_.try_emplace({ns, name});
  Group& group = it->second;
  if (!added && !group.gone) return group;
  group.ns = ns;
  group.name = name;
  group.gone = false;
  group.held.clear();
  group.row = {.create_time = turn_.now(), .apart = group.row.apart};
  MarkDirty(group);
  return group;
}

void Groups::Import(const std::string& ns, const std::string& name, const rows::GroupRow& row) {
  if (Find(ns, name) || (Apart() && !row.paused)) return;
  Group& group = Make(ns, name);
  group.row.paused = row.paused;
  if (Apart()) return MarkDirty(group);
  group.row.note = row.note;
  group.row.stop_on_fail = row.stop_on_fail;
  group.row.failures = row.failures;
  limits_.CloseGroup(ns, name, group.Closed());
  MarkDirty(group);
}

// max_running is the number of a limit, whoever has set it.
std::optional<uint32_t> Groups::MaxOf(const Group& group) const {
  return limits_.NumbersOf(group.ns, KeyOf(group.name)).max;
}

GroupView Groups::ViewOf(const Group& group) const {
  GroupView view{group.ns, group.name, group.row, group.ToCome(), MaxOf(group)};
  view.row.counts = AllOf(group);
  return view;
}

Result<GroupView> Groups::Get(const std::string& ns, const std::string& name) {
  const Group* group = Find(ns, name);
  if (!group) return NoSuchGroup(ns, name);
  return ViewOf(*group);
}

std::vector<GroupView> Groups::List(const std::string& ns, InstanceState state,
                                    const std::string& schedule, const std::string& after,
                                    size_t limit) {
  std::vector<GroupView> views;
  for (auto it = groups_.upper_bound({ns, after}); it != groups_.end(); ++it) {
    const Group& group = it->second;
    if (group.ns != ns || views.size() == limit) break;
    if (group.gone) continue;
    if (state != InstanceState::kNone && AllOf(group).State(group.ToCome()) != state) continue;
    if (!schedule.empty() && group.row.schedule != schedule) continue;
    views.push_back(ViewOf(group));
  }
  return views;
}

Result<GroupView> Groups::Set(const std::string& ns, const std::string& name,
                              const GroupSettings& settings) {
  Group& group = Make(ns, name);
  if (settings.max_running || settings.no_max_running) {
    const LimitChange change{
        .max = settings.max_running, .no_max = settings.no_max_running, .client = settings.client};
    auto set = limits_.Override(ns, KeyOf(name), change);
    if (!set) return set.error();
    group.row.own_max = settings.max_running.has_value();
  }
  if (settings.stop_on_fail) group.row.stop_on_fail = *settings.stop_on_fail;
  if (!settings.schedule.empty()) group.row.schedule = settings.schedule;
  StopOnFail(group, "");
  MarkDirty(group);
  Stir(group);
  return ViewOf(group);
}

// Orders -----------------------------------------------------------------------------------------

Result<GroupView> Groups::Control(const std::string& ns, const std::string& name,
                                  const GroupControl& control) {
  Group* group = Find(ns, name);
  if (!group) return NoSuchGroup(ns, name);
  group->row.note = control.note;
  /*mutant group-resume-keeps-count*/ if (control.action == Action::kResume)
    group->row.failures = 0; /*end*/
  Order(*group, control.action, control.members);
  if (control.action >= Action::kCancel && group->to_come > 0) {
    source_->DropRest(ns, name);
    SetToCome(*group, 0);
  }
  TellOthers(*group, control.action, control.members);
  Stir(*group);
  return ViewOf(*group);
}

// To the members in this partition.
void Groups::Order(Group& group, Action action, bool members) {
  rows::GroupRow& row = group.row;
  row.paused = action == Action::kPause;
  if (action >= Action::kCancel) {
    SetOrder(group, std::max(action, row.order.action));
  } else if (!row.order.Cancels()) {  // which outweighs
    if (members) SetOrder(group, action);
    if (!members && row.order.action != action) SetOrder(group, Action::kNone);
  }
  if (!group.Closed() && !group.held.empty()) FollowLater(group);
  MarkDirty(group);
}

// What is started in this turn is not in the index yet, so its members follow from the next turn
// on.
void Groups::SetOrder(Group& group, Action action) {
  const GroupCounts& counts = group.row.counts;
  // What has stopped may be resumed.
  const uint64_t followers = action == Action::kResume ? counts.Total() : counts.Live();
  if (followers == 0) action = Action::kNone;
  group.row.order = {action, ""};
  group.ordered_turn = turn_.number();
  if (action != Action::kNone) FollowLater(group);
}

bool Groups::Closed(const std::string& ns, const std::string& group) const {
  const auto it = groups_.find({ns, group});
  return it != groups_.end() && !it->second.gone && it->second.Closed();
}

void Groups::AdviseMember(const Instance& instance, Scene* scene) const {
  if (instance.provenance->group.empty()) return;
  scene->group_closed = Closed(instance.ns, instance.provenance->group);
}

// Counting ---------------------------------------------------------------------------------------

void Groups::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  const MemberShare is = ShareOf(instance);
  if (is.kind == MemberShare::Kind::kNone) return;
  Group& group = Make(instance.ns, instance.provenance->group);
  group.row.counts.Add(is);
  if (Apart()) TellLater(group);
  if (!instance.waits.Has(Wait::kGroup)) return;
  group.held.insert(HeldOf(instance));
  /*mutant recover-held-forgotten*/ if (!group.Closed())
    FollowLater(group); /*end*/
}

void Groups::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.provenance || instance.provenance->group.empty()) return;
  const MemberShare is = ShareOf(instance);
  const bool waited = change.before.waits.Has(Wait::kGroup);
  const bool waits = instance.waits.Has(Wait::kGroup);
  const MemberShare& was = change.before.share;
  // It went on, and stopped or failed again, all in one change.
  const bool stopped_again = was.Stopped() && is.Stopped() && !change.entered.empty();
  const bool failed_again = was.failed && is.failed && std::ranges::any_of(change.entered, Runs);
  if (is == was && waits == waited && !stopped_again && !failed_again) return;
  Group& group = Make(instance.ns, instance.provenance->group);
  if (is != was) Count(group, was, is, instance);
  if (stopped_again) {
    NoteStopped(group, instance);
    MarkDirty(group);
  }
  if (failed_again) {
    CountRecovered(group, 1);
    CountFailure(group, instance);
  }
  if (waits == waited) return;
  if (waits) group.held.insert(HeldOf(instance));
  residents_.MarkDirty(change.resident);
}

void Groups::Count(Group& group, const MemberShare& was, const MemberShare& is,
                   const Instance& instance) {
  /*mutant group-counts-twice*/ group.row.counts.Remove(was); /*end*/
  group.row.counts.Add(is);
  if (Apart()) TellLater(group);
  if (group.to_come > 0 && is.kind != was.kind) Stir(group);  // a place may be free
  /*mutant group-row-stale*/ if (is.Stopped() != was.Stopped())
    MarkDirty(group); /*end*/
  if (is.Stopped() && !was.Stopped()) NoteStopped(group, instance);
  if (is.failed && !was.failed) CountFailure(group, instance);
  if (was.failed && !is.failed) CountRecovered(group, 1);
}

void Groups::NoteStopped(Group& group, const Instance& instance) {
  group.row.end_time = instance.end_time;
  if (Apart()) {
    group.tally.ended = instance.end_time;
    return TellLater(group);
  }
  group.ended = true;
  Stir(group);
}

void Groups::CountFailure(Group& group, const Instance& instance) {
  std::string last = Quoted(instance.id) + ", which " +
                     (instance.Stopped() ? "ended with " + std::string(Name(instance.result))
                                         : std::string("paused because steps failed"));
  if (!instance.error.empty()) last += ": " + Cut(instance.error, kErrorShown);
  if (!Apart()) return AddFailures(group, 1, last);
  ++group.tally.failed;
  group.tally.last = std::move(last);
  TellLater(group);
}

void Groups::AddFailures(Group& group, uint64_t more, const std::string& last) {
  group.row.failures += more;
  MarkDirty(group);
  StopOnFail(group, last);
}

// They go on. Those that failed before it was resumed are not counted any more.
void Groups::CountRecovered(Group& group, uint64_t members) {
  if (Apart()) {
    group.tally.recovered += members;
    return TellLater(group);
  }
  if (group.row.failures == 0) return;
  group.row.failures -= std::min(group.row.failures, members);
  MarkDirty(group);
}

void Groups::StopOnFail(Group& group, const std::string& last) {
  rows::GroupRow& row = group.row;
  if (/*mutant group-stops-late*/ row.stop_on_fail == 0 ||
      row.failures < row.stop_on_fail /*end*/) {
    return;
  }
  if (row.paused) return;
  row.paused = true;
  row.note = Members(row.failures) + " failed" + (last.empty() ? "" : ", the last " + last);
  MarkDirty(group);
  TellOthers(group, Action::kPause, false);
}

void Groups::NoteDropped(const Instance& instance) {
  const MemberShare was = ShareOf(instance);
  if (was.kind == MemberShare::Kind::kNone) return;
  Group* group = Find(instance.ns, instance.provenance->group);
  if (!group) return;
  group->row.counts.Remove(was);
  MarkDirty(*group);
  if (Apart()) TellLater(*group);
  const bool stays = Apart() && group->row.paused;  // it holds back those that come
  if (Empty(*group) && !stays) Leave(*group);
}

// Members to come, and the end -------------------------------------------------------------------

void Groups::SetToCome(const std::string& ns, const std::string& name, uint64_t count) {
  Group& group = Make(ns, name);
  SetToCome(group, count);
  Stir(group);
}

void Groups::SetToCome(Group& group, uint64_t count) {
  Check(source_ != nullptr, "members to come have a source");
  const bool had = group.to_come > 0;
  group.to_come = count;
  if (had == (count > 0)) return;
  if (!had) {
    sourced_.push_back(&group);
    return;
  }
  std::erase(sourced_, &group);
  group.ended = true;
  Stir(group);
}

void Groups::EndEmpty(const std::string& ns, const std::string& name) { Finish(Make(ns, name)); }

void Groups::BeginPass() {
  made_ = 0;
  DropEmpty();
  for (Group* group : sourced_) Stir(*group);  // its limit may have changed
}

bool Groups::HasRoom(const Group& group) const {
  if (group.to_come == 0 || group.Closed()) return false;
  const GroupCounts counts = AllOf(group);
  const uint64_t waiting = counts.Of(MemberShare::Kind::kScheduled) + group.row.awaited;
  const uint64_t running = counts.Of(MemberShare::Kind::kRunning);
  const std::optional<uint32_t> max = MaxOf(group);
  return waiting < kWaitingAhead && (!max || running + waiting < *max);
}

bool Groups::Work() {
  while (!stirred_.empty()) {
    Group& group = *stirred_.back();
    if (HasRoom(group)) {
      if (made_ < kMadePerPass) {
        ++made_;
        SetToCome(group, source_->MakeNext(group.ns, group.name));
        return true;
      }
      turn_.WantMore();
    }
    stirred_.pop_back();
    group.stirred = false;
    if (!std::exchange(group.ended, false)) continue;
    /*mutant group-finishes-early*/ if (AllOf(group).Live() > 0 || group.ToCome() > 0)
      continue; /*end*/
    Finish(group);
    return true;
  }
  return false;
}

void Groups::Finish(Group& group) {
  Event event;
  event.kind = ChangeKind::kGroupFinished;
  event.time = turn_.now();
  event.ns = group.ns;
  const GroupCounts counts = AllOf(group);
  const bool empty = counts.Total() == 0;  // of those to come none became a member
  event.note = Name(empty ? InstanceResult::kSuccess : counts.Result(0));
  event.about = Event::About{.cause = KeyOf(group.name), .group = group.name};
  turn_.Append(&event);
  if (!empty) return;
  group.row.end_time = turn_.now();
  MarkDirty(group);
  KeepEmpty(group);
}

void Groups::KeepEmpty(const Group& group) {
  if (group.row.schedule.empty() || group.row.end_time == Timestamp()) return;
  if (AllOf(group).Total() == 0) empty_.emplace(group.row.end_time, group.ns, group.name);
}

// One that has got a member since goes with its last one.
void Groups::DropEmpty() {
  while (!empty_.empty()) {
    const auto& [end, ns, name] = *empty_.begin();
    if (end + options_.retention > turn_.now()) return;
    Group* group = Find(ns, name);
    if (group && Empty(*group)) Leave(*group);
    empty_.erase(empty_.begin());
  }
}

void Groups::Leave(Group& group) {
  group.gone = true;
  MarkDirty(group);
  if (group.row.paused) TellOthers(group, Action::kResume, false);
  if (group.row.own_max) (void)limits_.Override(group.ns, KeyOf(group.name), {.reset = true});
}

void Groups::CancelToCome(const std::string& ns) {
  for (auto it = groups_.lower_bound({ns, ""}); it != groups_.end() && it->first.first == ns;
       ++it) {
    Group& group = it->second;
    if (group.gone) continue;
    // None that has stopped is resumed any more.
    if (group.row.order.action == Action::kResume) {
      SetOrder(group, Action::kNone);
      MarkDirty(group);
    }
    if (group.to_come > 0) (void)Control(ns, group.name, {.action = Action::kCancel});
  }
}

void Groups::Forget(const std::string& ns) {
  for (auto it = groups_.lower_bound({ns, ""}); it != groups_.end() && it->first.first == ns;
       ++it) {
    if (!it->second.gone) Leave(it->second);
    if (Apart()) Tell(it->second, true);  // before it tells that nothing is left
  }
}

// Rows -------------------------------------------------------------------------------------------

void Groups::MarkDirty(Group& group) {
  limits_.CloseGroup(group.ns, group.name, !group.gone && group.Closed());
  if (!std::exchange(group.dirty, true)) dirty_.push_back(&group);
}

void Groups::Stir(Group& group) {
  if (!std::exchange(group.stirred, true)) stirred_.push_back(&group);
}

void Groups::Write() {
  if (Apart()) TellAll();
  for (Group* group : std::exchange(dirty_, {})) {
    group->dirty = false;
    if (!group->gone) {
      rows::PutGroup(turn_.writer(), {group->ns, group->name}, group->row);
    } else if (group->stirred || group->following || group->untold) {
      MarkDirty(*group);
    } else {
      rows::DropGroup(turn_.writer(), {group->ns, group->name});
      groups_.erase({group->ns, group->name});
    }
  }
}

}  // namespace dfsmr
