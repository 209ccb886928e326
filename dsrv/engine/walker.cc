#include "dsrv/engine/walker.h"

#include "dsrv/engine/changer.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {

void Walker::Enlist(const Instance& instance) {
  /*mutant way-not-taken*/ if (rules::HasOpenEdges(instance)) {
    waiting_.push_back(ResidentKey(instance.ns, instance.id));
  } /*end*/
}

void Walker::Absorb(const Change& change) {
  if (!change.before.open) Enlist(change.instance());
}

bool Walker::Work() {
  if (waiting_.empty()) return false;
  if (walked_) {
    turn_.WantMore();
    return false;
  }
  const std::string key = std::move(waiting_.front());
  waiting_.pop_front();
  const auto [ns, id] = SplitKey(key);
  auto resident = changer_.Touch(ns, id);
  if (!resident || !rules::HasOpenEdges((*resident)->instance)) return true;
  walked_ = true;
  changer_.Apply(**resident, [this](Scene& scene) {
    scene.portion = portion_;
    rules::ReachMore(scene);
  });
  if (rules::HasOpenEdges((*resident)->instance)) waiting_.push_back(key);
  return true;
}

}  // namespace dfsmr
