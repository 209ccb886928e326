// What counts over all partitions, tried when all else is done, while engines crash: quotas of
// instances, and places for tasks.
#include <algorithm>
#include <utility>

#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/schedules.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {
namespace {

using std::chrono_literals::operator""ms;

constexpr uint64_t kMore = 5;       // that a quota lets in
constexpr size_t kRunAlready = 3;   // when they get a number
constexpr size_t kPlaces = 2;       // for tasks
constexpr size_t kPlaced = 8;       // tasks
constexpr size_t kMostRounds = 80;  // of 20 ms, until one has a task although places lie elsewhere

}  // namespace

std::string PlacedJobs() {
  return "---\nid: placed\nnodes: {work: {start: true, queue: few, timeout: 0.0, transitions: {ok: "
         "done}}, done: {final: true}}\n---\nid: numbered\nnodes: {work: {start: true, "
         "transitions: {ok: done}}, done: {final: true}}\n";
}

// Nothing comes due by itself from now on.
void MessageSim::PauseSchedules() {
  for (const char* name : {"go", "bad", "poke"}) {
    REQUIRE(at(kHome).Do([&](Engine& e) { return e.schedules().SetPaused("ns", name, true, "", ""); }));
  }
}

// Until nobody has anything to tell.
void MessageSim::Quiet() {
  for (int i = 0; i < 2; ++i) {
    while (CarryAll() && Good()) {
    }
    parted_->Elapse(25ms);
  }
  while (CarryAll() && Good()) {
  }
}

void MessageSim::CrashSome() {
  if (random_.Chance(20)) Restart(Any(), "an engine crashes");
}

void MessageSim::SetQuota(uint64_t most) {
  SpaceChange change;
  change.quotas.live_instances = most;
  change.live_instances = true;
  REQUIRE(at(kHome).Do([&](Engine& e) { return e.namespaces().Update("ns", change, "sim"); }));
  parted_->Adopt();
  Quiet();
}

// So many begin as may, wherever they live.
void MessageSim::TryQuota() {
  uint64_t live = 0;
  for (const auto& [id, seen] : seen_) live += seen.Live() ? 1 : 0;
  SetQuota(live + kMore);
  uint64_t started = 0;
  for (size_t i = 0; i < 3 * kMore && Good(); ++i) {
    const std::string id = parted_->Named("q" + std::to_string(++names_) + "-", Any());
    const auto answer = parted_->Of(id).TryStart({.machine = "job", .id = id});
    if (answer) {
      ++started;
      after_[id] = {};
    } else if (answer.error().reason != Reason::kQuotaExceeded) {
      Wrong(id + " is refused: " + answer.error().message);
    }
    CrashSome();
    Quiet();
  }
  if (started != kMore) {
    Wrong("a quota let " + std::to_string(started) + " begin, and had room for " +
          std::to_string(kMore));
  }
  ++hits_["a quota is full"];
  SetQuota(0);
}

// A number holds for all from the moment on in which it is set, also for those that run already
// wherever they live.
void MessageSim::TryNumber() {
  const auto begin = [this](PartitionId there) {
    const std::string id = parted_->Named("n" + std::to_string(++names_) + "-", there);
    after_[id] = {};
    parted_->Start("numbered", id);
    return id;
  };
  std::vector<std::string> all;
  for (size_t i = 0; i < kRunAlready; ++i) all.push_back(begin(Any()));
  Quiet();
  const auto set_max = [this](std::optional<uint32_t> max) {
    REQUIRE(at(kHome).Do([&](Engine& e) {
      return e.limits().Override("ns", "machine:numbered", {.max = max, .reset = !max});
    }));
  };
  set_max(static_cast<uint32_t>(kRunAlready + 1));
  for (int i = 0; i < 2; ++i) all.push_back(begin(kHome));
  CrashSome();
  Quiet();
  for (int i = 0; i < 2; ++i) all.push_back(begin(Any()));
  Quiet();
  const auto running = static_cast<size_t>(std::ranges::count_if(
      all, [this](const std::string& id) { return seen_[id].begun > 0; }));
  if (running != kRunAlready + 1) {
    Wrong(std::to_string(running) + " run under a number that has just been set, of " +
          std::to_string(kRunAlready + 1));
  }
  ++hits_["a number is set for those that run"];
  set_max(std::nullopt);
  Quiet();
}

// No more tasks are in hand than there are places for, and all have their turn.
void MessageSim::TryPlaces() {
  const auto set_max = [this](std::optional<uint32_t> max) {
    REQUIRE(at(kHome).Do([&](Engine& e) {
      return e.limits().Override("ns", "queue:few", {.max = max, .reset = !max});
    }));
    Quiet();
  };
  set_max(static_cast<uint32_t>(kPlaces));
  for (size_t i = 0; i < kPlaced; ++i) {
    const std::string id = parted_->Named("p" + std::to_string(++names_) + "-", Any());
    after_[id] = {};
    parted_->Start("placed", id);
  }
  std::vector<std::pair<PartitionId, Task>> in_hand;
  size_t done = 0;
  size_t waited = 0;
  while (done < kPlaced && Good()) {
    const size_t before = in_hand.size();
    for (PartitionId id = 0; id < parted_->size(); ++id) {
      for (Task& task : at(id).Ready({.machine = "placed"}, 1)) in_hand.emplace_back(id, task);
    }
    if (in_hand.size() > kPlaces) Wrong("more tasks are in hand than there are places for");
    waited = in_hand.size() > before ? 0 : waited + 1;
    if (in_hand.empty() && waited > kMostRounds) Wrong("nobody is given the place of a task");
    // The places that are left come to those that want them, before one is given back.
    const bool full = in_hand.size() == std::min(kPlaces, kPlaced - done);
    if (!in_hand.empty() && waited > kMostRounds) Wrong("a place lies idle while tasks wait");
    if (full && random_.Chance(50)) {
      const auto [id, task] = in_hand.front();
      in_hand.erase(in_hand.begin());
      if (!at(id).Report(task, "ok")) Wrong("a task cannot be reported");
      ++done;
      waited = 0;
    }
    CrashSome();
    Quiet();
  }
  ++hits_["a task waits for a place"];
  set_max(std::nullopt);
}

}  // namespace dfsmr::message_sim
