#include "dsrv/cluster/member.h"

#include <algorithm>

#include "dsrv/cluster/reach.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LeaseTime kGap = seconds(5);      // a longer one between renewals is an outage
constexpr LeaseTime kCalm = seconds(10);    // after one, nobody is buried for so long
constexpr LeaseTime kLeap = seconds(1);     // by which the store's clock may be off in pace
constexpr LeaseTime kSettled = seconds(2);  // from a change of members until partitions move
constexpr LeaseTime kPingCounts = seconds(10);
constexpr LeaseTime kLevelWaits = seconds(60);  // so that what was replaced may come back
constexpr LeaseTime kSoonest = milliseconds(20);  // between two looks

const ServerRow* Find(const std::vector<ServerRow>& servers, const std::string& id) {
  const auto row = std::ranges::find(servers, id, &ServerRow::id);
  return row == servers.end() ? nullptr : &*row;
}

bool Owned(const std::vector<ServerRow>& servers, const PartRow& part) {
  const ServerRow* const owner = Find(servers, part.owner);
  return owner && !owner->dead;
}

}  // namespace

Member::Member(std::string id, std::string address, LeaseTime joined)
    : id_(std::move(id)),
      address_(std::move(address)),
      calm_since_(joined),
      looked_(joined),
      changed_(joined),
      alone_(joined) {}

bool Member::Reached(LeaseTime now) const {
  return (pinged_ && now - *pinged_ < kPingCounts) || (was_alone_ && now - alone_ < kPingCounts);
}

std::map<std::string, std::vector<PartitionId>> Member::Plan(const std::vector<ServerRow>& servers,
                                                             const std::vector<PartRow>& parts) {
  const auto live = std::ranges::count_if(servers, [](const auto& row) { return !row.dead; });
  std::map<std::string, std::vector<PartitionId>> plan;
  for (const ServerRow& row : servers) {
    if (!row.dead && /*mutant cluster-given-to-leaver*/ !row.leaving /*end*/ &&
        (row.reached || live == 1)) {
      plan[row.id];
    }
  }
  if (plan.empty()) return plan;
  std::vector<PartitionId> free;
  for (const PartRow& part : parts) {
    const auto owner = plan.find(part.owner);
    if (owner != plan.end()) {
      owner->second.push_back(part.id);
    } else if (const ServerRow* row = Find(servers, part.owner);
               !row || row->dead || row->leaving || !row->reached) {
      free.push_back(part.id);
    }
  }
  // Who has most keeps most, so that as little as possible moves.
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [id, has] : plan) order.emplace_back(parts.size() - has.size(), id);
  std::ranges::sort(order);
  const size_t least = parts.size() / plan.size();
  size_t more = parts.size() % plan.size();
  std::map<std::string, size_t> most;
  for (const auto& [rank, id] : order) {
    const bool one_more = more > 0;
    if (one_more) --more;
    most[id] = least + (one_more ? 1 : 0);
    auto& has = plan[id];
    while (/*mutant cluster-keeps-too-much*/ has.size() > most[id] /*end*/) {
      free.push_back(has.back());
      has.pop_back();
    }
  }
  std::ranges::sort(free);
  auto next = free.begin();
  for (auto& [id, has] : plan) {
    while (has.size() < most[id] && next != free.end()) has.push_back(*next++);
  }
  return plan;
}

Member::Todo Member::Look(const Roster::Seen& seen, LeaseTime sent, LeaseTime now) {
  Todo todo;
  todo.end = WhyEnd(seen);
  if (!todo.end.empty()) return todo;
  if (!seen.alive) {
    todo.rejoin = true;
    for (const auto& [partition, epoch] : held_) todo.drop.push_back(partition);
    /*mutant cluster-buried-answers*/ answers_until_ = LeaseTime{}; /*end*/
    return todo;
  }
  NoteTimes(seen, sent, now);
  for (const PartRow& part : seen.parts) {
    const auto held = held_.find(part.id);
    if (held == held_.end()) continue;
    /*mutant cluster-lost-not-dropped*/ if (part.owner != id_ || part.held.epoch != held->second)
      todo.drop.push_back(part.id); /*end*/
  }
  Bury(seen, now, &todo);
  Share(seen, now, &todo);
  Level(seen, now, &todo);
  return todo;
}

// Another life, or epochs that were used already: the database has forgotten some of them.
bool Member::Restored(const Roster::Seen& seen) {
  if (!life_) life_ = seen.cluster.life;
  bool older = false;
  for (const PartRow& part : seen.parts) {
    Epoch& highest = highest_[part.id];
    older = older || part.held.epoch < highest;
    highest = std::max(highest, part.held.epoch);
  }
  return older || *life_ != seen.cluster.life;
}

std::string Member::WhyEnd(const Roster::Seen& seen) {
  if (!seen.cluster.moved.empty()) return "the store has moved to " + seen.cluster.moved;
  if (Restored(seen)) {
    return "the store was restored to an earlier time while this server ran";
  }
  if (seen.alive) return {};
  // Nobody buries a server whose lease is good, but one that starts with the same address.
  const ServerRow* const self = Find(seen.servers, id_);
  if (!self || self->seen < seen.now - kLease) return {};
  for (const ServerRow& other : seen.servers) {
    if (other.id != id_ && other.address == address_ && !other.dead &&
        other.started >= self->started) {
      return "server " + other.id + " advertises " + address_ +
             ", too: each server of a store needs an address of its own (--advertise)";
    }
  }
  return {};
}

void Member::NoteTimes(const Roster::Seen& seen, LeaseTime sent, LeaseTime now) {
  answers_until_ =
      std::max(answers_until_, /*mutant cluster-lease-from-answer*/ sent + kMayAnswer /*end*/);
  if (!looked_once_) {
    calm_since_ = now;  // what befell the store's clock since it joined, it cannot know
  } else {
    const LeaseTime here = sent - looked_;
    const LeaseTime there = seen.now - store_looked_;
    // A renewal that took long was answered late, but not sent late: it may not be a leap.
    const LeaseTime off = there > here ? there - here : here - there;
    /*mutant cluster-leap-unnoticed*/ if (here > kGap || off > kLeap + (now - sent))
      calm_since_ = now; /*end*/
    if (here > kGap) outage_ = now;
  }
  looked_once_ = true;
  looked_ = sent;
  store_looked_ = seen.now;

  std::set<std::string> others;
  for (const ServerRow& row : seen.servers) {
    if (!row.dead && row.id != id_) others.insert(row.id);
  }
  if (others.empty()) {
    alone_ = now;
    was_alone_ = true;
  }
  if (others != members_) {
    members_ = std::move(others);
    changed_ = now;
  }
}

void Member::Bury(const Roster::Seen& seen, LeaseTime now, Todo* todo) const {
  // After an outage of the store everybody is to have renewed before anybody is buried.
  const LeaseTime calm_in = calm_since_ + kCalm - now;
  for (const ServerRow& row : seen.servers) {
    if (row.dead || row.id == id_) continue;
    const LeaseTime over_in =
        std::max<LeaseTime>(row.seen + kLease - seen.now + milliseconds(1), calm_in);
    /*mutant cluster-never-buries*/ if (over_in <= LeaseTime::zero())
      todo->bury.push_back(row.id); /*end*/
    todo->wait = std::clamp(over_in, kSoonest, todo->wait);
  }
}

void Member::Level(const Roster::Seen& seen, LeaseTime now, Todo* todo) {
  uint32_t known = UINT32_MAX;
  for (const ServerRow& row : seen.servers) {
    if (!row.dead) known = std::min(known, row.level);
  }
  if (known != known_level_) {
    known_level_ = known;
    known_since_ = now;
  }
  if (!held_.contains(kHome) || known <= seen.cluster.level) return;
  if (now - known_since_ >= kLevelWaits) todo->raise = known;
}

void Member::Share(const Roster::Seen& seen, LeaseTime now, Todo* todo) const {
  const auto plan = Plan(seen.servers, seen.parts);
  const auto found = plan.find(id_);
  std::vector<PartitionId> own;
  if (found != plan.end()) own = found->second;
  std::ranges::sort(own);
  for (const PartRow& part : seen.parts) {
    const bool held = held_.contains(part.id);
    const bool planned = std::ranges::binary_search(own, part.id);
    const bool given = part.owner == id_;
    if (!held && !leaving_ &&
        /*mutant cluster-given-not-taken*/
        (given || (planned && !Owned(seen.servers, part))) /*end*/) {
      todo->take.push_back(part);
    }
    if (!held || !given || planned || todo->give) continue;
    // It is over. Whose it is to be, all know.
    if (!leaving_ && now < changed_ + kSettled) continue;
    // What the others have told of whom they reach is from before the outage.
    if (!leaving_ && outage_ && now < *outage_ + kCalm) continue;
    for (const auto& [id, has] : plan) {
      if (id != id_ && std::ranges::count(has, part.id) != 0) todo->give.emplace(part.id, id);
    }
  }
}

}  // namespace dfsmr
