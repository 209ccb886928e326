#include "dsrv/engine/troubles.h"

#include <algorithm>
#include <map>

#include "dsrv/engine/counted_nodes.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/workers.h"

namespace dfsmr {
namespace {

using Kind = TroubleView::Kind;

constexpr size_t kErrorsShown = 5;
constexpr Duration kLong = std::chrono::minutes(1);
constexpr Duration kSilent = std::chrono::hours(1);
constexpr std::string_view kSuspendedNode = "/suspended";
constexpr int kTimesP95 = 10;
constexpr uint64_t kClaims = 20;  // of a minute, so that a share of them says something
constexpr double kRetries = 0.2;

// The step without the nodes beside it, and the numbers that a for_each has given below it.
std::string StepOf(const std::string& node) { return node.substr(0, node.find('/')); }

// Whether only a person lets what waits at the node go on.
bool WaitsForPerson(const VersionState& version, const std::string& name) {
  if (name.ends_with(kSuspendedNode)) return true;
  const Machine* nodes = NodesOf(version);
  const NodeIndex node = nodes ? nodes->Find(name) : kNoNode;
  return node != kNoNode && nodes->nodes[node].kind == NodeKind::kManual;
}

bool ClaimsAtMostOnce(const VersionState& version) {
  const Machine* nodes = NodesOf(version);
  return !nodes || std::ranges::any_of(version.nodes, [nodes](const auto& entry) {
    if (entry.second.claimed == 0) return false;
    const NodeIndex node = nodes->Find(entry.first);
    return node == kNoNode || nodes->nodes[node].AtMostOnce();
  });
}

std::string FilterOf(const MachineState& machine, const std::string& node, bool plan) {
  std::string filter = "machine:" + machine.id;
  if (node.empty()) return filter;
  if (!plan) return filter + " node:" + node;
  const std::string top = node.substr(0, node.find_first_of("./"));
  return filter + " node:" + top + "," + top + ".*";
}

// What stands at a step and does not go on.
struct Standing {
  uint64_t count = 0;
  Timestamp since = kNever;
  bool plan = false;
};

class Finder {
 public:
  Finder(const MachineState& machine, Timestamp now, std::vector<TroubleView>* out)
      : machine_(machine), now_(now), out_(out) {}

  void FindHeld() {
    std::map<std::string, Standing> held;
    for (const auto& [number, version] : machine_.versions) {
      for (const auto& [name, node] : version.nodes) {
        if (node.held == 0) continue;
        Standing& one = held[StepOf(name)];
        one.count += node.held;
        one.since = std::min(one.since, node.held_since);
        one.plan = version.plan != nullptr || number == 0;
      }
    }
    for (const auto& [name, one] : held) {
      TroubleView& trouble = Add(Kind::kHeld, name, one.count, one.since);
      trouble.filter = FilterOf(machine_, name, one.plan) + " is:held";
      const auto errors = machine_.held.find(name);
      if (errors != machine_.held.end()) {
        trouble.errors = errors->second.Commonest(now_, kErrorsShown);
      }
    }
  }

  void FindFailing() {
    uint64_t failed = 0;
    Timestamp first = now_;
    if (!machine_.minutes) return;
    machine_.minutes->ForEach(now_, [&](Timestamp minute, const MinuteCounts& counts) {
      if (counts.failed == 0) return;
      failed += counts.failed;
      first = std::min(first, minute);
    });
    if (failed == 0) return;
    TroubleView& trouble = Add(Kind::kFailing, "", failed, first);
    trouble.errors = machine_.failures.Commonest(now_, kErrorsShown);
    trouble.filter = FilterOf(machine_, "", false) + " result:error ended:-1h..";
  }

  void FindWaiting(const QueueView& queue, Timestamp begun) {
    if (queue.ready == 0 || !queue.oldest_ready || *queue.oldest_ready < kLong) return;
    const bool asked = queue.asking > 0 || (queue.asked_time && now_ - *queue.asked_time < kLong);
    const auto latency = machine_.latencies.find(queue.node);
    if (!asked && now_ - begun < kLong) return;  // it is not known yet
    if (asked) {
      if (latency == machine_.latencies.end()) return;
      const auto p95 = latency->second.Quantile(95);
      if (!p95 || *queue.oldest_ready <= *p95 * kTimesP95) return;
    }
    TroubleView& trouble = Add(asked ? Kind::kBacklog : Kind::kUnserved, queue.node, queue.ready,
                               now_ - *queue.oldest_ready);
    trouble.queue = queue.queue;
    const bool plan = std::ranges::any_of(
        machine_.versions, [](const auto& one) { return one.second.plan != nullptr; });
    trouble.filter = FilterOf(machine_, queue.node, plan) + " is:ready";
  }

  void FindRetrying() {
    const Breaker& breaker = machine_.breaker;
    if (breaker.state() != Breaker::State::kClosed && !breaker.Follows()) {
      TroubleView& trouble = Add(Kind::kBreaker, "", 1, now_);
      trouble.filter = FilterOf(machine_, "", false);
    }
    uint64_t claims = 0;
    for (const auto& [number, version] : machine_.versions) {
      for (const auto& [name, node] : version.nodes) {
        if (!node.pulse) continue;
        node.pulse->claims.ForEach(now_, [&](Timestamp, uint32_t count) { claims += count; });
      }
    }
    if (claims < kClaims || breaker.RetryShareHere(now_) <= kRetries) return;
    const double retries = breaker.RetryShareHere(now_) * static_cast<double>(claims);
    TroubleView& trouble = Add(Kind::kRetrying, "", static_cast<uint64_t>(retries), now_ - kLong);
    trouble.filter = FilterOf(machine_, "", false) + " is:retried";
  }

  // Work that is done at most once and is nobody's any more: only a report or a person ends it.
  void FindUnreported(const Residents& residents, const Workers& workers) {
    const bool any = std::ranges::any_of(
        machine_.versions, [](const auto& one) { return ClaimsAtMostOnce(one.second); });
    if (!any) return;
    std::map<std::string, Standing> silent;
    residents.ForEach([&](const Resident& resident) {
      const Instance& instance = resident.instance;
      if (resident.version->machine != &machine_ || instance.dry_run) return;
      if (instance.tokens.Count(TokenState::kClaimed) == 0) return;
      for (const Token& token : instance.tokens) {
        if (token.state != TokenState::kClaimed) continue;
        const Node& node = resident.machine().nodes[token.node];
        if (!node.AtMostOnce()) continue;
        const bool heard = std::ranges::any_of(token.claims, [&](const Claim& claim) {
          const Timestamp seen = workers.Heard(instance.ns, claim.worker);
          return claim.Live() && now_ - std::max(claim.claim_time, seen) <= kSilent;
        });
        if (heard || token.claims.empty()) continue;
        Standing& one = silent[StepOf(StatsName(*resident.version, node.id))];
        ++one.count;
        one.since = std::min(one.since, token.claims.back().claim_time);
        one.plan = static_cast<bool>(instance.plan);
      }
    });
    for (const auto& [name, one] : silent) {
      TroubleView& trouble = Add(Kind::kUnreported, name, one.count, one.since);
      trouble.filter = FilterOf(machine_, name, one.plan) + " is:claimed";
    }
  }

  void FindPerson(Timestamp begun) {
    std::map<std::string, Standing> waiting;
    for (const auto& [number, version] : machine_.versions) {
      for (const auto& [name, node] : version.nodes) {
        if (node.waiting == 0 || !WaitsForPerson(version, name)) continue;
        Standing& one = waiting[StepOf(name)];
        one.count += node.waiting;
        one.since = std::min(one.since, std::max(node.person_since, begun));
        one.plan = version.plan != nullptr || number == 0;
      }
    }
    for (const auto& [name, one] : waiting) {
      if (now_ - one.since <= kSilent) continue;
      TroubleView& trouble = Add(Kind::kPerson, name, one.count, one.since);
      const char* const is = one.plan ? " is:suspended" : " is:waiting";
      trouble.filter = FilterOf(machine_, name, one.plan) + is;
    }
  }

  // A timeout that would be longer if it might.
  void FindAtMaximum() {
    if (machine_.versions.empty()) return;
    const VersionState& version = machine_.versions.rbegin()->second;
    const Machine* nodes = NodesOf(version);
    if (!nodes) return;
    for (const Node& node : nodes->nodes) {
      if (node.kind != NodeKind::kWork) continue;
      const TimeoutPolicy& policy = node.settings->timeout;
      if (policy.strategy != TimeoutPolicy::Strategy::kPercentile || policy.AtMostOnce()) continue;
      const std::string name = StatsName(version, node.id);
      const auto latency = machine_.latencies.find(name);
      if (latency == machine_.latencies.end() || latency->second.Samples() < Latency::kEnough) {
        continue;
      }
      if (latency->second.told()) continue;  // home says so, once for all partitions
      const auto timeout = latency->second.Timeout(policy, /*retry=*/false);
      if (!timeout || *timeout < policy.max) continue;
      TroubleView& trouble = Add(Kind::kAtMaximum, name, latency->second.Samples(), now_);
      trouble.filter = FilterOf(machine_, name, version.plan != nullptr);
    }
  }

 private:
  TroubleView& Add(Kind kind, const std::string& node, uint64_t count, Timestamp since) {
    TroubleView& trouble = out_->emplace_back();
    trouble.kind = kind;
    trouble.machine = machine_.id;
    trouble.node = node;
    trouble.count = count;
    trouble.since = since;
    return trouble;
  }

  const MachineState& machine_;
  const Timestamp now_;
  std::vector<TroubleView>* const out_;
};

}  // namespace

void FindTroubles(const MachineState& machine, const TroubleSources& sources,
                  std::vector<TroubleView>* out) {
  Finder finder(machine, sources.now, out);
  finder.FindHeld();
  finder.FindFailing();
  for (const QueueView& queue : sources.queues) {
    if (queue.machine == machine.id) finder.FindWaiting(queue, sources.begun);
  }
  finder.FindRetrying();
  finder.FindUnreported(sources.residents, sources.workers);
  finder.FindPerson(sources.begun);
  finder.FindAtMaximum();
}

}  // namespace dfsmr
