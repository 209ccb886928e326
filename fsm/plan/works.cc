#include "fsm/plan/works.h"

#include <algorithm>
#include <bit>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/plan/middleware.h"

namespace dfsmr {
namespace {

bool GivesNothing(const ActionSource& own) {
  return !own.phases && !own.planned_by_worker && !own.queue && !own.priority &&
         own.timeout.empty() && !own.retry && !own.poll && !own.rescue && !own.weight &&
         !own.input && !own.output && !own.singleton && !own.on_conflict && own.middleware.empty();
}

// All of a Work as text: equal for equal ones.
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
    return Add(retry.delay.max).Add(retry.delay.jitter);
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

std::string ContentOf(const Work& work) {
  Content content;
  content.Add(work.action).Add(work.queue).Add(int64_t{work.priority}).Add(work.timeout);
  content.Add(work.retry).Add(work.poll).Add(static_cast<int64_t>(work.rescue));
  content.Add(work.weight.run).Add(work.weight.finalize);
  content.Add(static_cast<int64_t>(work.middleware.size()));
  for (const std::string& name : work.middleware) content.Add(name);
  content.Add(work.input.text).Add(work.output.text);
  content.Add(static_cast<int64_t>(work.on_conflict));
  return std::move(content).Take();
}

// What its timeout keys come to wrong together goes to `problems`.
Work WorkOf(const ActionSource& action, std::vector<std::string>* problems) {
  Work work;
  work.action = action.id;
  if (action.queue) work.queue = *action.queue;
  if (action.priority) work.priority = *action.priority;
  std::vector<TimeoutProblem> wrong;
  work.timeout = PolicyOf(action.timeout, &wrong);
  for (const TimeoutProblem& one : wrong) {
    problems->push_back(std::string(one.key) + ": " + one.message);
  }
  if (action.retry) work.retry = *action.retry;
  work.poll = action.poll;
  if (action.rescue) work.rescue = *action.rescue;
  if (action.weight) work.weight = *action.weight;
  if (action.input) work.input = *action.input;
  if (action.output) work.output = *action.output;
  if (action.on_conflict) work.on_conflict = *action.on_conflict;
  return work;
}

std::string NoMiddleware(std::string_view name, const std::vector<Use>& chain) {
  Nearest nearest(name);
  for (const Use& use : chain) nearest.Try(use.name);
  return "there is no middleware " + Quoted(name) + " to replace or do without" + nearest.Hint();
}

}  // namespace

uint32_t PlanWorks::Enter(uint32_t outer, const PlanSource& plan) {
  if (plan.middleware.empty()) return outer;
  auto [it, is_new] = context_ids_.try_emplace({outer, &plan.middleware},
                                               static_cast<uint32_t>(contexts_.size()));
  if (is_new) contexts_.push_back({outer, &plan.middleware});
  return it->second;
}

const ActionSource& PlanWorks::Base(std::string_view action, const Where& where) {
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

const WorkInfo& PlanWorks::Of(std::string_view action, const ActionSource& own, uint32_t context,
                              const Where& where) {
  const ActionSource& base = Base(action, where);
  const void* key = GivesNothing(own) ? &base : &own;
  auto it = infos_.find({key, context});
  if (it != infos_.end()) return it->second;
  return infos_.emplace(std::pair(key, context), Make(base, own, context, where)).first->second;
}

WorkInfo PlanWorks::Make(const ActionSource& base, const ActionSource& own, uint32_t context,
                         const Where& where) {
  ActionSource action = base;
  OverrideKeys(own, &action);
  WorkInfo info;
  const Phases phases = action.phases.value_or(Phases{});
  info.run = phases.run;
  info.finalize = phases.finalize;
  info.planner = action.planned_by_worker.value_or(false);
  if (action.singleton) info.singleton = json::Quote(*action.singleton);
  if (action.with) info.with = *action.with;
  std::vector<std::string> wrong;
  Work work = WorkOf(action, &wrong);
  for (const std::string& problem : wrong) draft_.problems.Add(where, problem);
  if (!action.id.empty()) work.middleware = Chain(base, own, context, where);
  info.work = Intern(std::move(work));
  return info;
}

std::vector<std::string> PlanWorks::Chain(const ActionSource& base, const ActionSource& own,
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

void PlanWorks::ApplyPlan(const MiddlewareSource& change, std::vector<Use>* chain) {
  if (change.replace.empty() && change.without.empty()) return;
  const std::vector<std::string> missing = ApplyChanges(change, chain);
  auto note = [&](const std::string& name) {
    if (std::ranges::find(missing, name) == missing.end()) used_.emplace(&change, name);
  };
  for (const auto& [name, replacement] : change.replace) note(name);
  for (const std::string& name : change.without) note(name);
}

void PlanWorks::ReportUnused() {
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

uint32_t PlanWorks::Intern(Work work) {
  auto [it, is_new] = interned_.try_emplace(ContentOf(work),
                                            static_cast<uint32_t>(draft_.graph.works.size()));
  if (is_new) draft_.graph.works.push_back(std::move(work));
  return it->second;
}

}  // namespace dfsmr
