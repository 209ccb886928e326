// The counters of versions and nodes, and what latencies learn. Kept in memory; rows of them are
// written every few seconds, and the records since then are counted again at start.
#pragma once

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {

class Statistics {
 public:
  Statistics(OpenTurn& turn, Catalog& catalog, const EngineOptions& options)
      : turn_(turn), catalog_(catalog), every_(options.stats_every) {}

  // Reads the rows, and the records of the feed that they do not account for. Call it once all
  // definitions are there.
  Result<Ok> Recover();

  // Puts a record into the feed, and learns from it. `version`: of its instance; null: not known.
  void Record(Event* event, VersionState* version);

  // Adds what an instance as a whole contributes to the counters, or with -1 takes it away.
  static void CountState(VersionState& version, InstanceState state, int64_t by);
  static void CountToken(const Graph& graph, const Token& token, int64_t by);
  // What the touched tokens of an instance contribute, before and now.
  static void CountTokens(const Instance& instance, const Graph& before, const Graph& now);

  // The latency of one of its nodes has learned something.
  void Changed(MachineState& machine) { unsaved_.insert(&machine); }
  // A stopped instance of the version is no more. The feed does not tell, so a row of this turn
  // does.
  void NoteDropped(VersionState& version);

  // Writes the rows of what has changed.
  void Save();
  // The last record that the rows account for.
  uint64_t saved_seq() const { return saved_seq_; }
  // When Save should be called; kNever when nothing has changed.
  Timestamp Due() const { return unsaved_.empty() ? kNever : due_; }
  // At the end of a turn: what was dropped in it.
  void Stage();

 private:
  void Learn(const Event& event, VersionState* version);

  OpenTurn& turn_;
  Catalog& catalog_;
  const Duration every_;
  MachineSet unsaved_;  // counters or latencies changed since the last Save
  MachineSet dropped_from_;
  uint64_t saved_seq_ = 0;
  Timestamp due_;
};

}  // namespace dfsmr
