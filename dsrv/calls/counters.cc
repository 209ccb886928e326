#include "dsrv/calls/counters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "dsrv/engine/survey.h"

namespace dfsmr {
namespace {

// What all instances have in common that a counter counts.
class CountedFacts : public FilterFacts {
 public:
  CountedFacts(std::string_view machine, uint32_t version, std::string_view state,
               std::string_view node = "", std::string_view property = "")
      : machine_(machine), version_(version), state_(state), node_(node), property_(property) {}

  bool AnyText(FilterKey key, const std::string&, const Visit& visit) const override {
    if (key == FilterKey::kMachine) return visit(machine_);
    if (key == FilterKey::kState) return visit(state_);
    return visit(key == FilterKey::kNode ? node_ : property_);
  }
  double Number(FilterKey) const override { return version_; }
  std::optional<Timestamp> Time(FilterKey) const override { return std::nullopt; }

 private:
  const std::string_view machine_;
  const uint32_t version_;
  const std::string_view state_;
  const std::string_view node_;
  const std::string_view property_;
};

constexpr std::string_view kCountedIs[] = {"ready", "claimed", "waiting", "held"};
constexpr std::string_view kSystemNodes[] = {"dfsmr.cancelled", "dfsmr.aborted", "dfsmr.timeout",
                                             "dfsmr.upgraded"};

class CounterSum {
 public:
  CounterSum(const InstanceFilter& filter, v1::CountInstancesRequest::By by)
      : filter_(filter), by_(by) {
    for (const FilterTerm& term : filter.terms()) Look(term);
    if (by == v1::CountInstancesRequest::RESULT) able_ = false;
    if (by == v1::CountInstancesRequest::NODE) nodes_ = true;
    if (by == v1::CountInstancesRequest::STATE && nodes_) able_ = false;
    // Instances without a token are not counted by nodes, and a token is in one state only.
    if (nodes_ && (states_ || !(positive_is_ || positive_node_))) able_ = false;
  }

  bool able() const { return able_; }
  v1::CountInstancesResponse& out() { return out_; }

  void Add(const CountedVersion& version) {
    if (!able_) return;
    nodes_ ? AddNodes(version) : AddStates(version);
  }

 private:
  void Look(const FilterTerm& term) {
    if (term.key == FilterKey::kMachine || term.key == FilterKey::kVersion) return;
    if (term.key == FilterKey::kState) {
      states_ = true;
    } else if (term.key == FilterKey::kNode) {
      nodes_ = true;
      positive_node_ = positive_node_ || !term.negated;
    } else if (term.key == FilterKey::kIs) {
      nodes_ = true;
      positive_is_ = positive_is_ || !term.negated;
      able_ = able_ && std::ranges::all_of(term.texts, [](const TextPattern& one) {
                return std::ranges::find(kCountedIs, one.text) != std::end(kCountedIs);
              });
    } else {
      able_ = false;
    }
  }

  void AddStates(const CountedVersion& version) {
    const auto holds = [&](std::string_view state) {
      return filter_.Matches(CountedFacts(version.machine, version.version, state));
    };
    if (holds("SCHEDULED")) Put(version, "SCHEDULED", version.scheduled);
    if (holds("PLANNING")) Put(version, "PLANNING", version.planning);
    if (holds("RUNNING")) Put(version, "RUNNING", version.running);
    if (holds("PAUSED")) Put(version, "PAUSED", version.paused);
    if (holds("STOPPED")) Put(version, "STOPPED", version.stopped);
  }

  // Of plain machines: each instance that runs or is paused has one token.
  void AddNodes(const CountedVersion& version) {
    const auto holds = [&](std::string_view node, std::string_view property) {
      return filter_.Matches(CountedFacts(version.machine, version.version, "", node, property));
    };
    const auto any_ends_at = [&](std::string_view node) {
      return !positive_is_ && version.stopped > 0 && holds(node, "");
    };
    if (!version.nodes) {
      // A plan's instance has many tokens: no counter says on how many nodes it stands.
      const bool asked = filter_.empty() || AsksFor(version);
      if (asked && version.scheduled + version.planning + version.running + version.paused +
                      version.stopped >
                  0) {
        able_ = false;
      }
      return;
    }
    for (const Node& node : version.nodes->nodes) {
      if (node.kind == NodeKind::kFinal && any_ends_at(node.id)) able_ = false;
      const auto found = version.counts.find(node.id);
      if (found == version.counts.end()) continue;
      const NodeState& counts = found->second;
      // What is ready of a paused instance is not `ready`.
      const uint64_t idle = std::min(counts.ready, counts.idle);
      const std::pair<std::string_view, uint64_t> by_property[] = {{"ready", counts.ready - idle},
                                                                   {"claimed", counts.claimed},
                                                                   {"waiting", counts.waiting},
                                                                   {"held", counts.held},
                                                                   {"", idle}};
      for (const auto& [property, count] : by_property) {
        if (count > 0 && holds(node.id, property)) Put(version, node.id, count);
      }
    }
    for (std::string_view node : kSystemNodes) {
      if (any_ends_at(node)) able_ = false;
    }
  }

  // Whether the terms about machine and version let it through.
  bool AsksFor(const CountedVersion& version) const {
    const CountedFacts facts(version.machine, version.version, "");
    return std::ranges::all_of(filter_.terms(), [&](const FilterTerm& term) {
      const bool about = term.key == FilterKey::kMachine || term.key == FilterKey::kVersion;
      return !about || Holds(term, facts);
    });
  }

  void Put(const CountedVersion& version, const std::string& group, uint64_t count) {
    out_.set_total(out_.total() + count);
    if (count == 0 || by_ == v1::CountInstancesRequest::BY_UNSPECIFIED) return;
    const bool by_machine = by_ == v1::CountInstancesRequest::MACHINE;
    AddToGroup(by_machine ? version.machine : group, count, &out_);
  }

  const InstanceFilter& filter_;
  const v1::CountInstancesRequest::By by_;
  v1::CountInstancesResponse out_;
  bool able_ = true;
  bool states_ = false;
  bool nodes_ = false;
  bool positive_is_ = false;
  bool positive_node_ = false;
};

}  // namespace

std::optional<v1::CountInstancesResponse> CountByCounters(const Survey& survey,
                                                          const std::string& ns,
                                                          const InstanceFilter& filter,
                                                          v1::CountInstancesRequest::By by) {
  CounterSum counting(filter, by);
  if (!counting.able()) return std::nullopt;
  survey.VisitVersions(ns, [&](const CountedVersion& version) { counting.Add(version); });
  return counting.able() ? std::optional(std::move(counting.out())) : std::nullopt;
}

void NoteMachines(const Survey& survey, InstanceQuery* query) {
  constexpr uint64_t kFew = 2'000;  // instances, which are read one by one within some 50 ms
  const std::string* property = query->filter.Exact(FilterKey::kIs);
  if (!property || *property != "held" || query->dry_run) return;  // dry runs are not counted
  query->machines = survey.Holding(query->ns, kFew);
}

void AddToGroup(const std::string& group, uint64_t count, v1::CountInstancesResponse* out) {
  auto& groups = *out->mutable_groups();
  const bool full = groups.size() >= kGroupsShown && !groups.contains(group);
  groups[full ? "" : group] += count;
}

}  // namespace dfsmr
