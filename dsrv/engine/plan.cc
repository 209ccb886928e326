// Plans: planning, hand-outs of steps, singletons, children, hooks.
#include <algorithm>

#include "dsrv/engine/definitions.h"
#include "dsrv/engine/engine.h"
#include "dsrv/engine/state.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/inherit.h"

namespace dfsmr {
namespace {

constexpr size_t kStartsAtOnce = 50;  // for one step, before others come
constexpr size_t kImplicitNames = 10'000;

Error Missing(const Reference& reference, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kNone, "${" + reference.text + "}: " + why};
}

// The number in "#12" or "@12".
size_t IndexIn(const std::string& key) { return std::strtoul(key.c_str() + 1, nullptr, 10); }

// The text that a template came to, whatever it is.
std::string TextOf(const std::string& json) {
  return json::KindOf(json) == json::Kind::kString ? json::Unquote(json) : json;
}

Result<std::string> TextOf(const Result<std::string>& filled) {
  return filled ? Result<std::string>(TextOf(*filled)) : filled;
}

// How the children of an instance that is being cancelled are.
CancelMode ModeOf(const Instance& instance) {
  if (instance.killed) return CancelMode::kKill;
  return instance.forced ? CancelMode::kForce : CancelMode::kCancel;
}

// It has stopped before any of its steps was ready.
bool Unplanned(const Instance& instance) {
  if (!instance.Stopped() || instance.result != InstanceResult::kError) return false;
  return instance.plan ? !instance.plan->ran : instance.start_time == Timestamp();
}

std::pair<std::string, std::string> Split(const std::string& key) {
  const size_t zero = key.find('\0');
  return {key.substr(0, zero), key.substr(zero + 1)};
}

}  // namespace

// Versions and graphs ----------------------------------------------------------------------------

// Where instances of what nobody has defined are counted: flows sent with Start, and actions that
// hooks name.
Engine::VersionState& Engine::ImplicitVersion(const std::string& ns, const std::string& id) {
  MachineState& machine = StateOf(ns, id);
  VersionState& state = machine.versions[0];
  if (state.definition) return state;
  Machine unplanned;
  unplanned.id = id;
  state.definition = std::make_shared<const MachineVersion>(MachineVersion{ns, 0, unplanned, now_});
  state.machine = &machine;
  ActionSource action;
  action.id = id;
  state.plan = std::make_shared<const PlanSource>(PlanOfAction(action));
  state.graph = GraphOf(state, std::make_shared<const Machine>(std::move(unplanned)));
  return state;
}

Engine::VersionState* Engine::VersionFor(const Instance& instance) {
  if (instance.version == 0) return &ImplicitVersion(instance.ns, instance.machine);
  return VersionOf(instance.ns, instance.machine, instance.version);
}

// What a node is counted as: in a plan, without the numbers that for_each gave it. (A step may be
// called by a number, too: then the plan as it is shown has it.)
std::string Engine::StatsName(const VersionState& version, std::string_view node) {
  if (!version.plan || (version.shown && version.shown->Find(node) != kNoNode)) {
    return std::string(node);
  }
  std::string name;
  std::string_view rest = node;
  std::string_view phase;
  if (const size_t slash = node.find('/'); slash != std::string_view::npos && slash > 0) {
    rest = node.substr(0, slash);
    phase = node.substr(slash);
  }
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const bool number = std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (number && !name.empty()) continue;
    if (!name.empty()) name += '.';
    name += part;
  }
  name += phase;
  const bool crowded = version.definition->version == 0 && version.nodes.size() > kImplicitNames;
  return crowded && !version.nodes.contains(name) ? "other" : name;
}

Engine::GraphPtr Engine::GraphOf(VersionState& version, std::shared_ptr<const Machine> machine) {
  auto graph = std::make_shared<Graph>();
  graph->machine = std::move(machine);
  graph->states.reserve(graph->machine->nodes.size());
  for (const Node& node : graph->machine->nodes) {
    const std::string name = StatsName(version, node.id);
    NodeState& state = version.nodes[name];
    if (node.kind == NodeKind::kWork && !state.latency) {
      state.latency = &version.machine->latencies[name];
    }
    graph->states.push_back(&state);
  }
  return graph;
}

Result<Engine::GraphPtr> Engine::LoadGraph(const Instance& instance, VersionState& version) {
  if (!instance.plan || instance.plan->graph.empty() || instance.Stopped()) return version.graph;
  auto graph = GraphOfPlan(instance, version);
  if (!graph || instance.tokens.Within((*graph)->machine->nodes.size())) return graph;
  return Error{Code::kDataLoss, Reason::kStoreFailed,
               "the store holds a damaged step of instance '" + instance.id +
                   "': its plan has no such node"};
}

Result<Engine::GraphPtr> Engine::GraphOfPlan(const Instance& instance, VersionState& version) {
  const bool shared = !instance.plan->own_graph;
  if (shared && version.shared_name == instance.plan->graph) {
    if (auto graph = version.shared.lock()) return graph;
  }
  auto read = rows::GetGraph(store_, options_.partition, instance);
  if (!read) return read.error();
  for (StepAction& action : read->actions) {
    if (!action.input.text.empty())
      action.input.check = options_.schema(action.input.text, "input");
    if (!action.output.text.empty())
      action.output.check = options_.schema(action.output.text, "output");
  }
  Machine machine;
  machine.id = instance.machine;
  auto graph = GraphOf(version, std::make_shared<const Machine>(Assemble(
                                    std::make_shared<const PlanGraph>(*std::move(read)),
                                    std::move(machine))));
  if (shared) {
    version.shared_name = instance.plan->graph;
    version.shared = graph;
  }
  return graph;
}

// Definitions ------------------------------------------------------------------------------------

std::shared_ptr<const Engine::DefinitionSet> Engine::DefinitionsOf(const std::string& ns) {
  auto& known = definitions_[ns];
  if (known) return known;
  auto fresh = std::make_shared<DefinitionSet>();
  for (auto it = machines_.lower_bound({ns, ""}); it != machines_.end() && it->first.first == ns;
       ++it) {
    for (const auto& [number, version] : it->second->versions) {
      if (number == 0) continue;
      ++fresh->generation;
      fresh->kept.push_back(version.definition);
      fresh->definitions.Add(version.definition->machine);
    }
  }
  fresh->definitions.Index();
  known = fresh;
  return known;
}

// Each plan and action is compiled with the others of its source beside what is defined.
std::vector<std::shared_ptr<const Machine>> Engine::CompileAll(
    const std::string& ns, const std::vector<Machine>& machines,
    const std::vector<std::string>& unsound, std::vector<DefineProblem>* problems) {
  Definitions definitions = DefinitionsOf(ns)->definitions;
  for (const Machine& machine : machines) definitions.Add(machine);
  for (const std::string& id : unsound) definitions.AddUnsound(id);
  definitions.Index();
  std::vector<std::shared_ptr<const Machine>> shown;
  for (size_t i = 0; i < machines.size(); ++i) {
    std::vector<PlanProblem> found;
    shown.push_back(CompileDefinition(machines[i], definitions, &found));
    const bool too_large = std::ranges::any_of(found, &PlanProblem::too_large);
    for (PlanProblem& problem : found) {
      if (!definitions.Doubtful(problem)) problems->push_back({i, std::move(problem)});
    }
    if (too_large) break;
  }
  if (!problems->empty() || !unsound.empty()) return shown;
  for (size_t i = 0; i < machines.size(); ++i) {
    std::vector<PlanProblem> found;
    if (problems->size() < kWarningsMax) WarnOfUnknownActions(machines[i], definitions, &found);
    for (PlanProblem& problem : found) problems->push_back({i, std::move(problem)});
  }
  return shown;
}

// After a restart: as the plans would be compiled now.
void Engine::CompileDefined() {
  for (auto& [key, machine] : machines_) {
    for (auto& [number, version] : machine->versions) {
      if (!version.plan || number == 0) continue;
      std::vector<PlanProblem> problems;
      version.shown = CompileDefinition(version.definition->machine,
                                        DefinitionsOf(key.first)->definitions, &problems);
    }
  }
}

// Planning ---------------------------------------------------------------------------------------

Result<std::shared_ptr<const PlanSource>> Engine::SourceOf(Resident& resident) {
  if (resident.plan && resident.plan->source) return resident.plan->source;
  std::shared_ptr<const PlanSource> source = resident.version->plan;
  if (resident.instance.version == 0) {
    auto spec = SpecOf(resident);
    if (!spec) return spec.error();
    if (!(*spec)->flow.empty()) {
      auto parsed = options_.parse_flow((*spec)->flow);
      if (!parsed) return parsed;
      source = *std::move(parsed);
    }
  }
  CacheOf(resident).source = source;
  return source;
}

// All at once: what is defined now is what the instance will be, whatever comes later.
void Engine::Plan(Resident& resident) {
  Instance& instance = resident.instance;
  auto fail = [&](const std::string& why) {
    Change(resident, {}, [&](Scene& scene) { return PlanningFailed(scene, why), Ok{}; });
  };
  auto source = SourceOf(resident);
  auto spec = SpecOf(resident);
  if (!source) return fail(source.error().message);
  if (!spec) return;
  if (!TakePlanKey(resident, **source)) return;
  PlannedFlows planned;
  if (auto why = ReadPlanned(resident, &planned)) return fail(*why);
  auto definitions = DefinitionsOf(instance.ns);
  const std::string shared_name = instance.machine + "@" + std::to_string(instance.version) + "." +
                                  std::to_string(definitions->generation);
  const bool may_share = instance.version != 0 && planned.empty();
  GraphPtr graph = may_share && resident.version->shared_name == shared_name
                       ? resident.version->shared.lock()
                       : nullptr;
  bool own = false;
  if (!graph) {
    const std::string params = (*spec)->params.empty() ? "{}" : (*spec)->params;
    std::vector<PlanProblem> problems;
    auto compiled = CompilePlan(
        {source->get(), &definitions->definitions, params, &planned, instance.id}, &problems);
    if (!compiled) {
      const PlanProblem& first = problems.front();
      return fail((first.written.path.empty() ? "" : first.written.path + ": ") + first.message);
    }
    own = !may_share || compiled->depends_on_params || compiled->planning;
    Machine machine;
    machine.id = instance.machine;
    graph = GraphOf(*resident.version, std::make_shared<const Machine>(
                                           Assemble(std::move(compiled), std::move(machine))));
  }
  if (resident.graph->machine->graph) {  // of planning: its rows mean other steps
    rows::DropSteps(&turn_.batch, options_.partition, instance);
    instance.tokens.ForgetRows();
  }
  instance.plan->graph = own ? "own" : shared_name;
  instance.plan->own_graph = own;
  if (!own) graph = Share(resident, std::move(graph));
  resident.graph = std::move(graph);
  resident.plan->new_graph = own;
  if (!(*source)->label.empty()) {
    auto label = TextOf(Fill(resident, json::Quote((*source)->label)));
    if (!label) return fail("label: " + label.error().message);
    instance.plan->label = *std::move(label);
  }
  Change(resident, {}, [](Scene& scene) { return Planned(scene), Ok{}; });
  MarkDirty(resident);
}

// Whether the store still has what an upgrade has dropped.
bool Engine::Forgotten(const Resident& resident) const {
  return resident.plan && resident.plan->dropped_turn > committed_.load(std::memory_order_acquire);
}

// The singleton that the plan asks for now. False: it does not go on.
bool Engine::TakePlanKey(Resident& resident, const PlanSource& source) {
  PlanState& plan = *resident.instance.plan;
  std::string key;
  if (!source.singleton.empty()) {
    auto filled = TextOf(Fill(resident, json::Quote(source.singleton)));
    if (!filled) {
      const std::string why = "singleton: " + filled.error().message;
      Change(resident, {}, [&](Scene& scene) { return PlanningFailed(scene, why), Ok{}; });
      return false;
    }
    key = *std::move(filled);
  }
  if (plan.key == key) return true;
  Change(resident, {}, [&](Scene& scene) {
    scene.key = key;
    /*mutant two-hold-singleton*/ scene.key_holder = HolderOf(resident.instance, key); /*end*/
    scene.on_conflict = source.on_conflict;
    return TakeKey(scene), Ok{};
  });
  MarkDirty(resident);
  return resident.instance.state == InstanceState::kPlanning;
}

// Who else holds a singleton; empty: nobody.
std::string Engine::HolderOf(const Instance& instance, const std::string& key) const {
  auto held = keys_.find(ResidentKey(instance.ns, key));
  if (key.empty() || held == keys_.end() || held->second.held == 0) return "";
  return held->second.holder == instance.id ? "" : held->second.holder;
}

// The one graph under this name: that of the store, when there is one, so that all who share it
// agree about it, whoever compiled it.
Engine::GraphPtr Engine::Share(Resident& resident, GraphPtr graph) {
  VersionState& version = *resident.version;
  const std::string& name = resident.instance.plan->graph;
  if (version.shared_name == name) {
    if (auto known = version.shared.lock()) return known;
  }
  if (version.written.insert(name).second) {
    auto stored = LoadGraph(resident.instance, version);
    if (!stored && stored.error().code == Code::kUnavailable && !broken_) broken_ = stored.error();
    if (stored && (*stored)->machine->graph) return *stored;
    rows::PutGraph(&turn_.batch, options_.partition, resident.instance, *graph->machine->graph);
  }
  version.shared_name = name;
  version.shared = graph;
  return graph;
}

std::optional<std::string> Engine::ReadPlanned(Resident& resident, PlannedFlows* planned) {
  using Flows = std::map<std::string, std::string>;
  auto flows = Forgotten(resident) ? Result<Flows>(Flows())
                                   : rows::GetPlanned(store_, options_.partition,
                                                      resident.instance.ns, resident.instance.id);
  if (!flows) {
    if (!broken_) broken_ = flows.error();
    return flows.error().message;
  }
  for (const PlanCache::Unseen* unseen : {&resident.plan->before, &resident.plan->last}) {
    for (const auto& [step, flow] : unseen->planned) (*flows)[step] = flow;
  }
  for (const auto& [step, flow] : *flows) {
    auto parsed = options_.parse_flow(flow);
    if (!parsed)
      return "the flow that was planned for step " + step + ": " + parsed.error().message;
    (*planned)[step] = *std::move(parsed);
  }
  return std::nullopt;
}

// What a report asks for beyond its transition.
Result<Ok> Engine::CheckSuspend(const Resident& resident, const ReportArgs& args,
                                const std::vector<rows::ChildStart>& children) {
  if (!resident.instance.plan && (!children.empty() || args.wake_after)) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "instance " + Quoted(resident.instance.id) +
                     " is of a plain machine: only steps "
                     "of a plan suspend, with 'wake_after' or 'children'"};
  }
  for (const rows::ChildStart& child : children) {
    if (!child.spec.flow.empty() || VersionOf(resident.instance.ns, child.machine, child.version)) {
      continue;
    }
    return Error{Code::kNotFound, Reason::kNoSuchMachine,
                 "'children': namespace " + Quoted(resident.instance.ns) + " has no machine " +
                     Quoted(child.machine)};
  }
  return Ok{};
}

// What a report of a plan's step means beyond the rules.
void Engine::AfterReport(Resident& resident, const ReportArgs& args, const Answer& answer,
                         const std::vector<rows::ChildStart>& children) {
  Instance& instance = resident.instance;
  if (args.transition == "planned" && instance.state != InstanceState::kStopped) {
    const auto flow = json::Member(args.output, "flow");
    std::string text = flow ? std::string(*flow) : "[]";
    if (json::KindOf(text) == json::Kind::kString) text = json::Unquote(text);
    CacheOf(resident).last.planned[answer.prev_node] = text;
    /*mutant planned-not-kept*/ rows::PutPlanned(&turn_.batch, options_.partition, instance,
                                                 answer.prev_node, text); /*end*/
    return;
  }
  if (children.empty() || args.transition != "suspend") return;
  const NodeIndex home = resident.machine().Find(answer.prev_node);
  const auto slot = instance.tokens.SlotOfHome(home);
  if (!slot) return;
  const Token& token = std::as_const(instance.tokens)[*slot];
  if (!token.step->children) return;
  rows::PutStarts(&turn_.batch, options_.partition, instance, home, children);
  CacheOf(resident).items[token.step->children->generation].starts = children;
}

// Hand-outs --------------------------------------------------------------------------------------

Result<std::string> Engine::OutputOf(Resident& resident, const std::string& step) {
  if (resident.plan) {
    for (const PlanCache::Unseen* unseen : {&resident.plan->last, &resident.plan->before}) {
      auto fresh = unseen->outputs.find(step);
      if (fresh != unseen->outputs.end()) return fresh->second;
    }
  }
  if (Forgotten(resident)) return std::string("{}");
  auto output = rows::GetOutput(store_, options_.partition, resident.instance.ns,
                                resident.instance.id, step);
  if (!output) {
    if (!broken_) broken_ = output.error();
    return output.error();
  }
  return *output ? **output : std::string("{}");
}

Result<std::string> Engine::GroupValue(Resident& resident, const Group& group) {
  const PlanGraph& graph = *resident.machine().graph;
  std::string value(1, group.list ? '[' : '{');
  for (const Group::Member& member : group.members) {
    auto one = member.group ? GroupValue(resident, graph.groups[member.index])
                            : StepValue(resident, graph.steps[member.index]);
    if (!one) return one;
    if (value.size() > 1) value += ',';
    if (!group.list) value += json::Quote(member.name) + ":";
    value += *one;
    if (value.size() > limits::kJson) {
      return Error{
          Code::kInvalidArgument, Reason::kNone,
          "more than " + std::to_string(limits::kJson) + " bytes of outputs in one reference"};
    }
  }
  return value + (group.list ? ']' : '}');
}

Result<std::string> Engine::StepValue(Resident& resident, const Step& step) {
  if (step.left_out) return std::string("null");
  return OutputOf(resident, step.path);
}

// The params may hold the list that the steps were made of: they are read once, not for each step.
std::optional<std::string_view> Engine::ParamAt(Resident& resident, std::string_view params,
                                                std::span<const Reference::Part> path) {
  if (params.size() <= limits::kStepParams || path.empty()) {
    return Find(params.empty() ? "{}" : params, path);
  }
  auto& members = CacheOf(resident).params;
  if (members.empty()) {
    json::ForEachMember(params, [&members](std::string_view name, std::string_view value) {
      members.insert_or_assign(std::string(name), value);
      return true;
    });
  }
  auto member = members.find(path.front().key);
  if (path.front().key.empty() || member == members.end()) return std::nullopt;
  return Find(member->second, path.subspan(1));
}

Result<std::string> Engine::Value(Resident& resident, const Reference& reference) {
  const std::string& root = reference.parts.front().key;
  std::span<const Reference::Part> path = std::span(reference.parts).subspan(1);
  if (root == "instance") {
    if (path.size() == 1 && path[0].key == "id") return json::Quote(resident.instance.id);
    return Missing(reference, "of an instance there is only instance.id");
  }
  if (root == "params") {
    auto spec = SpecOf(resident);
    if (!spec) return spec.error();
    auto found = ParamAt(resident, (*spec)->params, path);
    if (found) return std::string(*found);
    return Missing(reference, "the instance's params have no " + PathText(path));
  }
  const PlanGraph* graph = resident.machine().graph.get();
  const bool step = root.starts_with('#');
  if (!graph || (!step && !root.starts_with('@'))) {
    return Missing(reference, "there is no " + Quoted(root));
  }
  const size_t index = IndexIn(root);
  if (index >= (step ? graph->steps.size() : graph->groups.size())) {
    return Missing(reference, "there is no such step");
  }
  if (step && graph->steps[index].left_out) return std::string("null");
  auto output = step ? StepValue(resident, graph->steps[index])
                     : GroupValue(resident, graph->groups[index]);
  if (!output) return output;
  path = path.subspan(std::min<size_t>(1, path.size()));  // past "output"
  auto found = Find(*output, path);
  if (found) return std::string(*found);
  const std::string name = step ? graph->steps[index].path : reference.text;
  const std::string rest = PathText(path);
  return Error{Code::kInvalidArgument, Reason::kNone,
               "${" + name + ".output" + (rest.starts_with('[') ? "" : ".") + rest +
                   "}: the output of step " + name + " has no " + rest};
}

Result<std::string> Engine::Fill(Resident& resident, std::string_view json) {
  return Evaluate(json, [&](const Reference& reference) { return Value(resident, reference); });
}

// False when it cannot be handed out: then it has failed, or waits.
bool Engine::PrepareStep(Resident& resident, const Token& token, Task* task, std::string* key) {
  const PlanGraph& graph = *resident.machine().graph;
  const Node& node = resident.machine().nodes[token.node];
  const Step& step = graph.steps[node.step];
  const StepAction& action = graph.actions[step.action];
  const uint64_t visit = token.visit;
  auto fail = [&](const std::string& why) {
    Change(resident, {}, [&](Scene& scene) { return FailStep(scene, visit, why), Ok{}; });
    MarkDirty(resident);
    return false;
  };
  const std::string* patched = resident.instance.tokens.Patched(token.home);
  const std::string& input = patched ? *patched : step.input;
  auto filled = Fill(resident, input);
  if (node.role == Role::kPlanner && !filled) filled = input;  // outputs are to come
  if (!filled) return fail("input: " + filled.error().message);
  if (json::KindOf(*filled) != json::Kind::kObject) {
    return fail("input: expected an object, but it is " + Quoted(*filled));
  }
  if (filled->size() > limits::kJson) {
    return fail("input: it has " + std::to_string(filled->size()) + " bytes; the limit is " +
                std::to_string(limits::kJson));
  }
  if (action.input.check && node.role != Role::kPlanner) {
    if (auto violation = action.input.check->Violation(*filled)) return fail(*violation);
  }
  auto singleton = graph.singletons.find(node.step);
  if (singleton != graph.singletons.end() && node.role == Role::kRun) {
    auto name = Fill(resident, singleton->second);
    if (!name) return fail("singleton: " + name.error().message);
    *key = TextOf(*name);
    const std::string holder = HolderOf(resident.instance, *key);
    if (token.step->key == *key) {
      key->clear();  // since an earlier run
    } else if (!holder.empty()) {
      Change(resident, {}, [&](Scene& scene) {
        return AwaitKey(scene, visit, *key, holder, action.on_conflict), Ok{};
      });
      MarkDirty(resident);
      return false;
    }
  }
  task->node_params = *std::move(filled);
  task->event = token.step->event;
  task->event_data = token.step->event_data;
  task->phase = node.role == Role::kPlanner ? "plan"
                : node.role == Role::kFinalize ? "finalize"
                                               : "run";
  task->middleware = action.middleware;
  const bool large = task->spec->params.size() > limits::kStepParams;
  if (large && node.role != Role::kPlanner) task->spec.reset();
  return true;
}

// Consequences -----------------------------------------------------------------------------------

void Engine::FollowPlan(Resident& resident, const Before& before,
                        const std::vector<InstanceState>& entered) {
  const Instance& instance = resident.instance;
  const std::string id = ResidentKey(instance.ns, instance.id);
  if (instance.parent_step) {
    const ChildClass from =
        before.state == InstanceState::kNone ? ChildClass::kRunning : before.child;
    const ChildClass to = ClassOf(instance);
    const bool unplanned = from == ChildClass::kFailed || Unplanned(instance);
    if (from != to) {
      moved_.push_back({instance.ns, instance.parent, *instance.parent_step, from, to, unplanned});
    }
    auto& siblings = children_[ResidentKey(instance.ns, instance.parent)];
    if (instance.Stopped()) {
      siblings.erase(instance.id);
      if (siblings.empty()) children_.erase(ResidentKey(instance.ns, instance.parent));
    } else {
      siblings[instance.id] = instance.parent_step->generation;
    }
  }
  if (!instance.plan && !before.plan) return;
  const PlanState none;
  const PlanState& plan = instance.plan ? *instance.plan : none;
  const bool cancelled = instance.cancel_requested && !before.cancel_requested;
  const bool stopped = instance.Stopped() && before.state != InstanceState::kStopped;
  const bool moved = before.version != resident.version;
  NoteKey(resident, before.key, before.waits_for_key, plan.key, plan.waits_for_key, 0);
  for (const Tokens::Touched& one : instance.tokens.touched()) {
    const Token* now = instance.tokens.Find(one.visit);
    const StepState* was = one.before && one.before->step ? &*one.before->step : nullptr;
    const StepState* is = now && now->step ? &*now->step : nullptr;
    if ((was && !was->key.empty()) || (is && !is->key.empty())) {
      NoteKey(resident, was ? was->key : "", was && was->waits_for_key, is ? is->key : "",
              is && is->waits_for_key, one.visit);
    }
    if (now && WantsChildren(instance, *now)) SpawnLater(resident, one.visit);
    const bool all = cancelled || stopped || moved;  // are told
    if (!all && was && was->children && children_.contains(id)) {
      CheckLeft(resident, *one.before);
    }
  }
  if (/*mutant children-outlive-parent*/ (cancelled || stopped || moved) &&
      children_.contains(id) /*end*/) {
    CancelChildren(instance.ns, instance.id, std::nullopt, ModeOf(instance));
  }
  if (!instance.plan) return;
  if (!entered.empty()) FireHooks(resident, entered);
  if (instance.state == InstanceState::kPlanning && instance.tokens.empty()) {
    to_plan_.push_back(id);
  }
}

void Engine::SpawnLater(const Resident& resident, uint64_t visit) {
  const std::string id = ResidentKey(resident.instance.ns, resident.instance.id);
  if (spawning_set_.insert({id, visit}).second) spawning_.emplace_back(id, visit);
}

// A token that waited for children has gone on: without them, when they have not all stopped.
void Engine::CheckLeft(const Resident& resident, const Token& before) {
  const Instance& instance = resident.instance;
  const uint64_t generation = before.step->children->generation;
  const auto slot = instance.tokens.SlotOfHome(before.home);
  if (slot) {
    const StepState& step = *instance.tokens[*slot].step;
    if (step.children && step.children->generation == generation) return;
  }
  CancelChildren(instance.ns, instance.id, generation, CancelMode::kCancel);
}

void Engine::CancelChildren(const std::string& ns, const std::string& parent,
                            std::optional<uint64_t> generation, CancelMode mode) {
  auto children = children_.find(ResidentKey(ns, parent));
  if (children == children_.end()) return;
  Cancellation job{ns, {}, mode};
  for (const auto& [id, of] : children->second) {
    if (!generation || of == *generation) job.ids.push_back(id);
  }
  if (!job.ids.empty()) cancelling_.push_back(std::move(job));
}

// Singletons -------------------------------------------------------------------------------------

// Which singleton the plan of an instance asks for, and who holds it.
void Engine::AskForKey(Resident& resident, Scene* scene) {
  const Instance& instance = resident.instance;
  if (!instance.plan->key.empty()) {
    scene->key = instance.plan->key;
    return;
  }
  if (Runs(instance.state) || instance.Stopped()) return;
  auto source = SourceOf(resident);
  if (!source || (*source)->singleton.empty()) return;
  auto key = TextOf(Fill(resident, json::Quote((*source)->singleton)));
  if (!key) return;  // planning says what is missing
  scene->key = *std::move(key);
  scene->on_conflict = (*source)->on_conflict;
  scene->key_holder = HolderOf(instance, scene->key);
}

// Whether a paused plan may go on: it gave its singleton back when it paused.
Result<Ok> Engine::KeyIsFree(Resident& resident) {
  const Instance& instance = resident.instance;
  const bool begun = instance.plan && (!instance.plan->graph.empty() ||
                                       (instance.plan->upgraded && !instance.plan->waits_for_key));
  if (!begun || instance.state != InstanceState::kPaused) return Ok{};
  std::vector<Event> events;
  Scene scene{resident.machine(), resident.instance, now_, epoch_, random_, events, {}, {}};
  AskForKey(resident, &scene);
  if (scene.key_holder.empty()) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kIllegalTransition,
               "singleton " + Quoted(scene.key) + " is held by instance " +
                   Quoted(scene.key_holder) + "; resume this one when that has ended"};
}

void Engine::NoteKey(Resident& resident, const std::string& was, bool waited,
                     const std::string& is, bool waits, uint64_t visit) {
  const Instance& instance = resident.instance;
  if (visit == 0 && waits && !waited) {
    auto source = SourceOf(resident);
    if (source) {
      auto key = TextOf(Fill(resident, json::Quote((*source)->singleton)));
      if (key) keys_[ResidentKey(instance.ns, *key)].waiting.emplace_back(instance.id, 0);
    }
    return;
  }
  if (visit != 0 && waits) {
    if (!waited) keys_[ResidentKey(instance.ns, is)].waiting.emplace_back(instance.id, visit);
    return;
  }
  const std::string held_before = waited ? "" : was;
  if (held_before == is) return;
  if (!is.empty()) {
    Singleton& key = keys_[ResidentKey(instance.ns, is)];
    key.holder = instance.id;
    ++key.held;
  }
  if (held_before.empty()) return;
  auto it = keys_.find(ResidentKey(instance.ns, held_before));
  if (it == keys_.end() || it->second.holder != instance.id || it->second.held == 0) return;
  /*mutant singleton-not-handed-on*/ if (--it->second.held == 0)
    freed_keys_.push_back(it->first); /*end*/
}

// A key is free: those who wait for it ask again, in their order, until one of them has it.
void Engine::HandOnKey(const std::string& key) {
  const std::string ns = Split(key).first;
  auto waiting = std::move(keys_[key].waiting);
  keys_[key].waiting.clear();
  decltype(waiting) still;  // it is paused, and keeps its place
  while (!waiting.empty() && keys_[key].held == 0) {
    const auto [id, visit] = waiting.front();
    waiting.pop_front();
    auto resident = Touch(ns, id);
    if (!resident || (*resident)->instance.Stopped()) continue;
    Change(**resident, {}, [&, at = visit](Scene& scene) {
      if (at == 0) {
        KeyFreed(scene);
      } else {
        RetryKey(scene, at);
      }
      return Ok{};
    });
    MarkDirty(**resident);
    const Instance& instance = (*resident)->instance;
    if (visit == 0 && instance.plan && instance.plan->waits_for_key) still.emplace_back(id, visit);
  }
  auto it = keys_.find(key);
  auto& line = it->second.waiting;  // those that have come meanwhile
  line.insert(line.begin(), waiting.begin(), waiting.end());
  line.insert(line.begin(), still.begin(), still.end());
  if (it->second.held == 0 && line.empty()) keys_.erase(it);
}

// After a restart: whoever waits for a singleton has its turn in the order of the starts.
void Engine::OrderKeys() {
  for (auto& [key, singleton] : keys_) {
    const std::string ns = Split(key).first;
    std::ranges::sort(singleton.waiting, {}, [&](const auto& one) {
      return std::pair(first_seq_[ResidentKey(ns, one.first)], one.second);
    });
    if (singleton.held == 0) freed_keys_.push_back(key);
  }
  first_seq_.clear();
}

// Children ---------------------------------------------------------------------------------------

Result<StartArgs> Engine::ChildOf(Resident& resident, const Token& token, uint64_t number) {
  const PlanGraph& graph = *resident.machine().graph;
  const Node& home = resident.machine().nodes[token.home];
  const Step& step = graph.steps[home.step];
  const ChildCounts& children = *token.step->children;
  StartArgs args;
  args.ns = resident.instance.ns;
  args.priority = resident.instance.priority;
  args.parent = resident.instance.id;
  args.parent_step = ParentStep{token.home, children.generation};
  args.id = resident.instance.id + "/" + step.path + "/" + std::to_string(children.first + number);
  PlanItems& items = CacheOf(resident).items[children.generation];
  if (home.role != Role::kSpawn) {
    if (items.starts.empty()) {
      auto starts = rows::GetStarts(store_, options_.partition, args.ns, args.parent, token.home);
      if (!starts && !broken_) broken_ = starts.error();
      if (!starts) return starts.error();
      items.starts = *std::move(starts);
    }
    if (number >= items.starts.size()) {
      return Error{Code::kInternal, Reason::kNone, "no child of that number was asked for"};
    }
    const rows::ChildStart& start = items.starts[number];
    args.machine = start.machine;
    args.version = start.version;
    if (!start.id.empty()) args.id = start.id;
    if (start.priority != 0) args.priority = start.priority;
    args.spec = start.spec;
    args.start_at = start.start_at;
    args.start_before = start.start_before;
    args.hold = start.hold;
    args.after = start.after;
    if (args.spec.flow.empty()) return args;
    auto flow = options_.parse_flow(args.spec.flow);
    if (!flow) return flow.error();
    args.flow = *std::move(flow);
    return args;
  }
  const Spawn& spawn = graph.spawns.at(home.step);
  args.machine = spawn.machine;
  std::string item = "null";
  if (spawn.items) {
    auto listed = ItemOf(resident, spawn, &items, number);
    if (!listed) return listed.error();
    item = *std::move(listed);
  }
  const std::string* patched = resident.instance.tokens.Patched(token.home);
  const std::string& input = patched ? *patched : spawn.input;
  auto params = Evaluate(input, [&](const Reference& reference) -> Result<std::string> {
    if (!spawn.items || reference.parts.front().key != spawn.as) return Value(resident, reference);
    auto found = Find(item, std::span(reference.parts).subspan(1));
    if (found) return std::string(*found);
    return Missing(reference, "item " + std::to_string(number) + " of the list has no such thing");
  });
  if (!params) return params.error();
  if (json::KindOf(*params) != json::Kind::kObject || params->size() > limits::kJson) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "input: expected an object of at most " + std::to_string(limits::kJson) +
                     " bytes for its params, but it is " + Quoted(params->substr(0, 100))};
  }
  args.spec.params = *std::move(params);
  return args;
}

// The list is the same whenever it is asked for: what it is made of does not change any more.
Result<std::string> Engine::ItemOf(Resident& resident, const Spawn& spawn, PlanItems* items,
                                   uint64_t number) {
  if (items->list.empty()) {
    auto list = Fill(resident, *spawn.items);
    if (!list) return list.error();
    if (json::KindOf(*list) != json::Kind::kArray) {
      return Error{Code::kInvalidArgument, Reason::kNone,
                   "for_each: expected a list, not " + *list};
    }
    items->list = *std::move(list);
  }
  if (number < items->next) items->at = items->next = 0;
  std::optional<std::string_view> item;
  while (items->next <= number) {
    item = json::NextItem(items->list, &items->at);
    if (!item)
      return Error{Code::kInternal, Reason::kNone,
                   "the list has no item " + std::to_string(number)};
    ++items->next;
  }
  return std::string(*item);
}

// Starts as many children of one step as may run, and as the budget allows. False: more are wanted.
bool Engine::SpawnSome(const std::string& key, uint64_t visit, size_t* budget) {
  const auto [ns, id] = Split(key);
  auto touched = Touch(ns, id);
  if (!touched) return true;
  Resident& resident = **touched;
  while (true) {
    const Token* token = std::as_const(resident.instance.tokens).Find(visit);
    if (!token || !WantsChildren(resident.instance, *token)) return true;
    if (*budget == 0) return false;
    --*budget;
    const Token now = *token;
    const ChildCounts& children = *now.step->children;
    MarkDirty(resident);
    if (!children.counted) {
      CountItems(resident, now);
      continue;
    }
    if (children.restart) {
      RestartChild(resident, now);
      continue;
    }
    auto args = ChildOf(resident, now, children.started);
    std::string error;
    if (!args) {
      error = args.error().message;
    } else {
      if (args->id.size() > limits::kInstanceId) {
        error = "its id " + Quoted(args->id) + " would be longer than " +
                std::to_string(limits::kInstanceId) + " characters";
      }
      args->spec.client = "step " + std::string(NodeName(resident.machine(), now.home));
      auto started = error.empty() ? Start(*args) : Result<Started>(Error{});
      if (!error.empty()) {
        // said already
      } else if (!started) {
        error = started.error().message;
      } else if (!started->created) {
        error = "instance " + Quoted(args->id) + " exists already";
      }
    }
    if (!error.empty()) {
      const uint64_t number = children.first + children.started;
      CacheOf(resident).items[children.generation].unstarted.insert(number);
      rows::PutUnstarted(&turn_.batch, options_.partition, resident.instance, now.home, number);
    }
    Change(resident, {}, [&](Scene& scene) { return ChildStarted(scene, now.home, error), Ok{}; });
  }
}

void Engine::CountItems(Resident& resident, const Token& token) {
  const Node& home = resident.machine().nodes[token.home];
  const Spawn& spawn = resident.machine().graph->spawns.at(home.step);
  uint64_t total = 1;
  if (spawn.items) {
    PlanItems& items = CacheOf(resident).items[token.step->children->generation];
    total = 0;
    auto first = ItemOf(resident, spawn, &items, 0);
    if (!first && first.error().code != Code::kInternal) {
      const std::string why = first.error().message;
      Change(resident, {}, [&](Scene& scene) { return FailStep(scene, token.visit, why), Ok{}; });
      return;
    }
    json::ForEachItem(items.list, [&total](std::string_view) { return ++total, true; });
  }
  Change(resident, {},
         [&](Scene& scene) { return CountChildren(scene, token.visit, total), Ok{}; });
}

// The next child that may have to be begun again: one that never had a step ready, or that could
// not be started at all.
void Engine::RestartChild(Resident& resident, const Token& token) {
  const ChildCounts& children = *token.step->children;
  const uint64_t number = children.restart_at;
  auto advance = [&] {
    Change(resident, {}, [&](Scene& scene) {
      return RestartedUpTo(scene, token.visit, number + 1), Ok{};
    });
  };
  auto args = ChildOf(resident, token, number);
  if (!args) return advance();
  const uint64_t named = children.first + number;
  std::set<uint64_t>& unstarted = CacheOf(resident).items[children.generation].unstarted;
  auto noted = rows::IsUnstarted(store_, options_.partition, resident.instance, token.home, named);
  if (!noted && !broken_) broken_ = noted.error();
  if (unstarted.contains(named) || (noted && *noted)) {
    if (Start(*std::move(args))) {
      unstarted.erase(named);
      rows::DropUnstarted(&turn_.batch, options_.partition, resident.instance, token.home, named);
      Change(resident, {}, [&](Scene& scene) {
        return ChildMoved(scene, token.home, children.generation, ChildClass::kFailed,
                          ChildClass::kRunning, /*unplanned=*/true),
               Ok{};
      });
    }
    return advance();
  }
  auto child = Touch(args->ns, args->id);
  const bool ours = child && (*child)->instance.parent_step == args->parent_step &&
                    (*child)->instance.Stopped() && Unplanned((*child)->instance);
  if (ours) {
    Revive(**child);
    while (!moved_.empty()) MoveChild();  // it counts as running before anybody judges
  }
  advance();
}

// A stopped instance that never began begins again.
void Engine::Revive(Resident& resident) {
  Instance& instance = resident.instance;
  const auto& retention = resident.version->definition->machine.retention;
  if (resident.stopped_on_disk) {
    rows::Revive(&turn_.batch, options_.partition, instance,
                 After(instance.end_time, retention.value_or(options_.retention)));
    resident.stopped_on_disk = false;
  }
  NoteDropped(*resident.version);  // as if it were
  rows::DropPlan(&turn_.batch, options_.partition, instance);
  // As if it were started now: what kept it from being planned may have been mended since.
  if (VersionState* latest = VersionOf(instance.ns, instance.machine, 0); latest && latest->plan) {
    if (instance.version != 0) {
      resident.version = latest;
      instance.version = latest->definition->version;
    }
  }
  resident.graph = resident.version->graph;
  resident.plan.reset();
  CacheOf(resident).dropped_turn = turn_.number;
  Change(resident, {}, [](Scene& scene) { return BeginAgain(scene), Ok{}; });
  MarkDirty(resident);
  // Those that it waited for, and waits for again.
  const std::vector<Instance::Prerequisite> after = instance.after;
  for (const Instance::Prerequisite& one : after) {
    auto other = Touch(instance.ns, one.instance);
    if (other && !(*other)->instance.Stopped()) {
      followers_[ResidentKey(instance.ns, one.instance)].insert(instance.id);
      continue;
    }
    const InstanceResult result = other ? (*other)->instance.result : InstanceResult::kError;
    Change(resident, {}, [&](Scene& scene) {
      return PrerequisiteStopped(scene, one.instance, result), Ok{};
    });
  }
}

// Hooks ------------------------------------------------------------------------------------------

void Engine::FireHooks(Resident& resident, const std::vector<InstanceState>& entered) {
  auto source = SourceOf(resident);
  if (!source || (*source)->hooks.empty()) return;
  std::vector<std::string_view> words;
  for (InstanceState state : entered) {
    switch (state) {
      case InstanceState::kScheduled: words.push_back("scheduled"); break;
      case InstanceState::kPlanning: words.push_back("planning"); break;
      case InstanceState::kRunning: words.push_back("running"); break;
      case InstanceState::kPaused: words.push_back("paused"); break;
      case InstanceState::kStopped: words.push_back("stopped"); break;
      case InstanceState::kNone: break;
    }
    if (state != InstanceState::kStopped) continue;
    switch (resident.instance.result) {
      case InstanceResult::kSuccess: words.push_back("success"); break;
      case InstanceResult::kWarning: words.push_back("warning"); break;
      case InstanceResult::kCancelled: words.push_back("cancelled"); break;
      default: words.push_back("failure"); break;
    }
  }
  for (std::string_view word : words) {
    for (const HookSource& hook : (*source)->hooks) {
      if (std::ranges::find(hook.on, word) == hook.on.end()) continue;
      const VersionState* defined = VersionOf(resident.instance.ns, hook.action, 0);
      if (defined && !defined->definition->machine.action) continue;  // a hook starts no plan
      StartArgs args;
      args.ns = resident.instance.ns;
      args.machine = hook.action;
      args.implicit = true;
      args.spec.client = "hook of " + resident.instance.id + " on " + std::string(word);
      auto params = Fill(resident, hook.input);
      // A hook whose input is not there runs all the same: that something happened is what matters.
      const bool fits = params && json::KindOf(*params) == json::Kind::kObject;
      args.spec.params = fits ? *params : "{}";
      hooks_.push_back(std::move(args));
    }
  }
}

// The rest of a turn -----------------------------------------------------------------------------

void Engine::MoveChild() {
  const ChildMove move = std::move(moved_.front());
  moved_.pop_front();
  auto parent = Touch(move.ns, move.parent);
  if (!parent) return;
  Change(**parent, {}, [&](Scene& scene) {
    return ChildMoved(scene, move.step.home, move.step.generation, move.from, move.to,
                      move.unplanned),
           Ok{};
  });
  if (!(*parent)->instance.Stopped()) MarkDirty(**parent);
}

// Starts children of the step that has waited longest; it goes last in line when it wants more.
void Engine::SpawnNext() {
  const auto job = std::move(spawning_.front());
  spawning_.pop_front();
  size_t budget = std::min(starts_left_, kStartsAtOnce);
  starts_left_ -= budget;
  const bool done = SpawnSome(job.first, job.second, &budget);
  starts_left_ += budget;
  if (done) {
    spawning_set_.erase(job);
  } else {
    spawning_.push_back(job);
  }
}

void Engine::CancelNext() {
  Cancellation& job = cancelling_.front();
  const std::string id = std::move(job.ids.back());
  job.ids.pop_back();
  const std::string ns = job.ns;
  const CancelMode mode = job.mode;
  if (job.ids.empty()) cancelling_.pop_front();
  --cancels_left_;
  if (auto child = Load(ns, id); child && !(*child)->instance.Stopped()) {
    (void)Cancel(ns, id, mode);
  }
}

// Everything that one instance's change makes of others, in the same commit; only starting and
// cancelling many children takes several turns.
void Engine::PlanWork() {
  while (true) {
    StartFollowers();
    if (!to_plan_.empty()) {
      const auto [ns, id] = Split(to_plan_.front());
      to_plan_.pop_front();
      auto resident = Touch(ns, id);
      if (!resident) continue;
      const Instance& instance = (*resident)->instance;
      if (instance.state == InstanceState::kPlanning && instance.tokens.empty()) Plan(**resident);
    } else if (!moved_.empty()) {
      MoveChild();
    } else if (!freed_keys_.empty()) {
      const std::string key = std::move(freed_keys_.front());
      freed_keys_.pop_front();
      HandOnKey(key);
    } else if (!hooks_.empty()) {
      StartArgs args = std::move(hooks_.front());
      hooks_.pop_front();
      (void)Start(std::move(args));
    } else if (!spawning_.empty() && starts_left_ > 0) {
      SpawnNext();
    } else if (!cancelling_.empty() && cancels_left_ > 0) {
      CancelNext();
    } else {
      break;
    }
  }
}

bool Engine::PlanPending() const {
  return !stopped_now_.empty() || !to_plan_.empty() || !moved_.empty() || !freed_keys_.empty() ||
         !hooks_.empty();
}

// Start-up ---------------------------------------------------------------------------------------

void Engine::LoadPlan(Resident& resident) {
  const Instance& instance = resident.instance;
  const std::string id = ResidentKey(instance.ns, instance.id);
  if (instance.parent_step) {
    children_[ResidentKey(instance.ns, instance.parent)][instance.id] =
        instance.parent_step->generation;
  }
  if (!instance.plan) return;
  const bool waits = instance.plan->waits_for_key ||
                     std::ranges::any_of(instance.tokens, [](const Token& token) {
                       return token.step && token.step->waits_for_key;
                     });
  if (waits && !instance.history.empty()) first_seq_[id] = instance.history.front();
  NoteKey(resident, "", false, instance.plan->key, instance.plan->waits_for_key, 0);
  for (const Token& token : std::as_const(instance.tokens)) {
    if (!token.step) continue;
    if (!token.step->key.empty()) {
      NoteKey(resident, "", false, token.step->key, token.step->waits_for_key, token.visit);
    }
    if (WantsChildren(instance, token)) SpawnLater(resident, token.visit);
  }
  if (instance.state == InstanceState::kPlanning && instance.tokens.empty()) {
    to_plan_.push_back(id);
  }
}

// Children whose parent was cancelled, has stopped, or has gone on without them, and that had not
// heard of it when the server ended.
void Engine::CancelOrphans() {
  const auto parents = children_;
  for (const auto& [key, children] : parents) {
    const auto [ns, id] = Split(key);
    auto parent = Load(ns, id);
    std::set<uint64_t> waited_for;
    if (parent && !(*parent)->instance.Stopped() && !(*parent)->instance.cancel_requested) {
      for (const Token& token : std::as_const((*parent)->instance.tokens)) {
        if (token.step && token.step->children) waited_for.insert(token.step->children->generation);
      }
    }
    Cancellation job{ns, {}, parent ? ModeOf((*parent)->instance) : CancelMode::kCancel};
    for (const auto& [child, generation] : children) {
      if (!waited_for.contains(generation)) job.ids.push_back(child);
    }
    if (!job.ids.empty()) cancelling_.push_back(std::move(job));
  }
}

}  // namespace dfsmr
