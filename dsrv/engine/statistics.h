// The counters of versions and nodes, and the latencies of nodes. Kept in memory; their rows are
// written every few seconds, and the feed's records since then are counted again at start.
#pragma once

#include <cstdint>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/paces.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/rules/instance.h"
#include "fsm/rules/tokens.h"


namespace dfsmr {

// What a record of an instance's end says.
InstanceResult ResultOf(const Event& finished);

class Statistics {
 public:
  Statistics(OpenTurn& turn, Catalog& catalog, Measures& measures, Messages& messages,
             const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        measures_(measures),
        paces_(turn, catalog, messages, options),
        every_(options.stats_every) {}

  // Reads the rows, and the records of the feed that they do not account for. Call it when all
  // definitions are loaded.
  Result<Ok> Recover();

  // Appends a record to the feed, and learns from it. `version`: its instance's; null: unknown.
  void Record(Event* event, VersionState* version);

  // Adds (`by` 1) or takes away (-1) what an instance as a whole, or one token, counts for.
  static void CountState(VersionState& version, InstanceState state, int64_t by);
  // The same of a dry run, which nothing else counts.
  static void CountDryRun(VersionState& version, InstanceState state, int64_t by);
  static void CountToken(const Graph& graph, const Token& token, int64_t by);
  // Takes away what the touched tokens of an instance counted for, and adds what they count for
  // now.
  static void CountTokens(const Instance& instance, const Graph& before, const Graph& now);

  // The latency of one of the machine's nodes has changed.
  void Changed(MachineState& machine) { unsaved_.insert(&machine); }
  // Retention has dropped a stopped instance of the version. The feed has no record of that, so a
  // row of this turn says it. `result`: how it ended, which counts if the version is a package's.
  void NoteDropped(VersionState& version, InstanceResult result);

  // Of several partitions: home hears of attempts elsewhere, and the others of their pace.
  void Take(PartitionId from, const rows::Message::Learned& learned);
  void Take(const rows::Message::Paced& paced);

  // The machine is none any more.
  void Forget(MachineState& machine) {
    paces_.Forget(machine);
    unsaved_.erase(&machine);
    dropped_from_.erase(&machine);
  }
  // Writes the rows of the machines that have changed, and tells other partitions of them.
  void Save() { Save(/*tells=*/true); }
  // The same when the server ends: whoever waits for the store to be at rest sees no more messages.
  // What was learned since Save is told to nobody.
  void SaveInTheEnd() { Save(/*tells=*/false); }
  // The last record that the rows account for.
  uint64_t saved_seq() const { return saved_seq_; }
  // When Save should be called, in real time; kNever when nothing has changed.
  Timestamp Due() const { return unsaved_.empty() ? kNever : due_; }
  // At the end of a turn: writes how many instances were dropped in it.
  void Stage();

 private:
  void Save(bool tells);
  // Returns the node that the record tells of that a token left it, or timed out; null: none, or
  // it is not known.
  NodeState* Learn(const Event& event, VersionState* version);
  // Counts a record for people who look at the last hour.
  static void Note(const Event& event, MachineState& machine);

  OpenTurn& turn_;
  Catalog& catalog_;
  Measures& measures_;
  Paces paces_;
  const Duration every_;
  MachineSet unsaved_;  // counters or latencies changed since the last Save
  MachineSet dropped_from_;
  uint64_t saved_seq_ = 0;
  Timestamp due_;
};

}  // namespace dfsmr
