// What is counted of machines and nodes for those who scrape the server: since it was started, over
// all versions, without dry runs. Records are counted as they are added to the feed, so a copy that
// is handed on after the commit of its turn has counted nothing that could be lost.
//
// Each node has numbers of its own until there are as many as the server was told to show; the
// nodes that come later share one "_other" of their namespace. So neither memory nor a copy grows
// without bound, and no series ever changes its place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/measured.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "fsm/rules/instance.h"
#include "fsm/rules/tokens.h"

namespace dfsmr {

class Measures {
 public:
  Measures(const OpenTurn& turn, const Catalog& catalog, const EngineOptions& options)
      : turn_(turn), catalog_(catalog), most_(options.metrics_series) {}
  Measures(const Measures&) = delete;
  Measures& operator=(const Measures&) = delete;

  // A record that was added to the feed, of an instance that is no dry run. `left`: the node that a
  // transition or a timeout is of; null: it is not known.
  void Record(const Event& event, VersionState& version, NodeState* left);
  void BreakerOpened(MachineState& machine) { ++CountsOf(machine).breaker_opens; }
  // A task of `node` was handed out. Call it before the token has the claim.
  void HandedOut(VersionState& version, const std::string& node, NodeState& state,
                 const Token& token);
  // An occurrence was listed, or has got another outcome. `delay` absent: it was due at no time.
  void Occurred(const std::string& ns, const std::string& source, std::string_view outcome,
                std::optional<Duration> delay);
  // The machine goes, with its namespace.
  void Forget(const MachineState& machine);
  // The namespace is deleted, and its machines are gone: another one may get its name.
  void Forget(const std::string& ns);
  void ChangedInBulk(std::string_view action, std::string_view outcome);

  // Since when the oldest of a queue is ready; nullopt: nothing is.
  using OldestOf = std::function<std::optional<Timestamp>(const Agenda::Queue*)>;
  // All of it, and how things stand now. Machines are in the order of namespace and id. It costs as
  // much as there are nodes: some tenths of a microsecond for each (tests/bench).
  Measured Copy(const Agenda& agenda, const PackageTable& packages, const OldestOf& oldest_of);

 private:
  class Copying;  // measures_copy.cc

  // What a machine or a node counts in: its own, or the namespace's other.
  MachineMeasures& PlaceOf(MachineState& machine);
  MachineCounts& CountsOf(MachineState& machine) { return PlaceOf(machine).counts; }
  NodeMeasures& Of(MachineState& machine, const std::string& name);
  NodeMeasures& Of(VersionState& version, const std::string& name, NodeState& state) {
    if (!state.measures) state.measures = &Of(*version.machine, name);
    return *state.measures;
  }
  NodeMeasures& Of(VersionState& version, const std::string& node);
  void CountClaimLoss(const Event& event, VersionState& version);

  const OpenTurn& turn_;
  const Catalog& catalog_;
  const size_t most_;
  size_t nodes_ = 0;  // that have numbers of their own
  // Those that have none, by namespace: hashes.
  std::map<std::string, std::unordered_set<size_t>> folded_;
  std::map<std::string, MachineMeasures> others_;  // by namespace; their one node is kOtherSeries
  NodeMeasures around_;  // of what plans have around their steps, which nobody is shown
  std::map<std::pair<std::string, std::string>, uint64_t> bulks_;
  std::map<std::array<std::string, 3>, uint64_t> occurrences_;
  Spread<kOwnEdges> occurrence_delay_;
};

}  // namespace dfsmr
