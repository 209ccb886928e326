#include "dsrv/engine/planner.h"

#include "fsm/base/json.h"
#include "fsm/plan/assemble.h"
#include "storage/rows/plan.h"

namespace dfsmr {

void Planner::Enlist(const Instance& instance) {
  if (!instance.plan || instance.state != InstanceState::kPlanning) return;
  /*mutant plan-never-planned*/ if (instance.tokens.empty()) {
    waiting_.push_back(ResidentKey(instance.ns, instance.id));
  } /*end*/
}

bool Planner::Work() {
  if (waiting_.empty()) return false;
  const auto [ns, id] = SplitKey(waiting_.front());
  waiting_.pop_front();
  auto resident = changer_.Touch(ns, id);
  if (!resident) return true;
  const Instance& instance = (*resident)->instance;
  if (instance.state == InstanceState::kPlanning && instance.tokens.empty()) Plan(**resident);
  return true;
}

void Planner::Fail(Resident& resident, const std::string& why) {
  changer_.Apply(resident, [&](Scene& scene) { rules::PlanningFailed(scene, why); });
}

// All at once: what is defined now is what the instance will be, whatever comes later.
void Planner::Plan(Resident& resident) {
  Instance& instance = resident.instance;
  auto source = values_.SourceOf(resident);
  if (!source) return Fail(resident, source.error().message);
  if (!residents_.SpecOf(resident)) return;
  if (!TakeKey(resident, **source)) return;
  bool own = false;
  auto graph = Compile(resident, **source, &own);
  if (!graph) return Fail(resident, graph.error().message);
  Adopt(resident, *std::move(graph), own);
  if (!(*source)->label.empty()) {
    auto label = TextOf(values_.Fill(resident, json::Quote((*source)->label)));
    if (!label) return Fail(resident, "label: " + label.error().message);
    instance.plan->label = *std::move(label);
  }
  changer_.Apply(resident, [](Scene& scene) { rules::Planned(scene); });
  residents_.MarkDirty(resident);
}

std::string Planner::SharedName(const Instance& instance) {
  return instance.machine + "@" + std::to_string(instance.version) + "." +
         std::to_string(catalog_.DefinitionsOf(instance.ns)->generation);
}

Result<GraphPtr> Planner::Compile(Resident& resident, const PlanSource& source, bool* own) {
  const Instance& instance = resident.instance;
  PlannedFlows planned;
  if (auto why = ReadPlanned(resident, &planned)) {
    return Error{Code::kFailedPrecondition, Reason::kNone, *why};
  }
  const bool may_share = instance.version != 0 && planned.empty();
  if (may_share && resident.version->shared_name == SharedName(instance)) {
    if (auto shared = resident.version->shared.lock()) return shared;
  }
  const auto definitions = catalog_.DefinitionsOf(instance.ns);
  const std::string params = resident.spec->params.empty() ? "{}" : resident.spec->params;
  std::vector<PlanProblem> problems;
  auto compiled =
      CompilePlan({&source, &definitions->definitions, params, &planned, instance.id}, &problems);
  if (!compiled) {
    const PlanProblem& first = problems.front();
    const std::string where = first.written.path.empty() ? "" : first.written.path + ": ";
    return Error{Code::kFailedPrecondition, Reason::kNone, where + first.message};
  }
  *own = !may_share || compiled->depends_on_params || compiled->planning;
  Machine machine;
  machine.id = instance.machine;
  return Catalog::GraphOf(*resident.version, std::make_shared<const Machine>(Assemble(
                                                 std::move(compiled), std::move(machine))));
}

void Planner::Adopt(Resident& resident, GraphPtr graph, bool own) {
  Instance& instance = resident.instance;
  if (resident.machine().graph) {  // of planning: its rows mean other steps
    rows::DropSteps(turn_.writer(), instance);
    instance.tokens.ForgetRows();
  }
  instance.plan->graph = own ? std::string(kOwnGraph) : SharedName(instance);
  if (!own) graph = catalog_.Share(instance, *resident.version, std::move(graph));
  resident.graph = std::move(graph);
  CacheOf(resident).new_graph = own;
}

bool Planner::TakeKey(Resident& resident, const PlanSource& source) {
  const PlanState& plan = *resident.instance.plan;
  auto key = values_.KeyOf(resident, source);
  if (!key) {
    Fail(resident, "singleton: " + key.error().message);
    return false;
  }
  if (plan.key == *key) return true;
  changer_.Apply(resident, [&](Scene& scene) {
    scene.key = *key;
    /*mutant two-hold-singleton*/ scene.key_holder = singletons_.HolderOf(resident.instance, *key);
    /*end*/
    scene.on_conflict = source.on_conflict;
    rules::TakeKey(scene);
  });
  residents_.MarkDirty(resident);
  return resident.instance.state == InstanceState::kPlanning;
}

std::optional<std::string> Planner::ReadPlanned(Resident& resident, PlannedFlows* planned) {
  const Instance& instance = resident.instance;
  auto flows = rows::GetPlanned(turn_.reader(), {instance.ns, instance.id});
  if (!turn_.Trust(flows)) return flows.error().message;
  for (const auto& [step, flow] : *flows) {
    auto parsed = options_.parse_flow(flow);
    if (!parsed)
      return "the flow that was planned for step " + step + ": " + parsed.error().message;
    (*planned)[step] = *std::move(parsed);
  }
  return std::nullopt;
}

}  // namespace dfsmr
