// Hands out ready tokens: puts them into the agenda when they become ready, and makes tasks under
// claims of those that the agenda gives out.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

// A worker of a package's manifest.
struct PackageWorkerRef {
  PackageVersionPtr package;
  const PackageVersion::Worker* worker = nullptr;
};

class HandOuts : public Part {
 public:
  HandOuts(OpenTurn& turn, Agenda& agenda, Residents& residents, Changer& changer, Values& values,
           Limits& limits, Throttle& throttle, Timers& timers, Unclaimed& unclaimed,
           Upgrades& upgrades, const PackageTable& packages, Measures& measures)
      : turn_(turn),
        agenda_(agenda),
        residents_(residents),
        changer_(changer),
        values_(values),
        limits_(limits),
        throttle_(throttle),
        timers_(timers),
        unclaimed_(unclaimed),
        upgrades_(upgrades),
        packages_(packages),
        measures_(measures) {}

  // Whose claims the tasks are.
  struct Taker {
    const std::string& worker;
    SessionId session;  // 0: a poll
    const WorkerTerms& terms;
  };
  // At most `max` tasks for the filter, under claims of the taker. Sets `durable` to false when one
  // of them depends on something that is not durable yet.
  std::vector<Task> Take(const Filter& filter, const Taker& taker, size_t max, bool* durable);
  // Whether so much was looked at in vain in this pass that the rest waits for the next one.
  bool tired() const { return misses_ == 0; }
  // The workers of packages that a token's task is for. Empty: of none. Two: its instance has gone
  // on to a package version in which its document is the same, and its claim may be older.
  std::vector<PackageWorkerRef> WorkersOf(const Resident& resident, const Token& token) const;
  // Hands out nothing more.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  void Load(Resident& resident) override;
  // At start, for a plain machine's instance that is not brought into memory.
  void LoadResting(VersionState& version, std::string id, int32_t priority, const Token& token);
  void Absorb(const Change& change) override;
  void BeginPass() override {
    places_left_ = kPlacesPerPass;
    misses_ = kMissesPerPass;
  }
  bool Work() override;

  // The queue that a token of this node is in, or would be. Null: it has to be placed first. `dry`:
  // its instance is a dry run.
  std::optional<QueueKey> KeyOf(const VersionState& version, const Graph& graph,
                                const Token& token, bool dry = false) const {
    return KeyOf(packages_, version, graph, token, dry);
  }
  static std::optional<QueueKey> KeyOf(const PackageTable& packages, const VersionState& version,
                                       const Graph& graph, const Token& token, bool dry = false);
  // Whether the input of a ready step of a dry run can be made. False: the step has failed.
  bool TryInput(Resident& resident, const Token& token);
  // The same of where it would run.
  bool TryPlace(Resident& resident, const Token& token);

 private:
  static constexpr size_t kPlacesPerPass = 1'000;
  // What is ready may turn out not to be, or to have no room under a limit: so many in a pass.
  static constexpr size_t kMissesPerPass = 2'000;

  Agenda::Queue* QueueOf(VersionState& version, const Graph& graph, const Token& token,
                         bool dry = false);
  // Whether it is to be decided yet which workers may take it.
  static bool Unplaced(const Graph& graph, const Token& token) {
    return !token.runs_on && !graph.machine->nodes[token.node].settings->runs_on.empty();
  }
  // Decides that for one token, and queues it. False: there is none.
  bool PlaceOne();
  Result<RunsOn> Resolve(Resident& resident, const Token& token);
  // Nobody can be found who may take what is ready.
  void FailPlace(Resident& resident, uint64_t visit, const std::string& why);
  static ReadyEntry EntryOf(const Graph& graph, std::string id, int32_t priority,
                            const Token& token);
  void Enqueue(Resident& resident, const Token& token);
  void EnqueueUntouched(const Change& change);
  // Makes a task of what the agenda gave out. False: it is not handed out after all.
  bool TakeOne(Agenda::Popped popped, const Taker& taker, Task* task, bool* durable);
  void Trace(Resident& resident, Task* task);
  void MakeClaim(Resident& resident, uint64_t visit, ClaimArgs args, Task* task, bool* durable);
  // Fills in the task of a ready token, except for its claim. False: it cannot be handed out, and
  // is not ready any more.
  bool Prepare(Resident& resident, const Token& token, Task* task);
  // The same for a step: its input and its event.
  bool PrepareStep(Resident& resident, const Token& token, Task* task);
  Result<std::string> InputOf(Resident& resident, const Token& token);
  void ServeBy(const PackageVersionPtr& own, Task* task) const;
  bool Fail(Resident& resident, uint64_t visit, const std::string& why);

  OpenTurn& turn_;
  Agenda& agenda_;
  Residents& residents_;
  Changer& changer_;
  Values& values_;
  Limits& limits_;
  Throttle& throttle_;
  Timers& timers_;
  Unclaimed& unclaimed_;
  Upgrades& upgrades_;
  const PackageTable& packages_;
  Measures& measures_;
  bool stopped_ = false;
  std::deque<std::pair<std::string, uint64_t>> unplaced_;  // instances, as ResidentKey, and visits
  size_t places_left_ = 0;
  size_t misses_ = 0;  // that are left to this pass
};

}  // namespace dfsmr
