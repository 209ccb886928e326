// Tasks that packages serve, and the processes and commands that run tasks.

#include <algorithm>

#include "dcli/agent/hands.h"
#include "dcli/agent/operation.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {

void Hands::TakeOfPackage(const v1::Task& task) {
  Hand* const hand = Add(task);
  hand->stage = Hand::Stage::kFetching;
  if (const auto package = packages_->Ready(task.package())) return RunBy(hand, package);
  const std::string claim = task.claim();
  packages_->Prepare(
      task.package(), claim,
      {.line =
           [this, claim](LogStream stream, std::string line) {
             if (const Hand* of = Find(claim)) Log(*of, stream, std::move(line));
           },
       .done = [this,
                claim](const Result<PackageInUsePtr>& package) { HavePackage(claim, package); }});
}

void Hands::HavePackage(const std::string& claim, const Result<PackageInUsePtr>& package) {
  Hand* const hand = Find(claim);
  if (hand == nullptr || hand->stage != Hand::Stage::kFetching) return;
  if (!package) return GiveBack(hand, package.error().message, true);
  RunBy(hand, *package);
  BeginWaiting();
}

// It waits for room from here on, or goes back because it cannot be run here.
void Hands::RunBy(Hand* hand, const PackageInUsePtr& package) {
  const auto& workers = package->package->manifest.workers;
  const std::string& name = hand->task.package().worker();
  const auto found = std::ranges::find(workers, name, &Worker::name);
  const std::string of = " of " + package->package->name;
  if (found == workers.end()) {
    return GiveBack(hand,
                    name.empty() ? "no worker" + of + " serves " + hand->task.action()
                                 : "there is no worker " + name + of,
                    true);
  }
  std::vector<std::string> missing;
  for (const std::string& word : found->required) {
    const auto& own = plan_.open.capabilities();
    if (std::ranges::find(own, word) == own.end()) missing.push_back(word);
  }
  if (!missing.empty()) {
    return GiveBack(hand, "the worker " + name + of + " requires " + Join(missing, ", "), true);
  }
  if (found->run.front().find('/') == std::string::npos) {
    return GiveBack(hand,
                    "the worker " + name + of + " runs " + Quoted(found->run.front()) +
                        ", which is not on this agent's PATH",
                    true);
  }
  if (const auto why = Unfit(*found, hand->task)) return GiveBack(hand, *why, true);
  hand->package = package;
  hand->worker = &*found;
  hand->stage = Hand::Stage::kWaiting;
  waiting_.push_back(hand->task.claim());
}

std::unique_ptr<Run> Hands::RunOf(Hand* hand) {
  RunEvents events = EventsOf(hand->task.claim());
  if (hand->worker->serve) return PoolOf(*hand).Begin(hand->task, hand->secrets, std::move(events));
  const Surroundings& surroundings =
      hand->package == nullptr ? plan_.surroundings : hand->package->package->surroundings;
  return std::make_unique<Operation>(loop_, keeper(), surroundings, *hand->worker, hand->task,
                                     hand->secrets, std::move(events));
}

ServePool& Hands::PoolOf(const Hand& hand) {
  const Worker* const worker = hand.worker;
  Pool& pool = pools_[worker];
  if (pool.processes != nullptr) return *pool.processes;
  pool.package = hand.package;
  const Surroundings& surroundings =
      hand.package == nullptr ? plan_.surroundings : hand.package->package->surroundings;
  pool.processes = std::make_unique<ServePool>(
      loop_, [this]() -> Keeper& { return *keeper_; }, surroundings, *worker);
  pool.processes->OnEmpty([this, worker] {
    // Not at once: the pool's last process has its say yet.
    loop_.Post([this, worker] { DropPool(worker); });
  });
  return *pool.processes;
}

void Hands::DropPool(const Worker* worker) {
  const auto pool = pools_.find(worker);
  if (pool != pools_.end() && pool->second.processes->empty()) pools_.erase(pool);
}

}  // namespace dfsmr::cli
