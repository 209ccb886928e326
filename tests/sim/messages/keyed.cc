// Machines that have a limit by themselves: of one, never more run than may; of the other a number
// comes and goes, and home knows in the end how many run.
#include <iterator>

#include "dsrv/engine/limits.h"
#include "storage/rows/bare.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {

std::string KeyedJobs() {
  return "---\nid: keyed\n"
         "nodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n";
}

void MessageSim::SetMax(const std::string& key, std::optional<uint32_t> max) {
  Note(key + " has " + (max ? "a number" : "no number any more"));
  at(kHome).Decide([&](Engine& e) {
    (void)e.limits().Override("ns", key, {.max = max, .reset = !max});
  });
  Commit(kHome);
}

void MessageSim::DefineKeys() {
  REQUIRE(at(kHome).Do([](Engine& e) {
    return e.limits().Override("ns", "machine:keyed", {.max = static_cast<uint32_t>(kMayRun)});
  }));
  parted_->Carry();
}

// Starts one, or does something to one, or to the number of the other machine.
void MessageSim::Keyed() {
  const size_t dice = random_.Below(20);
  if (dice < 2) return SetMax("machine:job", 1'000);
  if (dice < 4) return SetMax("machine:job", std::nullopt);
  if (dice < 12 || keyed_.empty()) {
    const std::string id = "k" + std::to_string(++names_);
    keyed_.insert(id);
    Note("start " + id + " (keyed) at " + std::to_string(parted_->PlaceOf(id)));
    parted_->Of(id).Decide([&](Engine& e) {
      (void)e.Start({.ns = "ns", .machine = "keyed", .id = id});
    });
    return Commit(parted_->PlaceOf(id));
  }
  const auto one = std::next(keyed_.begin(), static_cast<long>(random_.Below(keyed_.size())));
  const std::string id = *one;
  parted_->Of(id).Decide([&](Engine& e) {
    if (dice < 16) {
      (void)e.Report("ns", id, {.transition = "ok"});
    } else if (dice == 16) {
      (void)e.Pause("ns", id);
    } else if (dice < 19) {
      (void)e.Resume("ns", id, "", false);
    } else {
      (void)e.Cancel("ns", id, CancelMode::kForce);
    }
  });
  Commit(parted_->PlaceOf(id));
}

void MessageSim::NoteKeyed(PartitionId id, const Event& event) {
  if (!keyed_.contains(event.instance)) return;
  const auto now = rows::GetBareInstance({*below_, id}, {"ns", event.instance},
                                         at(id).engine().reader().registry.resolve());
  const bool runs = now && now->state == InstanceState::kRunning;
  runs ? (void)keyed_running_.insert(event.instance)
       : (void)keyed_running_.erase(event.instance);
  if (event.kind == ChangeKind::kStarted) ++hits_["a machine's limit lets one in"];
}

void MessageSim::CheckKeys() {
  for (const std::string& id : keyed_) {
    if (!seen_[id].exists) continue;
    if (seen_[id].Live()) Wrong(id + ", whose machine has a limit, has not come to an end");
    if (seen_[id].begun > 1) Wrong(id + ", whose machine has a limit, has begun twice");
  }
  const auto held = [this](const std::string& key) {
    return at(kHome).Do([&](Engine& e) { return e.limits().Look().Get("ns", key, "", 1).held; });
  };
  if (const uint64_t keyed = held("machine:keyed"); keyed != 0) {
    Wrong("home counts " + std::to_string(keyed) + " that hold machine:keyed; there is none");
  }
  // What a schedule sends to runs on.
  if (const uint64_t jobs = held("machine:job"); jobs != 1) {
    Wrong("home counts " + std::to_string(jobs) + " that hold machine:job; there is 1");
  }
}

}  // namespace dfsmr::message_sim
