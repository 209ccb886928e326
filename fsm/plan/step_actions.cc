#include "fsm/plan/step_actions.h"

#include <algorithm>
#include <bit>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/plan/inherit.h"
#include "fsm/plan/middleware.h"

namespace dfsmr {
namespace {

bool GivesNothing(const ActionSource& own) {
  return !own.phases && !own.planned_by_worker && !own.queue && !own.priority &&
         own.timeout.empty() && !own.retry && !own.run_timeout && !own.ready_timeout &&
         !own.abandon_after && !own.poll && !own.rescue && own.rescue_from.empty() && !own.weight &&
         !own.input && !own.output && !own.limits && !own.on_conflict && !own.runs_on &&
         !own.dry_run && own.middleware.empty();
}

// All of a StepAction as text: equal for equal ones.
class Content {
 public:
  Content& Add(std::string_view text) {
    text_ += std::to_string(text.size());
    text_ += ':';
    text_ += text;
    return *this;
  }
  Content& Add(int64_t number) { return Add(std::string_view(std::to_string(number))); }
  Content& Add(Duration duration) { return Add(static_cast<int64_t>(duration.count())); }
  Content& Add(double number) { return Add(std::bit_cast<int64_t>(number)); }
  Content& Add(const TimeoutPolicy& timeout) {
    Add(static_cast<int64_t>(timeout.strategy)).Add(timeout.value);
    return Add(timeout.initial).Add(timeout.min).Add(timeout.max);
  }
  Content& Add(const RetryPolicy& retry) {
    Add(int64_t{retry.limit}).Add(retry.delay.initial).Add(retry.delay.factor);
    Add(retry.delay.max).Add(retry.delay.jitter).Add(static_cast<int64_t>(retry.on.size()));
    for (const std::string& entry : retry.on) Add(entry);
    return *this;
  }
  Content& Add(const AttemptBounds& bounds) {
    return Add(bounds.run_timeout).Add(bounds.ready_timeout).Add(int64_t{bounds.abandon_after});
  }
  Content& Add(const std::optional<PollPolicy>& poll) {
    if (!poll) return Add("");
    Add(int64_t{poll->per_interval}).Add(int64_t{poll->max_failures});
    for (Duration interval : poll->intervals) Add(interval);
    return *this;
  }
  std::string Take() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string ContentOf(const StepAction& action) {
  Content content;
  content.Add(action.name).Add(action.queue).Add(int64_t{action.priority}).Add(action.timeout);
  content.Add(action.retry)
      .Add(action.bounds)
      .Add(action.poll)
      .Add(static_cast<int64_t>(action.rescue));
  content.Add(action.weight.run).Add(action.weight.finalize);
  content.Add(static_cast<int64_t>(action.middleware.size()));
  for (const std::string& name : action.middleware) content.Add(name);
  content.Add(action.input.text).Add(action.output.text).Add(action.runs_on.agent);
  for (const std::string& word : action.runs_on.capabilities) content.Add(word);
  content.Add(action.dry_run.worker ? "worker" : action.dry_run.transition);
  content.Add(action.dry_run.output);
  return std::move(content).Take();
}

// What is wrong with its timeout keys taken together goes to `problems`.
StepAction StepActionOf(const ActionSource& action, std::vector<std::string>* problems) {
  StepAction made;
  made.name = action.id;
  if (action.queue) made.queue = *action.queue;
  if (action.priority) made.priority = *action.priority;
  std::vector<TimeoutProblem> wrong;
  made.timeout = PolicyOf(action.timeout, &wrong);
  for (const TimeoutProblem& one : wrong) {
    problems->push_back(std::string(one.key) + ": " + one.message);
  }
  if (action.retry) made.retry = *action.retry;
  if (action.run_timeout) made.bounds.run_timeout = *action.run_timeout;
  if (action.ready_timeout) made.bounds.ready_timeout = *action.ready_timeout;
  if (action.abandon_after) made.bounds.abandon_after = *action.abandon_after;
  made.poll = action.poll;
  if (action.rescue) made.rescue = *action.rescue;
  if (action.runs_on) made.runs_on = *action.runs_on;
  if (action.dry_run) made.dry_run = *action.dry_run;
  if (action.weight) made.weight = *action.weight;
  if (action.input) made.input = *action.input;
  if (action.output) made.output = *action.output;
  return made;
}

std::string NoMiddleware(std::string_view name, const std::vector<Use>& chain) {
  Nearest nearest(name);
  for (const Use& use : chain) nearest.Try(use.name);
  return "there is no middleware " + Quoted(name) + " to replace or do without" + nearest.Hint();
}

}  // namespace

uint32_t StepActions::Enter(uint32_t outer, const PlanSource& plan) {
  if (plan.middleware.empty()) return outer;
  auto [it, is_new] =
      context_ids_.try_emplace({outer, &plan.middleware}, static_cast<uint32_t>(contexts_.size()));
  if (is_new) contexts_.push_back({outer, &plan.middleware});
  return it->second;
}

const ActionSource& StepActions::Base(std::string_view action, const Where& where) {
  auto it = bases_.find(action);
  if (it != bases_.end()) return it->second;
  const ActionSource* known = action.empty() ? nullptr : draft_.args.library->FindAction(action);
  ActionSource base;
  if (known) {
    std::vector<PlanProblem> problems;
    base = Inherited(*known, *draft_.args.library, &problems);
    for (const PlanProblem& problem : problems) {
      std::vector<std::string> about = problem.about;
      about.emplace_back(action);
      draft_.problems.Add(where, {.message = "action " + Quoted(action) + ": " + problem.message,
                                  .about = std::move(about)});
    }
  }
  base.id = action;
  return bases_.emplace(action, std::move(base)).first->second;
}

const StepForm& StepActions::Of(std::string_view action, const ActionSource& own, uint32_t context,
                                const Where& where) {
  const ActionSource& base = Base(action, where);
  const void* key = GivesNothing(own) ? &base : &own;
  auto it = forms_.find({key, context});
  if (it != forms_.end()) return it->second;
  return forms_.emplace(std::pair(key, context), Make(base, own, context, where)).first->second;
}

StepForm StepActions::Make(const ActionSource& base, const ActionSource& own, uint32_t context,
                           const Where& where) {
  ActionSource action = base;
  OverrideKeys(own, &action);
  StepForm form;
  const Phases phases = action.phases.value_or(Phases{});
  form.run = phases.run;
  form.finalize = phases.finalize;
  form.planner = action.planned_by_worker.value_or(false);
  if (action.limits) form.limits = *action.limits;
  for (LimitAsk& ask : form.limits) {
    if (ask.singleton) ask.on_conflict = action.on_conflict.value_or(OnConflict::kFail);
  }
  if (action.with) form.with = *action.with;
  form.rescue_from = action.rescue_from;
  std::vector<std::string> wrong;
  StepAction made = StepActionOf(action, &wrong);
  for (const std::string& problem : wrong) draft_.problems.Add(where, problem);
  if (!action.id.empty()) made.middleware = Chain(base, own, context, where);
  form.action = Intern(std::move(made));
  return form;
}

std::vector<std::string> StepActions::Chain(const ActionSource& base, const ActionSource& own,
                                            uint32_t context, const Where& where) {
  std::vector<const MiddlewareSource*> plans;  // innermost first
  for (uint32_t at = context; at != 0; at = contexts_[at].outer) {
    plans.push_back(contexts_[at].middleware);
  }
  std::vector<Use> chain;
  for (size_t i = plans.size(); i-- > 0;) AddUses(plans[i]->use, &chain);
  AddUses(base.middleware.use, &chain);
  AddUses(own.middleware.use, &chain);
  const std::vector<Use> before = chain;
  for (const std::string& name : ApplyChanges(own.middleware, &chain)) {
    draft_.problems.Add(where, {.message = NoMiddleware(name, before), .about = {base.id}});
  }
  for (const MiddlewareSource* plan : plans) ApplyPlan(*plan, &chain);
  std::string cycle;
  std::vector<std::string> names = InOrder(chain, &cycle);
  if (!cycle.empty()) {
    draft_.problems.Add(where,
                        {.message = "middleware cannot be put in order, there is a cycle: " + cycle,
                         .about = {base.id}});
  }
  return names;
}

void StepActions::ApplyPlan(const MiddlewareSource& change, std::vector<Use>* chain) {
  if (change.replace.empty() && change.without.empty()) return;
  const std::vector<std::string> missing = ApplyChanges(change, chain);
  auto note = [&](const std::string& name) {
    if (std::ranges::find(missing, name) == missing.end()) used_.emplace(&change, name);
  };
  for (const auto& [name, replacement] : change.replace) note(name);
  for (const std::string& name : change.without) note(name);
}

void StepActions::ReportUnused() {
  std::vector<std::string> actions;
  for (const auto& [id, base] : bases_) actions.push_back(id);
  for (const Context& context : contexts_) {
    if (!context.middleware || context.outer != 0) continue;  // a nested plan is checked by itself
    if (context.middleware != &draft_.args.plan->middleware) continue;
    auto check = [&](const std::string& name) {
      if (used_.contains({context.middleware, name})) return;
      const std::string message =
          "no step has middleware " + Quoted(name) + " to replace or do without";
      draft_.problems.Add({.written = &context.middleware->written},
                          {.message = message, .about = actions});
    };
    for (const auto& [name, replacement] : context.middleware->replace) check(name);
    for (const std::string& name : context.middleware->without) check(name);
  }
}

uint32_t StepActions::WithRescue(uint32_t action, Rescue rescue) {
  StepAction other = draft_.graph.actions[action];
  other.rescue = rescue;
  return Intern(std::move(other));
}

uint32_t StepActions::Intern(StepAction action) {
  auto [it, is_new] =
      interned_.try_emplace(ContentOf(action), static_cast<uint32_t>(draft_.graph.actions.size()));
  if (is_new) draft_.graph.actions.push_back(std::move(action));
  return it->second;
}

}  // namespace dfsmr
