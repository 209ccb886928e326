// What people ask about the whole: how much of what there is, where it stands, and who asks for it.
// Answers are added up from what the other parts know when somebody asks, so that they cost nothing
// until then. An answer costs as much as there are nodes, however many instances there are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/followers.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/pulse.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/latency.h"

namespace dfsmr {

// Dry runs count in none of this.
struct Tally {
  uint64_t scheduled = 0;
  uint64_t running = 0;
  uint64_t paused = 0;
  uint64_t stopped = 0;
  uint64_t ready = 0;  // tokens, of instances that run
  uint64_t claimed = 0;
  uint64_t waiting = 0;
  uint64_t held = 0;
  std::optional<Duration> oldest_ready;

  void Add(const Tally& other);
};

// The work of one node, over all versions.
struct QueueView {
  std::string ns;
  std::string queue;
  std::string machine;
  std::string node;
  std::string action;
  uint64_t ready = 0;
  uint64_t held_back = 0;  // retries that the breaker keeps
  uint64_t claimed = 0;
  std::optional<Duration> oldest_ready;
  uint64_t asking = 0;  // polls and streams with room that would take it now
  std::optional<Timestamp> asked_time;
  double claims_per_second = 0;  // over the last minute
};
struct QueueQuery {
  std::string ns;
  std::string machine;               // empty: any
  std::optional<std::string> queue;  // absent: any
};

struct MachineTally {
  std::string ns;
  std::string id;
  uint32_t version = 0;  // the latest
  std::string kind;
  Tally now;
  uint64_t started_hour = 0;
  uint64_t failed_hour = 0;
  double retry_rate = 0;
  std::string_view breaker;
};

// The last hour, minute by minute.
using MinuteTallies = std::map<Timestamp, MinuteCounts>;  // by their begins

// Where the time of workers goes.
struct SlowNodeView {
  std::string machine;
  std::string node;
  uint64_t completed = 0;  // in the last hour
  Duration spent{};        // by all attempts
  std::optional<Duration> p50;
  std::optional<Duration> p95;
  std::optional<Duration> timeout_now;
};
// Which instances are to be counted; filters decide it from outside.
struct CountedVersion {
  const std::string& machine;
  uint32_t version;
  uint64_t scheduled;
  uint64_t planning;
  uint64_t running;  // without those
  uint64_t paused;
  uint64_t stopped;
  const Machine* nodes;  // of a plain machine; null: of a plan
  const std::map<std::string, NodeState>& counts;
};

class Survey : public Part {
 public:
  Survey(OpenTurn& turn, Catalog& catalog, Residents& residents, Agenda& agenda,
         const Followers& followers, Values& values, Workers& workers,
         const PackageTable& packages)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        agenda_(agenda),
        followers_(followers),
        values_(values),
        workers_(workers),
        packages_(packages) {}

  // `sees`: whether the asker may look into a namespace.
  using Sees = std::function<bool(const std::string& ns)>;

  // In order of namespace and id; `machine` empty: all.
  std::vector<MachineTally> Machines(const Sees& sees, const std::string& machine) const;
  // In order of queue, machine and node.
  std::vector<QueueView> Queues(const QueueQuery& query) const;
  std::vector<std::string> Namespaces() const;
  // The rest of an overview. Those with the most time spent first; troubles as they are found.
  MinuteTallies LastHour(const Sees& sees, const std::string& machine) const;
  std::vector<SlowNodeView> SlowNodes(const Sees& sees, const std::string& machine,
                                      size_t most) const;
  std::vector<TroubleView> Troubles(const std::string& ns, const std::string& machine,
                                    const std::vector<QueueView>& queues) const;
  // NO_SUCH_MACHINE, NO_SUCH_NODE.
  Result<Histogram> Durations(const std::string& ns, const std::string& machine, uint32_t version,
                              const std::string& node);
  // Calls `visit` with each version that has a machine's counts.
  void VisitVersions(const std::string& ns,
                     const std::function<void(const CountedVersion&)>& visit) const;
  // The ids of those that wait for the instance `id`, ascending.
  std::vector<std::string> FollowersOf(const std::string& ns, const std::string& id) const {
    return followers_.Of(ns, id);
  }
  // The machines that have a token that is held, ascending; nullopt: they have more than `most`
  // instances in all.
  std::optional<std::vector<std::string>> Holding(const std::string& ns, uint64_t most) const;
  // The input of a plan's step with its references replaced; nullopt: there is no such step, or
  // they lead to nothing yet.
  std::optional<std::string> InputOf(const std::string& ns, const std::string& id,
                                     const std::string& path);
  // Since when the oldest of a queue is ready; nullopt: nothing is. `reads`: how often rows may be
  // looked up for it; 0: what is not in memory counts as it was queued.
  static constexpr size_t kReadsOfCopy = 200;
  std::optional<Timestamp> OldestOf(const Agenda::Queue* queue, size_t* reads = nullptr) const;
  Workers& workers() const { return workers_; }
  Room room() const { return turn_.room(); }
  uint64_t feed_start() const { return turn_.feed_start(); }
  uint64_t last_seq() const { return turn_.last_seq(); }
  Timestamp now() const { return turn_.now(); }

  // Counts ready tokens that nobody may have, because their instance does not run.
  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  void BeginPass() override;

 private:
  class QueueRows;

  static std::optional<Duration> TimeoutOf(const MachineState& machine, const std::string& node,
                                           const Latency& latency);
  void NoteStops(const Change& change);
  void NoteHeld(const Resident& resident, const Token& token);
  void NoteWaiting(const Resident& resident, const Token& token);
  bool StillReady(const std::string& ns, const ReadyEntry& entry, size_t* reads) const;

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Agenda& agenda_;
  const Followers& followers_;
  Values& values_;
  Workers& workers_;
  const PackageTable& packages_;
  Timestamp begun_ = kNever;  // the first pass: since then it is known who asks for work
};

}  // namespace dfsmr
