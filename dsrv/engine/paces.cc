#include "dsrv/engine/paces.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/counted_nodes.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr size_t kSamplesInOne = 8'192;  // of a message
constexpr size_t kPacesInOne = 2'000;
constexpr size_t kFewSamples = 1'000;  // of so few each more is told of
constexpr double kMoves = 0.01;        // of more only that a percentile has moved by so much

uint64_t ClaimedAt(const MachineState& machine, const std::string& node) {
  uint64_t claimed = 0;
  for (const auto& [number, version] : machine.versions) {
    const auto found = version.nodes.find(node);
    if (found != version.nodes.end()) claimed += found->second.claimed;
  }
  return claimed;
}

// Those that people are shown, and those by which versions of the node time out.
std::vector<double> PercentsOf(const MachineState& machine, const std::string& node) {
  std::vector<double> percents{50, 90, 95, 99};
  for (const auto& [number, version] : machine.versions) {
    const Machine* const nodes = NodesOf(version);
    const NodeIndex found = nodes ? nodes->Find(node) : kNoNode;
    if (found == kNoNode) continue;
    const TimeoutPolicy& policy = nodes->nodes[found].settings->timeout;
      const bool learned = policy.strategy == TimeoutPolicy::Strategy::kPercentile;
    if (learned && !policy.AtMostOnce()) percents.push_back(policy.value);
  }
  std::ranges::sort(percents);
  const auto same = std::ranges::unique(percents);
  percents.erase(same.begin(), same.end());
  return percents;
}

bool Moves(Duration before, Duration now) {
  const auto of = [](Duration one) { return static_cast<double>(one.count()); };
  return std::abs(of(now) - of(before)) > kMoves * of(before);
}

bool Matters(const Pace& before, const Pace& now) {
  if (std::min(before.samples, before.retries) < kFewSamples) return before != now;
  return !std::ranges::equal(before.at, now.at, [](const Pace::At& a, const Pace::At& b) {
    return a.percent == b.percent && !Moves(a.first, b.first) && !Moves(a.retry, b.retry);
  });
}

}  // namespace

bool Paces::Elsewhere() const { return !turn_.at_home(); }

bool Paces::TellsOthers() const { return options_.partitions > 1 && turn_.at_home(); }

void Paces::Add(MachineState& machine) {
  if (options_.partitions == 1) return;
  for (auto& [node, latency] : machine.latencies) {
    Elsewhere() ? AddSamples(machine, node, latency) : AddPace(machine, node, latency);
  }
}

void Paces::AddSamples(MachineState& machine, const std::string& node, Latency& latency) {
  auto samples = latency.TakeUntold();
  if (samples.empty()) return;
  samples_ += samples.size();
  learned_.nodes.push_back(
      {machine.ns, machine.id, node, ClaimedAt(machine, node), std::move(samples)});
  if (samples_ >= kSamplesInOne) Tell();
}

void Paces::AddPace(MachineState& machine, const std::string& node, const Latency& latency) {
  Told& told = told_[&machine][node];
  if (told.changes == latency.Changes()) return;
  Pace pace = latency.PaceAt(PercentsOf(machine, node));
  pace.under_way = ClaimedAt(machine, node);
  for (const auto& [partition, claimed] : told.under_way) pace.under_way += claimed;
  if (!Matters(told.pace, pace)) return;
  told.changes = latency.Changes();
  told.pace = pace;
  paced_.nodes.push_back({machine.ns, machine.id, node, std::move(pace)});
  if (paced_.nodes.size() >= kPacesInOne) Tell();
}

void Paces::Tell() {
  if (!learned_.nodes.empty()) {
    /*mutant message-samples-lost*/ messages_.Send(kHome, {std::move(learned_)}); /*end*/
  }
  learned_ = {};
  samples_ = 0;
  if (paced_.nodes.empty()) return;
  for (PartitionId id = 0; id < options_.partitions; ++id) {
    /*mutant message-pace-lost*/ if (id != options_.partition)
      messages_.Send(id, {paced_}); /*end*/
  }
  paced_ = {};
}

void Paces::Forget(const MachineState& machine) { told_.erase(&machine); }

std::vector<MachineState*> Paces::Take(PartitionId from, const rows::Message::Learned& learned) {
  std::vector<MachineState*> machines;
  for (const auto& one : learned.nodes) {
    MachineState* const machine = catalog_.Find(one.ns, one.machine);
    if (!machine) continue;  // it is gone
    Latency& latency = machine->LatencyOf(one.node);
    for (const Latency::Sample& sample : one.samples) {
      /*mutant message-samples-not-learned*/ latency.Learn(sample, turn_.now()); /*end*/
    }
    auto& under_way = told_[machine][one.node].under_way;
    under_way[from] = one.under_way;
    size_t elsewhere = 0;
    for (const auto& [partition, claimed] : under_way) elsewhere += claimed;
    latency.SetUnderWayElsewhere(elsewhere);
    machines.push_back(machine);
  }
  return machines;
}

std::vector<MachineState*> Paces::Take(const rows::Message::Paced& paced) {
  std::vector<MachineState*> machines;
  for (const auto& one : paced.nodes) {
    MachineState* const machine = catalog_.Find(one.ns, one.machine);
    if (!machine) continue;  // it is gone, or to come: then its first attempt brings its pace
    /*mutant message-pace-not-taken*/ machine->LatencyOf(one.node).Tell(one.pace); /*end*/
    machines.push_back(machine);
  }
  return machines;
}

}  // namespace dfsmr
