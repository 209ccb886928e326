// A trigger that listens to what happens in all partitions: each instance that ends brings it one
// item, in whatever partition, also while it is paused.
#include <set>

#include "dsrv/engine/triggers.h"
#include "storage/rows/occurrence.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {

std::string ListenedJobs() {
  return "---\nid: echo\nnodes: {work: {start: true, transitions: {ok: done}}, "
         "done: {final: true}}\n";
}

void MessageSim::DefineTrigger() {
  parted_->DefineDocuments(
      "trigger: see\non: {change: {kind: finished, machine: job}}\n"
      "start: {machine: echo, id: \"seen-${item.instance.id}\"}\n");
  parted_->Adopt();
}

// The call is answered once all have adopted it, or is lost with home.
void MessageSim::SetPaused(bool paused) {
  paused_ = paused;
  (void)at(kHome).Do([paused](Engine& e) {
    return paused ? e.triggers().Pause("ns", "see", "", "")
                  : e.triggers().Resume("ns", "see", false);
  });
  if (random_.Chance(80)) parted_->Adopt();
}

void MessageSim::Pause() {
  Note(paused_ ? "resume the trigger" : "pause the trigger");
  SetPaused(!paused_);
}

void MessageSim::CheckTrigger() {
  std::set<std::string> started;
  (void)rows::ScanOccurrences(
      {*below_, kHome}, {"ns", DocumentKind::kTrigger, "see"}, UINT64_MAX,
      [&](const Occurrence& one) {
        if (one.outcome != OccurrenceOutcome::kStarted) Wrong("an item was not started");
        if (!started.insert(one.instance).second) Wrong(one.instance + " was started twice");
        return true;
      });
  for (const auto& [id, seen] : seen_) {
    if (!seen.exists || seen.finished_at == 0 || parted_->Must(id).machine != "job") continue;
    const std::string echo = "seen-" + id;
    if (started.erase(echo) == 0) Wrong("the end of " + id + " has brought no item");
    if (seen_[echo].begun != 1) Wrong(echo + " has begun " + std::to_string(seen_[echo].begun) +
                                      " times");
    ++hits_["a change brings a trigger its item"];
  }
  if (!started.empty()) Wrong(*started.begin() + " is of no instance that has ended");
}

}  // namespace dfsmr::message_sim
