#include "dsrv/engine/measures.h"

#include <algorithm>

#include "dsrv/engine/statistics.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

// By how a record of a withdrawn claim says so.
constexpr std::string_view kNotBegun = "not begun";

// Of a node that stands for many: beyond these its transitions are one.
constexpr size_t kNamesOfOther = 64;

void CountTransition(const std::string& name, NodeMeasures* node) {
  auto& all = node->transitions;
  const auto find = [&all](std::string_view one) {
    return std::ranges::find_if(all, [one](const auto& known) { return known.first == one; });
  };
  auto known = find(name);
  const bool full = node->other && all.size() >= kNamesOfOther;
  if (known == all.end() && full) known = find(kOtherSeries);
  if (known != all.end()) {
    ++known->second;
  } else {
    all.emplace_back(full ? kOtherSeries : std::string_view(name), 1);
  }
}

static_assert(static_cast<size_t>(InstanceResult::kAborted) ==
              static_cast<size_t>(InstanceResult::kSuccess) + kResults - 1);

size_t IndexOf(InstanceResult result) {
  return static_cast<size_t>(result) - static_cast<size_t>(InstanceResult::kSuccess);
}

bool SaysError(const Event& report) {
  return report.answer && (!report.error_kind.empty() || report.answer->transition == "error");
}

}  // namespace

MachineMeasures& Measures::PlaceOf(MachineState& machine) {
  MachineMeasures& own = machine.measures;
  if (!own.known) {
    own.known = true;
    own.folded = nodes_ >= most_;
  }
  return own.folded ? others_[machine.ns] : own;
}

NodeMeasures& Measures::Of(MachineState& machine, const std::string& name) {
  if (name.empty() || name.front() == '/') return around_;
  MachineMeasures& place = PlaceOf(machine);
  if (!machine.measures.folded) {
    const auto known = place.nodes.find(name);
    if (known != place.nodes.end()) return *known->second;
    if (nodes_ < most_) {
      ++nodes_;
      return *(place.nodes[name] = std::make_unique<NodeMeasures>());
    }
  }
  folded_[machine.ns].insert(std::hash<std::string>()(machine.id + '\0' + name));
  std::unique_ptr<NodeMeasures>& other = others_[machine.ns].nodes[std::string(kOtherSeries)];
  if (!other) {
    other = std::make_unique<NodeMeasures>();
    other->other = true;
  }
  return *other;
}

NodeMeasures& Measures::Of(VersionState& version, const std::string& node) {
  const std::string name = StatsName(version, node);
  const auto known = version.nodes.find(name);
  return known != version.nodes.end() ? Of(version, name, known->second)
                                      : Of(*version.machine, name);
}

void Measures::Record(const Event& event, VersionState& version, NodeState* left) {
  const auto node = [&]() -> NodeMeasures& {
    return left && left->measures ? *left->measures : Of(version, event.prev_node);
  };
  switch (event.kind) {
    case ChangeKind::kTransitioned: {
      NodeMeasures& from = node();
      CountTransition(event.transition, &from);
      if (SaysError(event)) ++from.errors;
      break;
    }
    case ChangeKind::kClaimed:
      ++(event.attempt > 1 ? Of(version, event.node).retries
                           : Of(version, event.node).first_claims);
      break;
    case ChangeKind::kStarted:
      ++CountsOf(*version.machine).starts;
      break;
    case ChangeKind::kFinished:
      ++CountsOf(*version.machine).finishes[IndexOf(ResultOf(event))];
      break;
    case ChangeKind::kTimedOut:
      ++node().timeouts;
      break;
    case ChangeKind::kRelinquished:
    case ChangeKind::kRefused:
    case ChangeKind::kAbandoned:
      CountClaimLoss(event, version);
      break;
    default:
      if (SaysError(event)) ++node().errors;
      break;
  }
  for (const Event::Sample& sample : event.samples) {
    if (sample.censored) continue;
    NodeMeasures& worked = sample.node == event.prev_node ? node() : Of(version, sample.node);
    worked.task.Add(static_cast<uint64_t>(std::max(sample.took, Duration()).count()));
  }
}

void Measures::CountClaimLoss(const Event& event, VersionState& version) {
  if (event.kind == ChangeKind::kRefused) ++Of(version, event.node).refused;
  if (event.kind == ChangeKind::kAbandoned) ++Of(version, event.node).abandoned;
  if (event.kind == ChangeKind::kRelinquished && event.note == kNotBegun) {
    ++Of(version, event.node).unbegun;
  }
}

// A retry is ready since the attempt before it timed out, though it keeps its place in line.
void Measures::HandedOut(VersionState& version, const std::string& node, NodeState& state,
                         const Token& token) {
  Timestamp since = token.available_at;
  for (const Claim& claim : token.claims) {
    if (claim.timed_out) since = std::max(since, claim.deadline);
  }
  NodeMeasures& measures =
      state.measures ? *state.measures : Of(version, StatsName(version, node), state);
  measures.wait.Add(static_cast<uint64_t>(std::max(turn_.now() - since, Duration()).count()));
}

void Measures::Occurred(const std::string& ns, const std::string& source, std::string_view outcome,
                        std::optional<Duration> delay) {
  ++occurrences_[{ns, source, std::string(outcome)}];
  if (delay) occurrence_delay_.Add(static_cast<uint64_t>(std::max(*delay, Duration()).count()));
}

void Measures::Forget(const MachineState& machine) { nodes_ -= machine.measures.nodes.size(); }

void Measures::Forget(const std::string& ns) {
  others_.erase(ns);
  folded_.erase(ns);
  std::erase_if(occurrences_, [&ns](const auto& one) { return one.first[0] == ns; });
}

void Measures::ChangedInBulk(std::string_view action, std::string_view outcome) {
  ++bulks_[{std::string(action), std::string(outcome)}];
}

}  // namespace dfsmr
