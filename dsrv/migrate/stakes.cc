#include "dsrv/migrate/stakes.h"

#include <optional>
#include <vector>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/limit_holders.h"
#include "dsrv/engine/resident.h"
#include "fsm/plan/assemble.h"
#include "fsm/when/limit.h"
#include "fsm/when/schedule.h"
#include "fsm/when/trigger.h"
#include "storage/place.h"
#include "storage/rows/document.h"
#include "storage/rows/graph.h"
#include "storage/rows/guest.h"
#include "storage/rows/limit.h"

namespace dfsmr {
namespace {

using Stake = rows::Message::Stake;

Stake NewStake(const Instance& instance, uint64_t visit, const std::vector<LimitKey>& keys,
               uint64_t order, Timestamp since) {
  Stake stake{.ns = instance.ns, .instance = instance.id, .visit = visit};
  stake.priority = instance.priority;
  stake.order = order;
  stake.since = since;
  for (const LimitKey& key : keys) stake.asks.push_back({key.key, key.numbers});
  return stake;
}

// Of a schedule or trigger; else nothing overlaps.
Overlap OverlapOf(const DocumentBody& body) {
  const auto* schedule = std::get_if<std::shared_ptr<const ScheduleSource>>(&body);
  const auto* trigger = std::get_if<std::shared_ptr<const TriggerSource>>(&body);
  const LaunchSource* launch =
      schedule ? &(*schedule)->launch : trigger ? &(*trigger)->launch : nullptr;
  return launch ? launch->overlap : Overlap::kAllow;
}

// As the engine has it (limits.cc) of an instance as a whole, and of one of its tokens. nullopt: it
// has nothing.
std::optional<Stake> StakeOf(const Instance& instance) {
  const auto& limits = instance.limits;
  if (!limits || limits->keys.empty()) return std::nullopt;
  Stake stake = NewStake(instance, 0, limits->keys, limits->order, limits->since);
  stake.forced = limits->force;
  if (!instance.Begun() && instance.provenance) stake.group = instance.provenance->group;
  if (limits->state == InstanceLimits::State::kHolds && Runs(instance.state)) {
    stake.kind = Stake::Kind::kHolds;
  } else if (limits->state == InstanceLimits::State::kWaits) {
    stake.kind = instance.waits.ForTurn() ? Stake::Kind::kWaits : Stake::Kind::kPaused;
  } else {
    return std::nullopt;
  }
  return stake;
}

std::optional<Stake> StakeOf(const Instance& instance, const Token& token) {
  const auto& limits = token.limits;
  if (!limits || limits->keys.empty()) return std::nullopt;
  Stake stake = NewStake(instance, token.visit, limits->keys, limits->order, limits->since);
  const bool runs = Runs(instance.state);
  if (limits->state == TokenLimits::State::kWaits) {
    stake.kind = runs ? Stake::Kind::kWaits : Stake::Kind::kPaused;
  } else if (runs) {
    stake.kind = Stake::Kind::kHolds;
  } else {
    return std::nullopt;
  }
  return stake;
}

}  // namespace

Result<Ok> Stakes::Begin(const Parse& parse) {
  std::map<Key, LimitNumbers> numbers;
  struct Named {
    std::string ns;
    DocumentKind kind;
    std::string name;
    uint32_t version;
  };
  std::vector<Named> documents;
  auto read = rows::ScanAllDocuments(
      source_, [&](const rows::DocumentName& name, const rows::DocumentHead& head) {
        if (head.deleted) return;
        documents.push_back(
            {std::string(name.ns), name.kind, std::string(name.name), head.version});
      });
  if (!read) return read;
  for (const auto& [ns, kind, name, version] : documents) {
    auto text = rows::GetDocumentText(source_, {ns, kind, name}, version);
    if (!text) return text.error();
    if (!*text) continue;
    auto document = parse((*text)->source);
    if (!document) return document.error();
    if (const auto* limit = std::get_if<std::shared_ptr<const LimitSource>>(&document->body)) {
      const LimitSource& source = **limit;
      if (BuiltInOf(source.root) != BuiltIn::kNone) numbers[{ns, source.root}] = source.numbers;
    } else if (OverlapOf(document->body) != Overlap::kAllow) {
      counted_[{ns, CauseOf(kind, name)}] = false;
    }
  }
  read = rows::ScanLimitOverrides(
      source_, [&](std::string_view ns, std::string_view key, const rows::LimitOverride& set) {
        if (BuiltInOf(key) == BuiltIn::kNone) return;
        LimitNumbers& one = numbers[{std::string(ns), std::string(key)}];
        if (set.max || set.no_max) one.max = set.no_max ? std::nullopt : set.max;
        if (set.rate || set.no_rate) one.rate = set.no_rate ? std::nullopt : set.rate;
      });
  if (!read) return read;
  for (const auto& [key, one] : numbers) {
    if (!one.max && !one.rate) continue;
    counted_[key] = true;
    tasks_ = tasks_ || IsTask(BuiltInOf(key.second));
  }
  return Ok{};
}

void Stakes::Count(const std::string& ns, const std::string& key, PartitionId place, int64_t by) {
  if (counted_.contains({ns, key})) held_[{ns, key}][place] += by;
}

Result<Ok> Stakes::Take(const rows::Resting& resting, PartitionId place) {
  if (place == kHome || counted_.empty() || !Runs(resting.state)) return Ok{};
  const std::string ns(resting.ns);
  Count(ns, "namespace:" + ns, place, +1);
  Count(ns, "machine:" + std::string(resting.machine), place, +1);
  return Ok{};
}

Result<Ok> Stakes::Take(const Instance& instance, PartitionId place) {
  if (place == kHome) return Ok{};
  if (!counted_.empty() && Runs(instance.state) && !instance.dry_run) {
    ForEachBuiltIn(instance,
                   [&](const std::string& key) { Count(instance.ns, key, place, +1); });
    if (auto counted = CountTasks(instance, place); !counted) return counted;
  }
  if (auto stake = StakeOf(instance)) {
    for (const LimitAsk& ask : stake->asks) {
      if (stake->kind == Stake::Kind::kHolds) Count(instance.ns, ask.key, place, -1);
    }
    PutStake(*std::move(stake), place);
  }
  for (const Token& token : instance.tokens) {
    if (auto stake = StakeOf(instance, token)) PutStake(*std::move(stake), place);
  }
  return Ok{};
}

// Later ones have numbers that begin with their owner's epoch, which are larger.
void Stakes::PutStake(Stake stake, PartitionId place) {
  Batch batch;
  stake.ask = ++told_;
  rows::PutTold({batch, place}, {stake.ns, stake.instance, stake.visit, stake.ask});
  rows::PutGuest({batch, kHome}, stake);
  put_(batch);
}

// Those in hand, of queues and actions.
Result<Ok> Stakes::CountTasks(const Instance& instance, PartitionId place) {
  if (!tasks_ || instance.tokens.Count(TokenState::kClaimed) == 0) return Ok{};
  auto nodes = NodesOf(instance);
  if (!nodes) return nodes.error();
  for (const Token& token : instance.tokens) {
    if (token.state != TokenState::kClaimed || token.node >= (*nodes)->nodes.size()) continue;
    const NodeSettings& settings = *(*nodes)->nodes[token.node].settings;
    Count(instance.ns, "queue:" + settings.queue, place, +1);
    Count(instance.ns, "action:" + settings.action, place, +1);
  }
  return Ok{};
}

Result<std::shared_ptr<const Machine>> Stakes::NodesOf(const Instance& instance) {
  if (!instance.plan || instance.plan->graph.empty()) {
    const Machine* machine = resolve_(instance.ns, instance.machine, instance.version);
    if (!machine) return std::make_shared<const Machine>();
    return std::shared_ptr<const Machine>(std::shared_ptr<const Machine>(), machine);
  }
  const Key name{instance.ns, instance.plan->graph};
  const bool shared = !instance.plan->OwnsGraph();
  if (shared && nodes_.second && nodes_.first == name) return nodes_.second;
  auto graph = rows::GetGraph(source_, instance);
  if (!graph) return graph.error();
  Machine machine;
  machine.id = instance.machine;
  auto nodes = std::make_shared<const Machine>(
      Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), std::move(machine)));
  if (shared) nodes_ = {name, nodes};
  return nodes;
}

void Stakes::Finish() {
  Batch batch;
  for (const auto& [key, has_number] : counted_) {
    const auto& [ns, name] = key;
    rows::CountedRow at_home{.ns = ns, .key = name, .partition = kHome};
    at_home.counts = has_number;
    at_home.followed = !has_number;
    const bool task = IsTask(BuiltInOf(name));
    for (PartitionId id = 1; id < partitions_; ++id) {
      rows::CountedRow there = at_home;
      there.partition = id;
      there.held = held_[key][id];
      rows::PutCounted({batch, id}, there);
      if (!task) at_home.held += there.held;
      there.counts = false;
      if (task) rows::PutCounted({batch, kHome}, there);
    }
    rows::PutCounted({batch, kHome}, at_home);
  }
  put_(batch);
}

}  // namespace dfsmr
