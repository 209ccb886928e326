// Groups over several partitions. Home counts the members of all: elsewhere the engine tells it by
// how much they have changed, in the turn in which they have. Home in turn tells the others what
// members are to do, and each has those that live there do it.
#include <algorithm>
#include <utility>

#include "dsrv/engine/groups.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr Duration kProgressEvery = std::chrono::seconds(1);

// Modulo 2^64.
GroupCounts Difference(const GroupCounts& now, const GroupCounts& then) {
  GroupCounts by;
  for (size_t i = 0; i < by.members.size(); ++i) by.members[i] = now.members[i] - then.members[i];
  by.stuck = now.stuck - then.stuck;
  by.progress_live = now.progress_live - then.progress_live;
  by.progress_stopped = now.progress_stopped - then.progress_stopped;
  return by;
}

GroupCounts Sum(const GroupCounts& a, const GroupCounts& b) {
  GroupCounts sum;
  for (size_t i = 0; i < sum.members.size(); ++i) sum.members[i] = a.members[i] + b.members[i];
  sum.stuck = a.stuck + b.stuck;
  sum.progress_live = a.progress_live + b.progress_live;
  sum.progress_stopped = a.progress_stopped + b.progress_stopped;
  return sum;
}

bool OfProgressAlone(const GroupCounts& by) {
  return by.stuck == 0 && std::ranges::all_of(by.members, [](uint64_t one) { return one == 0; });
}

}  // namespace

bool Groups::Apart() const { return !turn_.at_home(); }

GroupCounts Groups::AllOf(const Group& group) const {
  return Apart() ? group.row.counts : Sum(group.row.counts, group.row.apart);
}

// At home ---------------------------------------------------------------------------------------

void Groups::TellOthers(const Group& group, Action action, bool members) {
  if (Apart()) return;
  for (PartitionId id = 0; id < options_.partitions; ++id) {
    if (id == options_.partition) continue;
    /*mutant message-group-order-not-told*/ messages_.Send(
        id, {rows::Message::Ordered{group.ns, group.name, action, members}}); /*end*/
  }
}

void Groups::Await(const std::string& ns, const std::string& name) {
  Group& group = Make(ns, name);
  /*mutant message-group-member-not-awaited*/ ++group.row.awaited; /*end*/
  MarkDirty(group);
}

void Groups::TakeTally(const rows::Message::Tally& tally) {
  const auto more = static_cast<int64_t>(tally.by.Total());
  if (more <= 0 && !Find(tally.ns, tally.group)) return;  // it went with its namespace
  Group& group = Make(tally.ns, tally.group);
  rows::GroupRow& row = group.row;
  /*mutant message-group-not-counted*/ row.apart = Sum(row.apart, tally.by); /*end*/
  row.awaited -= std::min(row.awaited, tally.launched);
  CountRecovered(group, tally.recovered);
  if (tally.failed > 0) AddFailures(group, tally.failed, tally.last);
  if (tally.ended != Timestamp()) row.end_time = std::max(row.end_time, tally.ended);
  if (tally.ended != Timestamp() || tally.launched > 0) group.ended = true;
  MarkDirty(group);
  Stir(group);
  if (more < 0 && Empty(group)) Leave(group);
}

// Elsewhere -------------------------------------------------------------------------------------

void Groups::TakeOrder(const rows::Message::Ordered& order) {
  Group* group = Find(order.ns, order.group);
  if (!group) {
    if (order.action != Action::kPause) return;  // there is nobody to follow
    group = &Make(order.ns, order.group);
  }
  Order(*group, order.action, order.members);
  if (Empty(*group) && !group->row.paused) Leave(*group);
}

void Groups::NoteLaunched(const std::string& ns, const std::string& group) {
  ++launched_[{ns, group}];
}

void Groups::TellLater(Group& group) {
  if (!std::exchange(group.untold, true)) untold_.push_back(&group);
  tell_due_ = std::min(tell_due_, group.told + kProgressEvery);
}

// At the end of a turn.
void Groups::TellAll() {
  if (tell_due_ == kNever && launched_.empty()) return;
  tell_due_ = kNever;
  for (Group* group : std::exchange(untold_, {})) {
    group->untold = false;
    const Timestamp next = group->told + kProgressEvery;
    if (!Tell(*group, next <= turn_.real())) TellLater(*group);
  }
  for (auto& [name, count] : std::exchange(launched_, {})) {
    messages_.Send(kHome, {rows::Message::Tally{
                              .ns = name.first, .group = name.second, .launched = count}});
  }
}

// False: there is only `progress` to tell, which is not to be told now.
bool Groups::Tell(Group& group, bool progress) {
  const GroupCounts now = group.gone ? GroupCounts() : group.row.counts;
  rows::Message::Tally tally = std::exchange(group.tally, {});
  tally.by = Difference(now, group.row.apart);
  const auto launched = launched_.extract({group.ns, group.name});
  if (launched) tally.launched = launched.mapped();
  const bool nothing = tally.failed == 0 && tally.recovered == 0 && tally.launched == 0 &&
                       tally.ended == Timestamp();
  if (nothing && tally.by == GroupCounts()) return true;
  if (nothing && OfProgressAlone(tally.by) && !progress) return false;
  tally.ns = group.ns;
  tally.group = group.name;
  /*mutant message-group-told-twice*/ group.row.apart = now; /*end*/
  group.told = turn_.real();
  MarkDirty(group);
  /*mutant message-group-not-told*/ messages_.Send(kHome, {std::move(tally)}); /*end*/
  return true;
}

}  // namespace dfsmr
