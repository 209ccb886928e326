#include "dsrv/engine/followers.h"

#include "dsrv/engine/changer.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/rules/elsewhere.h"

namespace dfsmr {

Result<Ok> Followers::Recover() {
  if (options_.partitions == 1) return Ok{};
  return rows::ScanFollowers(turn_.reader(), [this](const rows::FollowerRow& row) {
    /*mutant message-followers-forgotten*/
    waiting_[ResidentKey(row.ns, row.instance)][{row.follower, row.from}] = row.born; /*end*/
  });
}

void Followers::Add(const Instance& follower, const std::string& id) {
  if (options_.Has(follower.ns, id)) {
    waiting_[ResidentKey(follower.ns, id)][{follower.id, options_.partition}] = 0;
    return;
  }
  auto born = residents_.FirstSeqOf(follower.ns, follower.id);
  if (!born) return;  // the store's error; the turn is not written
  away_[ResidentKey(follower.ns, id)].insert(follower.id);
  messages_.Send(PartitionOf(follower.ns, id, options_.partitions),
                 {rows::Message::Follow{follower.ns, id, follower.id, born->value_or(0)}});
}

std::vector<std::string> Followers::Of(const std::string& ns, const std::string& id) const {
  const auto away = away_.find(ResidentKey(ns, id));
  if (away != away_.end()) return {away->second.begin(), away->second.end()};
  std::vector<std::string> ids;
  const auto it = waiting_.find(ResidentKey(ns, id));
  if (it == waiting_.end()) return ids;
  for (const auto& [follower, born] : it->second) ids.push_back(follower.first);
  return ids;
}

void Followers::Follow(PartitionId from, const rows::Message::Follow& follow) {
  const auto& [ns, id, follower, born] = follow;
  rows::Message::Ended ended{ns, id, follower, born, {}};
  auto resident = residents_.Load(ns, id);
  if (resident && !(*resident)->instance.Stopped()) {
    waiting_[ResidentKey(ns, id)][{follower, from}] = born;
    /*mutant message-follower-not-kept*/ rows::PutFollower(
        turn_.writer(), {ns, id, follower, from, born}); /*end*/
    return;
  }
  if (resident) ended.result = (*resident)->instance.result;
  /*mutant message-late-follower-not-told*/ messages_.Send(from, {std::move(ended)}); /*end*/
}

void Followers::Tell(const rows::Message::Ended& ended) {
  const auto away = away_.find(ResidentKey(ended.ns, ended.instance));
  if (away != away_.end()) {
    away->second.erase(ended.follower);
    if (away->second.empty()) away_.erase(away);
  }
  auto resident = changer_.Touch(ended.ns, ended.follower);
  if (!resident) return;
  auto born = residents_.FirstSeqOf(ended.ns, ended.follower);
  if (!born) return;
  if (/*mutant message-former-follower-begins*/ born->value_or(0) != ended.born /*end*/) return;
  changer_.Apply(**resident, [&](Scene& scene) {
    if (ended.result) {
      rules::PrerequisiteStopped(scene, ended.instance, *ended.result);
    } else {
      rules::PrerequisiteMissing(scene, ended.instance);
    }
  });
  residents_.MarkDirty(**resident);
}

void Followers::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  for (const Instance::Prerequisite& one : instance.after) {
    if (!options_.Has(instance.ns, one.instance)) {  // that knows, or is being told
      away_[ResidentKey(instance.ns, one.instance)].insert(instance.id);
      continue;
    }
    /*mutant recover-no-prerequisites*/ Add(instance, one.instance); /*end*/
  }
}

void Followers::Absorb(const Change& change) {
  if (!change.Stopped() || waiting_.empty()) return;
  const Instance& instance = change.instance();
  /*mutant followers-not-told*/ stopped_.push_back(
      {instance.ns, instance.id, instance.result}); /*end*/
}

bool Followers::Work() {
  if (stopped_.empty()) return false;
  const Stopped stopped = std::move(stopped_.front());
  stopped_.pop_front();
  auto it = waiting_.find(ResidentKey(stopped.ns, stopped.id));
  if (it == waiting_.end()) return true;
  const Waiting waiting = std::move(it->second);
  waiting_.erase(it);
  for (const auto& [follower, born] : waiting) {
    const auto& [id, from] = follower;
    if (from != options_.partition) {
      rows::DropFollower(turn_.writer(), {stopped.ns, stopped.id, id, from, born});
      messages_.Send(from,
                     {rows::Message::Ended{stopped.ns, stopped.id, id, born, stopped.result}});
      continue;
    }
    auto resident = changer_.Touch(stopped.ns, id);
    if (!resident) continue;
    changer_.Apply(**resident, [&](Scene& scene) {
      rules::PrerequisiteStopped(scene, stopped.id, stopped.result);
    });
    residents_.MarkDirty(**resident);
  }
  return true;
}

}  // namespace dfsmr
