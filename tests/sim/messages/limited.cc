// Instances of several partitions that one limit holds for: never more run than may, and
// home knows of none in the end.
#include <iterator>

#include "storage/rows/guest.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {

// A machine for each word, of which all share a limit.
std::string LimitedJobs() {
  std::string all;
  for (const char* word : {"wait", "skip", "fail", "latest", "cancel", "replace"}) {
    all += "---\nid: " + std::string(word) + "\nlimit: {key: k, max: " +
           std::to_string(kMayRun) + ", on_conflict: " + word +
           "}\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n";
  }
  return all;
}

void MessageSim::StartLimited() {
  static constexpr const char* kWords[] = {"wait", "wait", "wait",   "wait",
                                           "skip", "fail", "latest", "cancel", "replace"};
  const std::string id = "l" + std::to_string(++names_);
  const std::string machine = kWords[random_.Below(std::size(kWords))];
  limited_.insert(id);
  Note("start " + id + " (" + machine + ") at " + std::to_string(parted_->PlaceOf(id)));
  parted_->Of(id).Decide([&](Engine& e) {
    (void)e.Start({.ns = "ns",
                   .machine = machine,
                   .id = id,
                   .priority = static_cast<int32_t>(random_.Below(2))});
  });
}

// Starts one that a limit holds for, or does something to one.
void MessageSim::Limited() {
  const size_t dice = random_.Below(10);
  if (dice < 5 || limited_.empty()) return StartLimited();
  const auto one = std::next(limited_.begin(), static_cast<long>(random_.Below(limited_.size())));
  const std::string id = *one;
  if (dice == 9) stopped_by_hand_.insert(id);
  parted_->Of(id).Decide([&](Engine& e) {
    if (dice < 7) {
      (void)e.Report("ns", id, {.transition = "ok"});
    } else if (dice == 7) {
      (void)e.Pause("ns", id);
    } else if (dice == 8) {
      (void)e.Resume("ns", id, "", false);
    } else {
      (void)e.Cancel("ns", id, CancelMode::kForce);
    }
  });
  Commit(parted_->PlaceOf(id));
}

void MessageSim::ResumeAll() {
  std::set<std::string> all = limited_;
  all.insert(keyed_.begin(), keyed_.end());
  for (const std::string& id : all) {
    if (seen_[id].Live()) {
      (void)parted_->Of(id).Do([&](Engine& e) { return e.Resume("ns", id, "", false); });
    }
  }
}

// All have come to an end, and home knows of none any more.
void MessageSim::CheckLimits() {
  for (const std::string& id : limited_) {
    const Seen& seen = seen_[id];
    if (!seen.exists) continue;
    const std::string machine = parted_->Must(id).machine;
    if (seen.Live()) Wrong(id + " (" + machine + ") has not come to an end");
    if (seen.begun > 1) Wrong(id + " has begun twice");
    if (seen.begun == 1) ++hits_["a limit lets one in"];
    if (stopped_by_hand_.contains(id)) continue;
    if (seen.begun == 0) ++hits_["a limit lets one never in"];
    if (seen.begun == 1 && seen.result == InstanceResult::kCancelled) {
      ++hits_["one gives way to another"];
    }
  }
  (void)rows::ScanGuests({*below_, kHome}, [this](const rows::Message::Stake& stake) {
    Wrong("home knows of " + stake.instance + ", which has stopped");
  });
  for (PartitionId id = 1; id < parted_->size(); ++id) {
    (void)rows::ScanTold({*below_, id}, [this](const rows::ToldRow& row) {
      Wrong(row.instance + " has stopped, and still has a part in limits");
    });
  }
}

}  // namespace dfsmr::message_sim
