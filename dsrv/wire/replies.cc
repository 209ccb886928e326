#include "dsrv/wire/replies.h"

#include "dsrv/engine/package_version.h"
#include "dsrv/engine/waits.h"
#include "dsrv/wire/plan_view.h"
#include "fsm/base/limits.h"
#include "fsm/condition/condition.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/group.h"
#include "fsm/rules/rules.h"

namespace dfsmr {
namespace {

static_assert(static_cast<int>(InstanceState::kStopped) == v1::Instance::STOPPED);
static_assert(static_cast<int>(InstanceResult::kAborted) == v1::Instance::ABORTED);
static_assert(static_cast<int>(TokenState::kDone) == v1::Token::DONE);
static_assert(static_cast<int>(ChangeKind::kBreakerClosed) == v1::Change::BREAKER_CLOSED);
static_assert(static_cast<int>(WaitView::Kind::kGroupPaused) == v1::Wait::GROUP_PAUSED);
static_assert(static_cast<int>(ChangeKind::kLate) == v1::Change::LATE);
static_assert(static_cast<int>(CancelMode::kKill) == v1::CancelRequest::KILL);
static_assert(static_cast<int>(ChangeKind::kOccurred) == v1::Change::OCCURRED);
static_assert(static_cast<int>(ChangeKind::kStartRefused) == v1::Change::START_REFUSED);
static_assert(static_cast<int>(ChangeKind::kPackagePushed) == v1::Change::PACKAGE_PUSHED);
static_assert(static_cast<int>(ChangeKind::kRetired) == v1::Change::RETIRED);
static_assert(static_cast<int>(ChangeKind::kImported) == v1::Change::IMPORTED);

void Set(Timestamp t, google::protobuf::Timestamp* out) {
  const int64_t us = Micros(t);
  out->set_seconds(us / 1'000'000);
  out->set_nanos(static_cast<int32_t>(us % 1'000'000 * 1'000));
}

void Set(Duration d, google::protobuf::Duration* out) {
  out->set_seconds(d.count() / 1'000'000);
  out->set_nanos(static_cast<int32_t>(d.count() % 1'000'000 * 1'000));
}

void ToProto(const RetryPolicy& retry, v1::RetryPolicy* out) {
  out->set_limit(retry.limit);
  if (retry.delay.initial > Duration::zero()) Set(retry.delay.initial, out->mutable_delay());
  out->set_factor(retry.delay.factor);
  if (retry.delay.max < Duration::max()) Set(retry.delay.max, out->mutable_max());
  out->set_jitter(retry.delay.jitter);
  for (const std::string& entry : retry.on) out->add_on(entry);
}

}  // namespace

void ToProto(const WaitView& wait, v1::Wait* out) {
  out->set_kind(static_cast<v1::Wait::Kind>(wait.kind));
  out->set_key(wait.key);
  out->set_max(wait.max);
  out->set_held(wait.held);
  out->set_ahead(wait.ahead);
  for (const std::string& holder : wait.holders) out->add_holders(holder);
  if (wait.until != kNever) Set(wait.until, out->mutable_until());
}

void ToProto(Timestamp t, google::protobuf::Timestamp* out) { Set(t, out); }
void ToProto(Duration d, google::protobuf::Duration* out) { Set(d, out); }

grpc::Status ToStatus(const Error& error) {
  constexpr size_t kTold = 6'000;  // bytes: clients take headers of 8 KiB
  return {static_cast<grpc::StatusCode>(error.code), Cut(error.message, kTold)};
}

void ToProto(const Error& error, v1::Error* out) {
  out->set_code(static_cast<int>(error.code));
  out->set_reason(std::string(Name(error.reason)));
  out->set_message(error.message);
}

void ToProto(const Diagnostic& diagnostic, v1::Diagnostic* out) {
  out->set_severity(diagnostic.error ? v1::Diagnostic::ERROR : v1::Diagnostic::WARNING);
  out->set_source_name(diagnostic.source_name);
  out->set_line(diagnostic.line);
  out->set_column(diagnostic.column);
  out->set_path(diagnostic.path);
  out->set_message(diagnostic.message);
}

void ToProto(const Defined& defined, v1::Defined* out) {
  out->set_kind(std::string(defined.kind));
  out->set_id(defined.id);
  out->set_version(defined.version);
  out->set_changed(defined.changed);
  if (defined.strategy) out->set_upgrade_strategy(std::string(Name(*defined.strategy)));
  out->set_affected_instances(defined.affected);
}

static void ToProto(const RunsOn& runs_on, v1::RunsOn* out) {
  for (const std::string& word : runs_on.capabilities) out->add_capabilities(word);
  out->set_agent(runs_on.agent);
}

void ToProto(const Node& node, const Machine& machine, v1::Node* out) {
  out->set_id(node.id);
  out->set_kind(std::string(Name(node.kind)));
  out->set_start(node.start);
  out->set_final(node.kind == NodeKind::kFinal);
  out->set_join(node.join == Join::kAll ? "all" : "any");
  const std::vector<ConditionPtr>& choices = node.settings->choices;
  for (size_t i = 0; i < node.transitions.size(); ++i) {
    const Edge& edge = node.transitions[i];
    v1::Edge* to = out->add_transitions();
    to->set_transition(edge.transition);
    if (i < choices.size() && choices[i]) to->set_condition(TextOf(*choices[i]));
    for (NodeIndex target : edge.targets) to->add_targets(machine.nodes[target].id);
  }
  if (node.kind != NodeKind::kWork) return;
  const bool fixed = node.settings->timeout.strategy == TimeoutPolicy::Strategy::kFixed;
  out->set_timeout_strategy(fixed ? "fixed" : "percentile");
  out->set_timeout(node.settings->timeout.value);
  out->set_action(node.settings->action);
  out->set_queue(node.settings->queue);
  const LimitAsks* asks = &node.settings->limits;
  if (machine.graph && node.role == Role::kRun) {
    auto found = machine.graph->limits.find(node.step);
    if (found != machine.graph->limits.end()) asks = &found->second;
  }
  for (const LimitAsk& ask : *asks) out->add_limits(ask.key);
  if (!node.settings->runs_on.empty()) ToProto(node.settings->runs_on, out->mutable_runs_on());
  const RetryPolicy& retry = node.settings->retry;
  if (retry.limit > 1) ToProto(retry, out->mutable_retry());
  const AttemptBounds& bounds = node.settings->bounds;
  if (bounds.run_timeout > Duration::zero()) Set(bounds.run_timeout, out->mutable_run_timeout());
  if (bounds.ready_timeout > Duration::zero()) {
    Set(bounds.ready_timeout, out->mutable_ready_timeout());
  }
  out->set_abandon_after(bounds.abandon_after);
}

namespace {

void ToProto(const NodeStats& stats, v1::NodeStats* out) {
  out->set_ready(stats.ready);
  out->set_claimed(stats.claimed);
  out->set_waiting(stats.waiting);
  out->set_held(stats.held);
  out->set_completed(stats.completed);
  out->set_timed_out(stats.timed_out);
  out->set_limited(stats.limited);
  if (stats.p50) Set(*stats.p50, out->mutable_p50());
  if (stats.p95) Set(*stats.p95, out->mutable_p95());
  if (stats.timeout_now) Set(*stats.timeout_now, out->mutable_timeout_now());
}

void ToProto(const Claim& claim, v1::Claim* out) {
  out->set_worker(claim.worker);
  out->set_attempt(claim.attempt);
  Set(claim.claim_time, out->mutable_claim_time());
  if (claim.deadline != kNever) {
    Set(claim.deadline, claim.Begun() ? out->mutable_deadline() : out->mutable_begin_by());
  }
  out->set_timed_out(claim.timed_out);
  out->set_progress(claim.progress);
  if (claim.Begun()) Set(claim.BeginTime(), out->mutable_begin_time());
  if (!claim.operation) return;
  out->set_note(claim.operation->note);
  out->set_lost(claim.operation->lost);
}

// Sent to the agent that has the claim, and not done yet.
void ShowOrder(const Instance& instance, const Token& token, const Claim& claim, v1::Claim* out) {
  if (!rules::IsToldToStop(instance, token)) return;
  if (!claim.operation || claim.operation->agent.empty()) return;
  if (!claim.Begun() || claim.ended) return;
  out->set_order(v1::CancelRequest::CANCEL);
  Set(instance.cancel_time, out->mutable_order_time());
}

void ToProto(const Instance& instance, const Token& token, const std::string& node,
             uint32_t tries_limit, v1::Token* out) {
  out->set_node(node);
  out->set_tries(TriesOf(token));
  out->set_tries_limit(tries_limit);
  out->set_visit(token.visit);
  out->set_state(static_cast<v1::Token::State>(token.state));
  out->set_attempt(token.attempt);
  out->set_params(token.params);
  for (const Claim& claim : token.claims) {
    if (claim.given_back) continue;
    ToProto(claim, out->add_claims());
    ShowOrder(instance, token, claim, out->mutable_claims(out->claims_size() - 1));
  }
  if (token.state != TokenState::kDone && token.available_at != kNever) {
    Set(token.available_at, out->mutable_available_at());
  }
  out->set_error(token.error);
  if (token.runs_on) ToProto(*token.runs_on, out->mutable_runs_on());
  if (!token.handling) return;
  out->set_checkpoint(token.handling->checkpoint);
  out->set_abandoned(token.handling->abandoned);
  for (const Handling::Refusal& refusal : token.handling->refusals) {
    v1::Refusal* to = out->add_refusals();
    to->set_worker(refusal.worker);
    Set(refusal.time, to->mutable_time());
    to->set_reason(refusal.reason);
  }
}

}  // namespace

void ToProto(const PackageVersion& package, v1::PackageRef* out) {
  out->set_name(package.package);
  out->set_version(package.version);
  out->set_digest(package.digest);
}

void ToProto(const MachineView& view, v1::Machine* out) {
  const Machine& machine = view.definition->machine;
  const Machine& shown = *view.machine;
  out->set_namespace_(view.definition->ns);
  out->set_id(machine.id);
  out->set_version(view.definition->version);
  out->set_kind(std::string(KindName(machine.defined_as)));
  out->set_source(machine.source);
  out->set_upgrade_strategy(std::string(Name(machine.upgrade_strategy)));
  for (size_t i = 0; i < shown.nodes.size(); ++i) {
    v1::Node* node = out->add_nodes();
    ToProto(shown.nodes[i], shown, node);
    ToProto(view.nodes[i], node->mutable_stats());
  }
  if (view.machine->graph) ShowSteps(*view.machine, out);
  for (std::string_view system : {kUpgradedNode, kAbortedNode, kTimeoutNode, kCancelledNode}) {
    v1::Node* node = out->add_nodes();
    node->set_id(std::string(system));
    node->set_kind("system");
    node->set_join("any");
  }
  if (view.definition->package) ToProto(*view.definition->package, out->mutable_package());
  out->set_retired(view.retired);
  Set(view.definition->define_time, out->mutable_define_time());
  v1::MachineStats* stats = out->mutable_stats();
  stats->set_scheduled(view.stats.scheduled);
  stats->set_running(view.stats.running);
  stats->set_paused(view.stats.paused);
  stats->set_stopped(view.stats.stopped);
  stats->set_retry_rate(view.stats.retry_rate);
  stats->set_breaker(std::string(view.stats.breaker));
}

static void ShowInstance(const InstanceView& view, size_t tokens, v1::Instance* out) {
  const Instance& instance = view.instance;
  out->set_namespace_(instance.ns);
  out->set_id(instance.id);
  out->set_partition(view.partition);
  out->set_machine(instance.machine);
  out->set_version(instance.version);
  out->set_state(static_cast<v1::Instance::State>(instance.state));
  out->set_result(static_cast<v1::Instance::Result>(instance.result));
  const InstanceWaits own = view.waits ? InstanceWaits() : WaitsIn(instance);
  const InstanceWaits& waits = view.waits ? *view.waits : own;
  for (const WaitView& wait : waits.instance) ToProto(wait, out->add_waits_for());
  out->set_leftovers(static_cast<uint32_t>(view.waits ? waits.leftovers : view.leftovers));
  out->set_token_count(instance.tokens.size() + view.more_tokens);
  for (size_t i = 0; i < instance.tokens.size() && i < tokens; ++i) {
    v1::Token* token = out->add_tokens();
    ToProto(instance, instance.tokens[i], view.nodes[i], view.tries_limits[i], token);
    const auto why = waits.why.find(instance.tokens[i].visit);
    if (why != waits.why.end() && token->state() == v1::Token::READY) token->set_why(why->second);
    const auto of_token = waits.tokens.find(instance.tokens[i].visit);
    if (of_token == waits.tokens.end()) continue;
    for (const WaitView& wait : of_token->second) ToProto(wait, token->add_waits_for());
  }
  out->set_priority(instance.priority);
  if (instance.start_time != Timestamp()) Set(instance.start_time, out->mutable_start_time());
  if (instance.end_time != Timestamp()) Set(instance.end_time, out->mutable_end_time());
  if (instance.start_at != Timestamp()) Set(instance.start_at, out->mutable_start_at());
  if (instance.start_before != kNever) Set(instance.start_before, out->mutable_start_before());
  out->set_parent(instance.parent);
  if (instance.change_time != Timestamp()) Set(instance.change_time, out->mutable_change_time());
  out->set_progress(ProgressOf(instance));
  if (instance.plan) out->set_label(instance.plan->label);
  out->set_error(instance.error);
  out->set_cancel(static_cast<v1::CancelRequest::Mode>(instance.cancel));
  if (instance.cancel_time != Timestamp()) Set(instance.cancel_time, out->mutable_cancel_time());
  out->set_resumable(instance.Stopped() && instance.resumable && !view.left_behind);
  out->set_dry_run(static_cast<bool>(instance.dry_run));
  if (view.package) ToProto(*view.package, out->mutable_package());
  if (!instance.provenance) return;
  out->set_group(instance.provenance->group);
  out->set_cause(instance.provenance->cause);
  out->set_depth(instance.provenance->depth);
  if (view.waits_for_group) {
    v1::Wait* wait = out->add_waits_for();
    wait->set_kind(v1::Wait::GROUP_PAUSED);
    wait->set_key(instance.provenance->group);
  }
}

void ToProto(const InstanceView& view, v1::Instance* out) {
  ShowInstance(view, limits::kTokensShown, out);
  out->set_params(view.spec->params.empty() ? "{}" : view.spec->params);
  out->mutable_labels()->insert(view.spec->labels.begin(), view.spec->labels.end());
  if (view.spec->trace) out->set_trace(view.spec->trace->id);
  out->mutable_outputs()->insert(view.outputs.begin(), view.outputs.end());
  out->set_outputs_left_out(view.outputs_left_out);
  for (const Instance::Prerequisite& one : view.spec->after) {
    v1::After* to = out->add_after();
    to->set_instance(one.instance);
    to->set_any_result(one.any_result);
  }
}

void ToProtoBrief(const InstanceView& view, v1::Instance* out) {
  ShowInstance(view, limits::kTokensBrief, out);
}

void ToProto(const Task& task, v1::Task* out) {
  out->set_namespace_(task.ns);
  out->set_instance(task.instance);
  out->set_machine(task.machine);
  out->set_version(task.version);
  out->set_node(task.node);
  out->set_visit(task.visit);
  out->set_attempt(task.attempt);
  out->set_claim(task.claim);
  if (task.deadline != kNever) Set(task.deadline, out->mutable_deadline());
  if (task.begin_by != kNever) Set(task.begin_by, out->mutable_begin_by());
  out->set_checkpoint(task.checkpoint);
  if (task.spec) out->set_instance_params(task.spec->params.empty() ? "{}" : task.spec->params);
  out->set_node_params(task.node_params.empty() ? "{}" : task.node_params);
  out->set_action(task.action);
  out->set_queue(task.queue);
  out->set_event(task.event);
  if (!task.event.empty()) out->set_event_data(task.event_data.empty() ? "{}" : task.event_data);
  out->set_phase(task.phase);
  out->set_dry_run(task.dry_run);
  for (const std::string& name : task.middleware) out->add_middleware(name);
  out->set_tries(task.tries);
  out->set_tries_limit(task.tries_limit);
  out->set_traceparent(task.traceparent);
  if (task.run_timeout > Duration::zero()) Set(task.run_timeout, out->mutable_run_timeout());
  if (!task.package) return;
  ToProto(*task.package, out->mutable_package());
  out->mutable_package()->set_worker(task.package_worker);
}

void ToProto(const std::string& instance, const Answer& answer, v1::TransitionResponse* out) {
  out->set_instance(instance);
  out->set_prev_node(answer.prev_node);
  if (!answer.nodes.empty()) out->set_node(answer.nodes.front());
  for (const std::string& node : answer.nodes) out->add_nodes(node);
  out->set_visit(answer.visit);
  out->set_repeated_report(answer.repeated);
  out->set_state(static_cast<v1::Instance::State>(answer.state));
  out->set_result(static_cast<v1::Instance::Result>(answer.result));
  if (!answer.started) return;
  for (const Begun& begun : *answer.started) {
    v1::Begun* to = out->add_started();
    to->set_id(begun.id);
    to->set_created(begun.created);
  }
}

void ToProto(const std::string& instance, const Result<Answer>& answer, v1::TransitionResult* out) {
  if (answer) {
    ToProto(instance, *answer, out->mutable_accepted());
  } else {
    ToProto(answer.error(), out->mutable_error());
  }
}

void ToProto(const Extended& extended, v1::ExtendResponse::Item* out) {
  if (!extended.error && extended.deadline != kNever) {
    Set(extended.deadline, out->mutable_deadline());
  }
  out->set_cancel_requested(extended.cancel_requested);
  out->set_kill_requested(extended.kill_requested);
  if (extended.error) ToProto(*extended.error, out->mutable_error());
}

void ToProto(const Event& event, PartitionId partition, v1::Change* out) {
  out->set_partition(partition);
  out->set_seq(event.seq);
  Set(event.time, out->mutable_time());
  out->set_kind(static_cast<v1::Change::Kind>(event.kind));
  out->set_namespace_(event.ns);
  out->set_machine(event.machine);
  out->set_version(event.version);
  out->set_instance(event.instance);
  out->set_prev_node(event.prev_node);
  out->set_node(event.node);
  out->set_transition(event.transition);
  out->set_visit(event.visit);
  out->set_attempt(event.attempt);
  out->set_client(event.client);
  out->set_params(event.params);
  out->set_note(event.note);
  if (event.begin_time != Timestamp()) Set(event.begin_time, out->mutable_begin_time());
  out->set_error_kind(event.error_kind);
  if (event.package) {
    out->mutable_package()->set_name(event.package->name);
    out->mutable_package()->set_version(event.package->version);
    out->mutable_package()->set_digest(event.package->digest);
  }
  if (!event.about) return;
  out->set_cause(event.about->cause);
  out->set_group(event.about->group);
  out->set_outcome(event.about->outcome);
  out->set_occurrence(event.about->occurrence);
  out->set_dry_run(event.about->dry_run);
}

}  // namespace dfsmr
