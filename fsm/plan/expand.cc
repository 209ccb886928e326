#include "fsm/plan/expand.h"

#include <algorithm>
#include <array>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// For each step of the most that there may be: blocks, iterations and plans that are visited, with
// or without steps; a plan counts for several.
constexpr size_t kVisitsOfStep = 10;
constexpr size_t kVisitsOfPlan = 4;

bool ReadsTriggersOutput(const std::string& with) {
  Result<std::vector<Reference>> references = References(with);
  return references && std::ranges::any_of(*references, [](const Reference& reference) {
           return reference.parts.size() > 1 && reference.parts[0].key == "trigger" &&
                  reference.parts[1].key == "output";
         });
}

}  // namespace

void PlanExpander::Fail(const FlowNode& node, const Scope& scope, std::string_view key,
                        std::string message, std::vector<std::string> about) {
  draft_.problems.Add({scope.body, &node.written, key},
                      {.message = std::move(message), .about = std::move(about)});
}

// When the plan is only defined, a value that is not known yet is no problem.
void PlanExpander::FailUnknown(const FlowNode& node, const Scope& scope, std::string_view key,
                               const PlanNames::Value& value) {
  const Where where = {scope.body, &node.written, key};
  if (!value.later) {
    draft_.problems.Add(where, {.message = value.message, .reference = value.reference});
  } else if (!draft_.Defining()) {
    draft_.problems.Add(where, "'instance.id' is not known here");
  }
}

// The kind of a value, as a message names it.
std::string_view PlanExpander::KindName(std::string_view json) {
  switch (json::KindOf(json)) {
    case json::Kind::kNull:
      return "null";
    case json::Kind::kBoolean:
      return "a boolean";
    case json::Kind::kNumber:
      return "a number";
    case json::Kind::kString:
      return "a string";
    case json::Kind::kObject:
      return "an object";
    case json::Kind::kArray:
      return "a list";
  }
  return "";
}

bool PlanExpander::Stopped() { return stopped_ || draft_.problems.full(); }

// ---- Names.

Scope* PlanExpander::AddScope(Scope scope) {
  if (scope.symbols) scope.entities.resize(scope.symbols->names.size());
  return &draft_.scopes.emplace_back(std::move(scope));
}

// `whole`: of a body, whose names are looked at; null for a part of one.
const Symbols& PlanExpander::SymbolsOf(const FlowNode& flow, const Body* whole) {
  auto [it, is_new] = draft_.symbols.try_emplace(&flow);
  if (is_new) CollectNames(flow, whole, &it->second);
  return it->second;
}

void PlanExpander::CollectNames(const FlowNode& node, const Body* whole, Symbols* symbols) {
  const bool section = node.kind == FlowNode::Kind::kSection;  // names in it are its own
  for (const FlowNode& child : node.children) {
    if (!section) CollectNames(child, whole, symbols);
  }
  if (!section && (node.kind != FlowNode::Kind::kStep || node.self_run)) return;
  const bool is_new =
      symbols->slots.emplace(node.name, static_cast<uint32_t>(symbols->names.size())).second;
  if (is_new) symbols->names.push_back(node.name);
  if (!whole) return;
  const Where where = {whole, &node.written, section ? "section" : "step"};
  if (auto problem = NameProblem("step", node.name)) {
    draft_.problems.Add(where, *problem);
  } else if (!is_new) {
    draft_.problems.Add(where, "there is a step " + Quoted(node.name) +
                                   " already; names must differ within a plan");
  }
}

void PlanExpander::SetEntity(Scope* scope, std::string_view name, Entity entity) {
  scope->entities[scope->symbols->slots.find(name)->second] = entity;
}

// ---- Order.

Span PlanExpander::Concurrent(const std::vector<Span>& spans) {
  Span only;
  size_t count = 0;
  for (const Span& span : spans) {
    if (span.empty()) continue;
    only = span;
    ++count;
  }
  if (count < 2) return only;
  const Span all = {draft_.order.AddGate(), draft_.order.AddGate()};
  for (const Span& span : spans) {
    if (span.empty()) continue;
    draft_.order.AddEdge(all.in, span.in);
    draft_.order.AddEdge(span.out, all.out);
  }
  return all;
}

Span PlanExpander::Sequential(const std::vector<Span>& spans) {
  Span all;
  for (const Span& span : spans) {
    if (span.empty()) continue;
    if (all.empty()) {
      all = span;
    } else {
      draft_.order.AddEdge(all.out, span.in);
      all.out = span.out;
    }
  }
  return all;
}

// A part that has a name, or waits for something, has a spot in the order though it has no steps.
Span PlanExpander::NeverEmpty(Span span) {
  if (!span.empty()) return span;
  const Spot gate = draft_.order.AddGate();
  return {gate, gate};
}

// ---- Blocks.

bool PlanExpander::LeavesOut(const FlowNode& node, const Scope& scope) {
  if (node.when.empty()) return false;
  draft_.graph.depends_on_params = true;
  const PlanNames::Value value = names_.Known(node.when, scope);
  if (!value.json) {
    FailUnknown(node, scope, "when", value);
    return false;
  }
  if (json::KindOf(*value.json) == json::Kind::kBoolean) {
    return json::Trim(*value.json) == "false" && !draft_.Defining();
  }
  Fail(node, scope, "when",
       "'when' wants true or false; this is " + std::string(KindName(*value.json)));
  return false;
}

Span PlanExpander::Expand(const FlowNode& node, Scope* scope, bool left_out) {
  if (Stopped()) return {};
  if (depth_ >= limits::kFlowDepth) {
    stopped_ = true;
    Fail(node, *scope, "", "blocks and plans are nested too deeply");
    return {};
  }
  if (++visited_ > kVisitsOfStep * draft_.args.steps_max) {
    stopped_ = true;
    const Where where = {scope->body, &node.written, ""};
    draft_.problems.Add(where,
                        PlanProblem{.message = "the plan has too many parts", .too_large = true});
    return {};
  }
  ++depth_;
  left_out = LeavesOut(node, *scope) || left_out;
  Span span = ExpandKind(node, scope, left_out);
  if (!node.after.empty() && !Stopped()) {
    span = NeverEmpty(span);
    draft_.afters.push_back(
        {{scope->body, &node.written, "after"}, scope, &node, span.in, section_});
  }
  --depth_;
  return span;
}

Span PlanExpander::ExpandKind(const FlowNode& node, Scope* scope, bool left_out) {
  if (node.kind == FlowNode::Kind::kForEach) return ExpandForEach(node, scope, left_out);
  if (node.kind == FlowNode::Kind::kSection) return ExpandSection(node, scope, left_out);
  if (node.kind == FlowNode::Kind::kStep) {
    return node.self_run ? ExpandSelf(node, scope, left_out) : ExpandStep(node, scope, left_out);
  }
  std::vector<Span> spans;
  spans.reserve(node.children.size());
  for (const FlowNode& child : node.children) spans.push_back(Expand(child, scope, left_out));
  return node.kind == FlowNode::Kind::kSequence ? Sequential(spans) : Concurrent(spans);
}

// ---- Steps.

uint32_t PlanExpander::AddStep(Step::Kind kind, std::string path, std::string of, uint32_t action,
                               StepDraft draft) {
  const auto index = static_cast<uint32_t>(draft_.graph.steps.size());
  if (index >= draft_.args.steps_max) stopped_ = true;  // CompilePlan reports it
  if (path.size() > limits::kStepPath) {
    stopped_ = true;
    draft_.problems.Add(draft.where, "the step's path " + Quoted(path) + " is longer than " +
                                         std::to_string(limits::kStepPath) + " characters");
  }
  Step& step = draft_.graph.steps.emplace_back();
  step.path = std::move(path);
  step.of = std::move(of);
  step.kind = kind;
  step.action = action;
  draft.in = index;
  draft.section = section_;
  draft_.steps.push_back(std::move(draft));
  return index;
}

Span PlanExpander::ExpandStep(const FlowNode& node, Scope* scope, bool left_out) {
  std::string path = scope->body->prefix + node.name + scope->numbers;
  std::string of = scope->body->of_prefix + node.name + scope->stars;
  if (left_out) return ExpandLeftOut(node, scope, std::move(path), std::move(of));
  if (!node.plan.empty()) return ExpandPlan(node, scope, std::move(path), std::move(of));
  if (node.spawn) return ExpandSpawn(node, scope, std::move(path), std::move(of));
  if (node.action.empty()) Fail(node, *scope, "", "a step needs an action, a plan or a spawn");
  Task task{.action = node.action, .own = &node.own, .input = &node.input, .scope = scope};
  task.where = {scope->body, &node.written, ""};
  task.path = path;
  task.of = std::move(of);
  Entity entity;
  const auto first = static_cast<uint32_t>(draft_.steps.size());
  Span span = ExpandAction(std::move(task), &entity);
  SetEntity(scope, node.name, entity);
  if (!node.condition || first == draft_.steps.size()) return span;
  const bool alone = draft_.steps.size() == first + 1;
  if (!alone) span = Decided(node, scope, path + "/gate", first, span);
  draft_.steps[first].decision = alone ? first : span.in;
  if (alone) draft_.steps[first].decided = &node;
  return span;
}

Span PlanExpander::Decided(const FlowNode& node, Scope* scope, std::string path, uint32_t first,
                           Span span) {
  const Where where = {scope->body, &node.written, ""};
  const StepForm& form = actions_.Of("", node.own, scope->body->context, where);
  const auto end = static_cast<uint32_t>(draft_.steps.size());
  std::string of = path;
  const uint32_t step =
      AddStep(Step::Kind::kPass, std::move(path), std::move(of), form.action,
              {.where = where, .scope = scope, .decided = &node, .members = {first, end}});
  draft_.order.AddEdge(step, span.in);
  return {step, span.out};
}

Span PlanExpander::ExpandLeftOut(const FlowNode& node, Scope* scope, std::string path,
                                 std::string of) {
  const Where where = {scope->body, &node.written, ""};
  const StepForm& form = actions_.Of(node.action, node.own, scope->body->context, where);
  const uint32_t step = AddStep(Step::Kind::kPass, std::move(path), std::move(of), form.action,
                                {.where = where, .scope = scope, .opaque = true});
  draft_.graph.steps[step].left_out = true;
  SetEntity(scope, node.name, {Entity::Kind::kStep, step});
  return {step, step};
}

Span PlanExpander::ExpandSpawn(const FlowNode& node, Scope* scope, std::string path,
                               std::string of) {
  const Where where = {scope->body, &node.written, ""};
  const Library& library = *draft_.args.library;
  const std::string& machine = node.spawn->machine;
  if (machine != draft_.args.plan->id && !library.HasMachine(machine) &&
      !library.FindPlan(machine) && !library.FindAction(machine)) {
    Fail(node, *scope, "spawn", "there is no plan, machine or action " + Quoted(machine),
         {machine});
  }
  CheckAs(node, node.spawn->as, *scope);
  const StepForm& form = actions_.Of("", node.own, scope->body->context, where);
  const uint32_t step = AddStep(Step::Kind::kSpawn, std::move(path), std::move(of), form.action,
                                {.where = where, .scope = scope, .spawn = &*node.spawn});
  SetEntity(scope, node.name, {Entity::Kind::kStep, step});
  if (node.condition) {
    draft_.steps[step].decided = &node;
    draft_.steps[step].decision = step;
  }
  return {step, step};
}

// ---- Nested plans.

bool PlanExpander::GoesRound(const FlowNode& node, const PlanSource& plan, const Body& body) {
  std::vector<std::string_view> around;
  for (const Body* at = &body; at; at = at->around) {
    if (at->plan.empty()) continue;
    around.push_back(at->plan);
    if (at->plan != plan.id) continue;
    std::string path;
    for (size_t i = around.size(); i-- > 0;) path += std::string(around[i]) + " → ";
    draft_.problems.Add(
        {&body, &node.written, "plan"},
        {.message = "plans hold each other: " + path + plan.id, .about = {plan.id}});
    return true;
  }
  return false;
}

void PlanExpander::CheckParams(const FlowNode& node, const PlanSource& plan, const Scope& scope) {
  if (!plan.params.check) return;
  const PlanNames::Value input = names_.Known(node.input, scope);
  if (!input.json) {
    if (input.later) draft_.graph.depends_on_params = true;
    return;
  }
  if (auto violation = plan.params.check->Violation(*input.json)) {
    Fail(node, scope, "input",
         "it does not fit the params of plan " + Quoted(plan.id) + ": " + *violation, {plan.id});
  }
}

Span PlanExpander::ExpandPlan(const FlowNode& node, Scope* scope, std::string path,
                              std::string of) {
  const Library& library = *draft_.args.library;
  const PlanSource* plan =
      node.plan == draft_.args.plan->id ? draft_.args.plan : library.FindPlan(node.plan);
  if (!plan) {
    std::string hint;
    if (library.HasMachine(node.plan)) hint = "; it is a machine, which can be spawned";
    if (library.FindAction(node.plan)) hint = "; it is an action: write 'action:'";
    Fail(node, *scope, "plan", "there is no plan " + Quoted(node.plan) + hint, {node.plan});
    return {};
  }
  if (GoesRound(node, *plan, *scope->body)) return {};
  CheckParams(node, *plan, *scope);
  if (path.size() > limits::kStepPath) {
    stopped_ = true;
    Fail(node, *scope, "step",
         "the path " + Quoted(path) + " is longer than " + std::to_string(limits::kStepPath) +
             " characters");
    return {};
  }
  visited_ += kVisitsOfPlan;
  Body& body = draft_.bodies.emplace_back();
  body.around = scope->body;
  body.plan = plan->id;
  body.title = "plan " + Quoted(plan->id);
  body.site = scope->body->site ? scope->body->site : &node.written;
  body.prefix = path + ".";
  body.of_prefix = of + ".";
  body.context = actions_.Enter(scope->body->context, *plan);
  Scope* inner = AddScope(
      {.body = &body, .symbols = &SymbolsOf(plan->flow, &body), .caller = scope, .call = &node});
  draft_.nested.push_back(inner);
  const auto first = static_cast<uint32_t>(draft_.steps.size());
  Span span = NeverEmpty(Expand(plan->flow, inner, false));
  if (node.condition && !Stopped()) {
    span = Decided(node, scope, std::move(path), first, span);
    inner->decision = span.in;
  }
  const auto bundle = static_cast<uint32_t>(draft_.bundles.size());
  draft_.bundles.push_back(
      {.kind = Bundle::Kind::kPlan, .scope = inner, .out = span.out, .section = section_});
  SetEntity(scope, node.name, {Entity::Kind::kBundle, bundle});
  return span;
}

// ---- Actions.

Span PlanExpander::ExpandAction(Task task, Entity* entity) {
  const StepForm& form = actions_.Of(task.action, *task.own, task.scope->body->context, task.where);
  StepDraft draft{.where = task.where, .scope = task.scope, .input = task.input};
  if (!draft.input) draft.input = &form.with;
  if (!form.limits.empty()) draft.limits = &form.limits;
  const bool asks = form.planner && !draft_.Defining();
  const PlannedFlows* flows = draft_.args.planned;
  auto planned = asks && flows ? flows->find(task.path) : PlannedFlows::const_iterator();
  const bool unplanned = asks && (!flows || planned == flows->end());
  draft.opaque = form.planner;
  const uint32_t step =
      AddStep(form.run || unplanned || (form.planner && draft_.Defining()) ? Step::Kind::kWork
                                                                           : Step::Kind::kPass,
              task.path, task.of, ActionOf(form, task), std::move(draft));
  // A compensation mostly does not run, and is over long before the finalize phases.
  draft_.graph.steps[step].finalize =
      form.finalize && CompensationAround(draft_.graph, section_) == kNoSection;
  *entity = {Entity::Kind::kStep, step};
  Span span = {step, step};
  if (form.planner) draft_.graph.depends_on_params = true;
  if (form.planner && section_ != kNoSection) {
    draft_.problems.Add(task.where,
                        {.message = "a worker plans the action " + Quoted(task.action) +
                                    ", which cannot be in a section: what is tried again as a "
                                    "whole has to be known before it begins",
                         .about = {std::string(task.action)}});
  }
  if (unplanned) {
    draft_.unplanned.push_back(step);
  } else if (asks) {
    span = ExpandPlanned(task, step, form, *planned->second, entity);
  }
  return AddSubscribers(task, *entity, step, span);
}

uint32_t PlanExpander::ActionOf(const StepForm& form, const Task& task) {
  static constexpr std::array<std::string_view, 3> kWords = {"\"pause\"", "\"skip\"", "\"fail\""};
  if (form.rescue_from.empty()) return form.action;
  draft_.graph.depends_on_params = true;
  const PlanNames::Value value = names_.Known(form.rescue_from, *task.scope);
  Where where = task.where;
  if (!task.own->rescue_from.empty()) where.key = "rescue";
  if (!value.json) {
    if (!value.later) {
      draft_.problems.Add(where, {.message = "rescue: " + value.message,
                                  .about = {std::string(task.action)},
                                  .reference = value.reference});
    }
    return form.action;
  }
  const auto word = std::ranges::find(kWords, json::Trim(*value.json));
  if (word != kWords.end()) {
    return actions_.WithRescue(form.action, static_cast<Rescue>(word - kWords.begin()));
  }
  draft_.problems.Add(where, {.message = "'rescue' wants pause, skip or fail; " +
                                         json::Unquote(form.rescue_from) + " is " + *value.json,
                              .about = {std::string(task.action)}});
  return form.action;
}

Span PlanExpander::ExpandPlanned(const Task& task, uint32_t step, const StepForm& form,
                                 const PlanSource& planned, Entity* entity) {
  draft_.steps[step].opaque = false;
  Body& body = draft_.bodies.emplace_back();
  body.around = task.scope->body;
  body.title = "the flow that " + Quoted(task.path) + " planned";
  body.site = task.scope->body->site ? task.scope->body->site : task.where.written;
  body.prefix = task.path + ".";
  body.of_prefix = task.of + ".";
  body.context = actions_.Enter(task.scope->body->context, planned);
  body.planner = step;
  const auto bundle = static_cast<uint32_t>(draft_.bundles.size());
  Scope* inner = AddScope({.body = &body,
                           .outer = task.scope,
                           .symbols = &SymbolsOf(planned.flow, &body),
                           .planner = bundle});
  draft_.bundles.push_back(
      {.kind = Bundle::Kind::kPlanner, .scope = inner, .own = step, .runs = form.run});
  *entity = {Entity::Kind::kBundle, bundle};
  Span span = Expand(planned.flow, inner, false);
  if (!body.self_placed) span = Concurrent({{step, step}, span});
  draft_.bundles[bundle].out = span.out;
  return span;
}

Span PlanExpander::ExpandSelf(const FlowNode& node, Scope* scope, bool left_out) {
  Body& body = *scope->body;
  if (body.planner == kNothing) {
    Fail(node, *scope, "self", "'self' stands only in the flow that a planner's worker reports");
    return {};
  }
  if (body.self_placed || scope->numbers != "" || scope->planner == kNothing) {
    Fail(node, *scope, "self",
         "'self' can stand only once, and neither in a for_each nor in a section");
    return {};
  }
  body.self_placed = true;
  if (left_out) {
    Step& step = draft_.graph.steps[body.planner];
    step.kind = Step::Kind::kPass;
    step.left_out = true;
    step.finalize = false;
  }
  return {body.planner, body.planner};
}

// A subscriber waits for what its trigger waits for; when it needs the trigger's output, for the
// trigger. Nothing waits for a subscriber.
Span PlanExpander::AddSubscribers(const Task& task, Entity trigger, uint32_t step, Span span) {
  auto [known, is_new] = subscribers_.try_emplace(std::string(task.action));
  if (is_new) known->second = draft_.args.library->SubscribersOf(task.action);
  if (known->second.empty()) return span;
  std::vector<std::string_view> triggers = task.triggers;
  triggers.push_back(task.action);
  Spot in = PlanOrder::kNone;
  for (const ActionSource* action : known->second) {
    if (Stopped()) return span;
    if (auto seen = std::ranges::find(triggers, action->id); seen != triggers.end()) {
      std::string path;
      for (; seen != triggers.end(); ++seen) path += std::string(*seen) + " → ";
      draft_.problems.Add(task.where,
                          {.message = "actions subscribe to each other: " + path + action->id,
                           .about = {action->id}});
      continue;
    }
    Scope* scope = AddScope({.body = task.scope->body,
                             .outer = task.scope,
                             .trigger = step,
                             .trigger_entity = trigger});
    static const ActionSource kNoKeys;
    Task subscriber{.action = action->id, .own = &kNoKeys, .scope = scope};
    subscriber.where = {task.where.body, task.where.written, "", action->id};
    subscriber.path = task.path + "." + action->id;
    subscriber.of = task.of + "." + action->id;
    subscriber.triggers = triggers;
    const uint32_t first = static_cast<uint32_t>(draft_.steps.size());
    Entity entity;
    const Span beside = ExpandAction(std::move(subscriber), &entity);
    if (section_ != kNoSection && !beside.empty()) {
      draft_.order.AddEdge(beside.out, draft_.graph.sections[section_].exit());
    }
    if (first < draft_.steps.size() && ReadsTriggersOutput(*draft_.steps[first].input)) {
      const bool plans = !beside.empty() && beside.in != first;
      if (plans) draft_.order.AddEdge(span.out, beside.in);  // all of it stands behind the trigger
      continue;
    }
    if (in == PlanOrder::kNone) in = draft_.order.AddGate();
    /*mutant subscriber-waits-for-nothing*/ draft_.order.AddEdge(in, beside.in); /*end*/
  }
  if (in == PlanOrder::kNone) return span;
  draft_.order.AddEdge(in, span.in);
  if (span.in == step) draft_.steps[step].in = in;
  return {in, span.out};
}

void PlanExpander::Run() {
  const PlanSource& plan = *draft_.args.plan;
  Body& body = draft_.bodies.emplace_back();
  body.plan = plan.id;
  body.context = actions_.Enter(0, plan);
  Scope* scope = AddScope({.body = &body, .symbols = &SymbolsOf(plan.flow, &body)});
  Expand(plan.flow, scope, false);
}

}  // namespace dfsmr
