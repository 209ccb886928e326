#include "dsrv/engine/followers.h"

namespace dfsmr {

void Followers::Add(const Instance& follower, const std::string& id) {
  waiting_[ResidentKey(follower.ns, id)].insert(follower.id);
}

std::vector<std::string> Followers::Of(const std::string& ns, const std::string& id) const {
  const auto it = waiting_.find(ResidentKey(ns, id));
  if (it == waiting_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

void Followers::Load(Resident& resident) {
  for (const Instance::Prerequisite& one : resident.instance.after) {
    /*mutant recover-no-prerequisites*/ Add(resident.instance, one.instance); /*end*/
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
  const std::set<std::string> waiting = std::move(it->second);
  waiting_.erase(it);
  for (const std::string& id : waiting) {
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
