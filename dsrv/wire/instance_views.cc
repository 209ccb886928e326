#include "dsrv/wire/instance_views.h"

#include <algorithm>

#include "dsrv/engine/package_version.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/graph.h"
#include "storage/rows/feed.h"
#include "storage/rows/graph.h"
#include "storage/rows/group.h"
#include "storage/rows/instance.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

// The name of the node that each token of the instance stands on.
Result<std::vector<std::string>> NodesOf(const Moment& moment, const Instance& instance) {
  std::vector<std::string> nodes;
  if (!instance.plan) {
    const Machine* machine =
        moment.registry.Resolve(instance.ns, instance.machine, instance.version);
    for (const Token& token : instance.tokens) {
      nodes.emplace_back(NodeName(*machine, token.node));
    }
    return nodes;
  }
  if (instance.Stopped()) {
    for (const Token& token : instance.tokens) {
      nodes.push_back(token.node == kElsewhere      ? instance.plan->ended_at
                      : token.node == kAbortedIndex ? std::string(kAbortedNode)
                                                    : std::string(kCancelledNode));
    }
    return nodes;
  }
  auto scanned = rows::ScanSteps(moment.rows, instance, [&nodes](const rows::StepRow& row) {
    if (row.token) nodes.push_back(row.node);
    return true;
  });
  if (!scanned) return scanned.error();
  Check(nodes.size() == instance.tokens.size(), "an instance and its steps are of one moment");
  return nodes;
}

// How many tries there are in all of the work of each token.
std::vector<uint32_t> TriesLimits(const Moment& moment, const Instance& instance) {
  std::vector<uint32_t> limits;
  const Machine* machine =
      instance.plan ? nullptr
                    : moment.registry.Resolve(instance.ns, instance.machine, instance.version);
  for (const Token& token : instance.tokens) limits.push_back(TriesLimitOf(machine, token));
  return limits;
}

// Whether it has not begun, and its group lets no member begin.
Result<bool> WaitsForGroup(const Moment& moment, const Instance& instance) {
  if (!instance.provenance || instance.provenance->group.empty() ||
      instance.state != InstanceState::kScheduled) {
    return false;
  }
  if (instance.waits.Has(Wait::kGroup)) return true;
  auto group = rows::GetGroup(moment.rows, {instance.ns, instance.provenance->group});
  if (!group) return group.error();
  return *group && ((*group)->paused || (*group)->order.Cancels());
}

// Whether a resume is refused because of the version that it stopped on.
bool IsLeftBehind(const Moment& moment, const Instance& instance) {
  return instance.Stopped() && instance.resumable &&
         moment.registry.LeftBehind(instance.ns, instance.machine, instance.version);
}

// As users see its version: of one that has not stopped, the later version that its own stands for.
void ShowVersion(const Moment& moment, InstanceView* view) {
  Instance& instance = view->instance;
  const MachineVersionPtr definition =
      instance.Stopped() ? moment.registry.Find(instance.ns, instance.machine, instance.version)
                         : moment.registry.Now(instance.ns, instance.machine, instance.version);
  if (!definition || instance.version == 0) return;
  instance.version = definition->version;
  view->package = definition->package;
}

}  // namespace

bool StandsAt(const std::vector<std::string>& nodes, const std::string& node) {
  return std::ranges::any_of(nodes, [&](const std::string& one) {
    if (!one.starts_with(node)) return false;
    return one.size() == node.size() ||
           /*mutant list-node-by-prefix*/ one[node.size()] == '/' /*end*/;
  });
}

bool IsPinnedTo(const InstanceView& view, const std::string& package) {
  if (!view.package) return false;
  const std::string& name = view.package->package;
  return package == name || package == name + "@" + view.package->version;
}

Result<InstanceView> ViewOf(const Moment& moment, Instance instance) {
  auto nodes = NodesOf(moment, instance);
  if (!nodes) return nodes.error();
  std::vector<uint32_t> limits = TriesLimits(moment, instance);
  InstanceView view{std::move(instance), nullptr, *std::move(nodes), std::move(limits), {}};
  view.partition = moment.rows.partition;
  ShowVersion(moment, &view);
  return view;
}

Result<Ok> Fill(const Moment& moment, InstanceView* view) {
  if (view->spec) return Ok{};
  auto spec = rows::GetSpec(moment.rows, view->instance);
  if (!spec) return spec.error();
  view->spec = std::make_shared<const Spec>(*std::move(spec));
  return Ok{};
}

Result<Ok> Finish(const Moment& moment, InstanceView* view) {
  auto closed = WaitsForGroup(moment, view->instance);
  if (!closed) return closed.error();
  view->waits_for_group = *closed;
  view->left_behind = IsLeftBehind(moment, view->instance);
  auto changed = ChangeTimeOf(moment, view->instance);
  if (!changed) return changed.error();
  view->instance.change_time = *changed;
  return Ok{};
}

Result<Timestamp> ChangeTimeOf(const Moment& moment, const Instance& instance) {
  if (instance.change_time != Timestamp()) return instance.change_time;
  uint64_t last = 0;
  auto scanned = rows::HistoryBackwards(moment.rows, instance, [&last](uint64_t seq) {
    last = seq;
    return false;
  });
  if (!scanned) return scanned.error();
  if (last == 0) return Timestamp();
  auto event = rows::FeedReader(moment.rows).Get(last);
  if (!event)
    return event.error().code == Code::kNotFound ? Timestamp() : Result<Timestamp>(event.error());
  return event->time;
}

Result<std::string> ParentSteps::Of(const Instance& instance) {
  if (!instance.parent_step || instance.parent.empty()) return std::string();
  if (!machine_ || parent_ != instance.parent) {
    auto parent = rows::GetInstance(moment_.rows, {instance.ns, instance.parent}, moment_.resolve);
    if (!parent) {
      const bool removed = parent.error().code == Code::kNotFound;
      return removed ? std::string() : Result<std::string>(parent.error());
    }
    if (!parent->plan || parent->plan->graph.empty()) return std::string();
    auto graph = rows::GetGraph(moment_.rows, *parent);
    if (!graph) return graph.error();
    Machine named;
    named.id = parent->machine;
    machine_ = std::make_unique<const Machine>(
        Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), std::move(named)));
    parent_ = instance.parent;
  }
  const NodeIndex home = instance.parent_step->home;
  if (home >= machine_->nodes.size()) return std::string();
  const uint32_t step = machine_->nodes[home].step;
  return step == kNoStep ? machine_->nodes[home].id : machine_->graph->steps[step].path;
}

}  // namespace dfsmr
