#include "dsrv/engine/planner.h"

#include <utility>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/compile.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "storage/rows/graph.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

std::string SharedName(const Instance& instance, const DefinitionSet& definitions) {
  return instance.machine + "@" + std::to_string(instance.version) + "." +
         /*mutant graph-of-old-definitions*/ std::to_string(definitions.generation) /*end*/;
}

// The package version whose documents an instance sees: its own, or, of a flow that a worker has
// asked for as a child, that of its parent.
PackageVersionPtr PackageOf(Residents& residents, const Resident& resident) {
  const Resident* at = &resident;
  while (at->instance.version == 0 && !at->instance.parent.empty()) {
    auto parent = residents.Load(at->instance.ns, at->instance.parent);
    if (!parent) return nullptr;
    at = *parent;
  }
  return at->version->Now().definition->package;
}

}  // namespace

void Planner::Enlist(const Instance& instance) {
  /*mutant plan-never-planned*/ if (rules::AwaitsGraph(instance)) {
    waiting_.push_back(ResidentKey(instance.ns, instance.id));
  } /*end*/
}

void Planner::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (beside_ && (change.Moved() || !rules::AwaitsGraph(instance)) &&
      beside_->key == ResidentKey(instance.ns, instance.id)) {
    /*mutant planned-for-another*/ beside_->wanted = false; /*end*/
  }
  Enlist(instance);
}

bool Planner::Work() {
  const bool large = waiting_.empty();
  if (large && (large_.empty() || beside_)) return false;
  std::deque<std::string>& queue = large ? large_ : waiting_;
  const auto [ns, id] = SplitKey(queue.front());
  queue.pop_front();
  auto resident = changer_.Touch(ns, id);
  if (resident && rules::AwaitsGraph((*resident)->instance)) {
    PlanAs(**resident, large ? Size::kLarge : Size::kUnknown);
  }
  return true;
}

void Planner::Fail(Resident& resident, const std::string& why) {
  changer_.Apply(resident, [&](Scene& scene) { rules::PlanningFailed(scene, why); });
}

void Planner::Plan(Resident& resident) { PlanAs(resident, Size::kUnknown); }

void Planner::PlanAs(Resident& resident, Size size) {
  const Instance& instance = resident.instance;
  const std::string key = ResidentKey(instance.ns, instance.id);
  if (beside_ && beside_->wanted && beside_->key == key) return;
  auto source = values_.SourceOf(resident);
  if (!source) return Fail(resident, source.error().message);
  const PackageVersionPtr package = PackageOf(residents_, resident);
  if (instance.version == 0 && package && options_.own_flow) {
    PlanSource seen = **source;
    options_.own_flow(*package, &seen);
    source = std::make_shared<const PlanSource>(std::move(seen));
  }
  if (!residents_.SpecOf(resident)) return;
  if (!limits_.MayPlan(resident)) return;
  auto read = PlanningOf(resident, *source);
  if (!read) return Fail(resident, read.error().message);
  const auto planning = std::make_shared<const Planning>(*std::move(read));
  if (GraphPtr shared = SharedGraph(resident, *planning)) {
    Adopt(resident, std::move(shared), resident.version->shared_name);
    return Enter(resident, **source);
  }
  if (size == Size::kUnknown && planning->bytes() <= kPlanBytesAtOnce) {
    PlanningResult result = MakeGraph(*planning, options_.steps_at_once);
    if (!result.too_large) return Finish(resident, *planning, std::move(result));
  }
  PlanBeside(key, planning);
}

void Planner::PlanBeside(const std::string& key, std::shared_ptr<const Planning> planning) {
  if (beside_) return large_.push_back(key);
  beside_ = {.key = key};
  options_.offload([this, planning = std::move(planning)]() -> std::function<void()> {
    auto result = std::make_shared<PlanningResult>(MakeGraph(*planning, limits::kSteps));
    return [this, planning, result] { Take(*planning, std::move(*result)); };
  });
}

void Planner::Take(const Planning& planning, PlanningResult result) {
  const auto [ns, id] = SplitKey(beside_->key);
  auto resident = changer_.Touch(ns, id);  // which may find that it is wanted no more
  const bool wanted = std::exchange(beside_, std::nullopt)->wanted;
  if (resident && wanted) Finish(**resident, planning, std::move(result));
}

void Planner::Finish(Resident& resident, const Planning& planning, PlanningResult result) {
  if (!result.machine) return Fail(resident, result.problem);
  Instance& instance = resident.instance;
  GraphPtr graph = catalog_.GraphOf(*resident.version, std::move(result.machine));
  const bool own = result.own || instance.version == 0;
  Adopt(resident, graph,
        own ? std::string(kOwnGraph) : SharedName(instance, *planning.definitions));
  if (own) {
    rows::PutGraph(turn_.writer(), instance, std::move(result.row));
  } else {
    resident.graph =
        catalog_.Share(instance, *resident.version, std::move(graph), std::move(result.row));
  }
  Enter(resident, *planning.source);
}

void Planner::Enter(Resident& resident, const PlanSource& source) {
  if (!source.label.empty()) {
    auto label = TextOf(values_.Fill(resident, json::Quote(source.label)));
    if (!label) return Fail(resident, "label: " + label.error().message);
    resident.instance.plan->label = *std::move(label);
  }
  PlanState& plan = *resident.instance.plan;
  if (!plan.wait_given) plan.wait_after_fail = source.wait_after_fail;
  const bool large = resident.machine().graph->steps.size() > options_.steps_at_once;
  changer_.Apply(resident, [&](Scene& scene) {
    if (large) scene.portion = options_.portion;
    rules::Planned(scene);
  });
  residents_.MarkDirty(resident);
}

// Flows that the workers of a package report, with the names as it sees them.
std::function<Result<std::shared_ptr<const PlanSource>>(std::string_view, TextOrigin)>
Planner::ParseAs(const PackageVersionPtr& package) const {
  return
      [parse = options_.parse_flow, own = options_.own_flow, package](
          std::string_view text, TextOrigin origin) -> Result<std::shared_ptr<const PlanSource>> {
        auto flow = parse(text, origin);
        if (!flow || !own) return flow;
        PlanSource seen = **flow;
        own(*package, &seen);
        return std::make_shared<const PlanSource>(std::move(seen));
      };
}

Result<Planning> Planner::PlanningOf(Resident& resident, std::shared_ptr<const PlanSource> source) {
  const Instance& instance = resident.instance;
  const PackageVersionPtr package = PackageOf(residents_, resident);
  auto flows = rows::GetPlanned(turn_.reader(), {instance.ns, instance.id});
  if (!turn_.Trust(flows)) return flows.error();
  return Planning{.instance = instance.id,
                  .machine = instance.machine,
                  .source = std::move(source),
                  .spec = resident.spec,
                  .definitions = catalog_.DefinitionsOf(instance.ns, package.get()),
                  .flows = *std::move(flows),
                  .parse_flow = package ? ParseAs(package) : options_.parse_flow};
}

GraphPtr Planner::SharedGraph(const Resident& resident, const Planning& planning) const {
  const bool may_share = resident.instance.version != 0 && planning.flows.empty();
  const VersionState& version = *resident.version;
  if (!may_share || version.shared_name != SharedName(resident.instance, *planning.definitions)) {
    return nullptr;
  }
  return version.shared.lock();
}

void Planner::Adopt(Resident& resident, GraphPtr graph, std::string name) {
  Instance& instance = resident.instance;
  if (resident.machine().graph) {  // of planning: its rows mean other steps
    rows::DropSteps(turn_.writer(), instance);
    instance.tokens.ForgetRows();
  }
  instance.plan->graph = std::move(name);
  resident.graph = std::move(graph);
}

}  // namespace dfsmr
