// Tokens and what belongs to them: claims, steps, children, answers.
#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {

void Encode(const ChildCounts& children, record::Children* out) {
  out->set_generation(children.generation);
  out->set_total(children.total);
  out->set_started(children.started);
  out->set_running(children.running);
  out->set_paused(children.paused);
  out->set_success(children.success);
  out->set_failed(children.failed);
  out->set_cancelled(children.cancelled);
  out->set_unplanned(children.unplanned);
  out->set_first(children.first);
  out->set_concurrency(children.concurrency);
  out->set_counted(children.counted);
  out->set_restart(children.restart);
  out->set_told(children.told);
  out->set_cancelled_all(children.cancelled_all);
  out->set_restart_at(children.restart_at);
  out->set_error(children.error);
}

ChildCounts Decode(const record::Children& in) {
  ChildCounts children;
  children.generation = in.generation();
  children.total = in.total();
  children.started = in.started();
  children.running = in.running();
  children.paused = in.paused();
  children.success = in.success();
  children.failed = in.failed();
  children.cancelled = in.cancelled();
  children.unplanned = in.unplanned();
  children.first = in.first();
  children.concurrency = in.concurrency();
  children.counted = in.counted();
  children.restart = in.restart();
  children.told = in.told();
  children.cancelled_all = in.cancelled_all();
  children.restart_at = in.restart_at();
  children.error = in.error();
  return children;
}

namespace {

// Not hidden by those below.
using rows::Decode;
using rows::Encode;

void Encode(const Operation& operation, record::Operation* out) {
  out->set_begin_within(operation.begin_within.count());
  out->set_begin_time(Micros(operation.begin_time));
  out->set_session(operation.session);
  out->set_keep_for(operation.keep_for.count());
  out->set_agent(operation.agent);
  out->set_lost(operation.lost);
  out->set_abandoned(operation.abandoned);
  out->set_note(operation.note);
  out->set_signal_time(Micros(operation.signal_time));
}

Operation Decode(const record::Operation& in) {
  Operation operation;
  operation.begin_within = Duration(in.begin_within());
  operation.begin_time = FromMicros(in.begin_time());
  operation.session = in.session();
  operation.keep_for = Duration(in.keep_for());
  operation.agent = in.agent();
  operation.lost = in.lost();
  operation.abandoned = in.abandoned();
  operation.note = in.note();
  operation.signal_time = FromMicros(in.signal_time());
  return operation;
}

void Encode(const Handling& handling, record::Handling* out) {
  out->set_checkpoint(handling.checkpoint);
  out->set_abandoned(handling.abandoned);
  for (const Handling::Refusal& refusal : handling.refusals) {
    record::Refusal* to = out->add_refusals();
    to->set_worker(refusal.worker);
    to->set_time(Micros(refusal.time));
    to->set_reason(refusal.reason);
  }
}

Handling Decode(const record::Handling& in) {
  Handling handling;
  handling.checkpoint = in.checkpoint();
  handling.abandoned = in.abandoned();
  for (const record::Refusal& refusal : in.refusals()) {
    handling.refusals.push_back({refusal.worker(), FromMicros(refusal.time()), refusal.reason()});
  }
  return handling;
}

void Encode(const Claim& claim, record::Claim* out) {
  out->set_epoch(claim.id.epoch);
  out->set_serial(claim.id.serial);
  out->set_worker(claim.worker);
  out->set_attempt(claim.attempt);
  out->set_claim_time(Micros(claim.claim_time));
  out->set_deadline(DeadlineMicros(claim.deadline));
  out->set_timed_out(claim.timed_out);
  out->set_given_back(claim.given_back);
  out->set_retry(claim.retry);
  out->set_progress(claim.progress);
  out->set_sampled(claim.sampled.count());
  if (claim.operation) Encode(*claim.operation, out->mutable_operation());
  out->set_ended(claim.ended);
}

Claim Decode(const record::Claim& in) {
  Claim claim;
  claim.id = {in.epoch(), in.serial()};
  claim.worker = in.worker();
  claim.attempt = in.attempt();
  claim.claim_time = FromMicros(in.claim_time());
  claim.deadline = DeadlineFrom(in.deadline());
  claim.timed_out = in.timed_out();
  claim.given_back = in.given_back();
  claim.retry = in.retry();
  claim.progress = in.progress();
  claim.sampled = Duration(in.sampled());
  if (in.has_operation()) claim.operation = Decode(in.operation());
  claim.ended = in.ended();
  return claim;
}

void Encode(const LateReport& late, record::LateReport* out) {
  out->set_epoch(late.claim.epoch);
  out->set_serial(late.claim.serial);
  out->set_time(Micros(late.time));
  out->set_transition(late.transition);
  out->set_params(late.params);
  out->set_output(late.output);
  out->set_error(late.error);
  out->set_client(late.client);
  if (late.wake_after) out->set_wake_after(late.wake_after->count() + 1);
  out->set_children(late.children);
  out->set_concurrency(late.concurrency);
  out->set_checkpoint(late.checkpoint);
  out->set_error_kind(late.error_kind);
  out->set_fatal(late.fatal);
  if (late.retry_after) out->set_retry_after(late.retry_after->count() + 1);
  out->set_starts(late.starts);
}

LateReport Decode(const record::LateReport& in) {
  LateReport late;
  late.claim = {in.epoch(), in.serial()};
  late.time = FromMicros(in.time());
  late.transition = in.transition();
  late.params = in.params();
  late.output = in.output();
  late.error = in.error();
  late.client = in.client();
  if (in.wake_after() > 0) late.wake_after = Duration(in.wake_after() - 1);
  late.children = in.children();
  late.concurrency = in.concurrency();
  late.checkpoint = in.checkpoint();
  late.error_kind = in.error_kind();
  late.fatal = in.fatal();
  if (in.retry_after() > 0) late.retry_after = Duration(in.retry_after() - 1);
  late.starts = in.starts();
  return late;
}

void Encode(const StepState& step, record::StepState* out) {
  out->set_start_time(Micros(step.start_time));
  out->set_event(step.event);
  out->set_event_data(step.event_data);
  for (const auto& [event, data] : step.inbox) {
    out->add_inbox(event);
    out->add_inbox(data);
  }
  out->set_tries(step.tries);
  if (step.tries_limit != 1) out->set_tries_limit(step.tries_limit);
  out->set_polls(step.polls);
  out->set_poll_failures(step.poll_failures);
  out->set_wake(step.wake);
  out->set_progress(step.progress);
  out->set_worker(step.worker);
  out->set_next_child(step.next_child);
  if (step.children) Encode(*step.children, out->mutable_children());
}

StepState Decode(const record::StepState& in) {
  StepState step;
  step.start_time = FromMicros(in.start_time());
  step.event = in.event();
  step.event_data = in.event_data();
  for (int i = 0; /*mutant recover-last-event-lost*/ i + 1 < in.inbox_size() /*end*/; i += 2) {
    step.inbox.emplace_back(in.inbox(i), in.inbox(i + 1));
  }
  step.tries = in.tries();
  if (in.tries_limit() != 0) step.tries_limit = in.tries_limit();
  step.polls = in.polls();
  step.poll_failures = in.poll_failures();
  step.wake = in.wake();
  step.progress = in.progress();
  step.worker = in.worker();
  step.next_child = in.next_child();
  if (in.has_children()) step.children = Decode(in.children());
  return step;
}

}  // namespace

void Encode(const RunsOn& runs_on, record::RunsOn* out) {
  for (const std::string& word : runs_on.capabilities) out->add_capabilities(word);
  out->set_agent(runs_on.agent);
}

RunsOn Decode(const record::RunsOn& in) {
  return {{in.capabilities().begin(), in.capabilities().end()}, in.agent()};
}

void Encode(const Token& token, const Machine& machine, record::Token* out) {
  out->set_node(std::string(NodeName(machine, token.node)));
  out->set_visit(token.visit);
  out->set_state(static_cast<uint32_t>(token.state));
  out->set_attempt(token.attempt);
  out->set_params(token.params);
  for (const Claim& claim : token.claims) Encode(claim, out->add_claims());
  out->set_available_at(token.available_at == kNever ? -1 : Micros(token.available_at));
  out->set_error(token.error);
  out->set_forgotten_epoch(token.forgotten_epoch);
  if (token.step) Encode(*token.step, out->mutable_step());
  if (token.limits) Encode(*token.limits, out->mutable_limits());
  if (token.handling) Encode(*token.handling, out->mutable_handling());
  if (token.runs_on) Encode(*token.runs_on, out->mutable_runs_on());
  out->set_unsaid(token.unsaid);
  if (token.late) Encode(*token.late, out->mutable_late());
  if (token.failures) out->set_tries(token.failures->tries);
}

Token Decode(const record::Token& in) {
  Token token;
  token.visit = in.visit();
  token.state = static_cast<TokenState>(in.state());
  token.attempt = in.attempt();
  token.params = in.params();
  for (const auto& claim : in.claims()) token.claims.push_back(Decode(claim));
  token.available_at = in.available_at() == -1 ? kNever : FromMicros(in.available_at());
  token.error = in.error();
  /*mutant recover-void-claims*/ token.forgotten_epoch = in.forgotten_epoch(); /*end*/
  if (in.has_step()) token.step = Decode(in.step());
  if (in.has_handling()) token.handling = Decode(in.handling());
  if (in.has_runs_on()) token.runs_on = Decode(in.runs_on());
  token.unsaid = in.unsaid();
  if (in.has_late()) token.late = Decode(in.late());
  /*mutant recover-tries-lost*/ if (in.tries() > 0)
    token.failures = Failures{in.tries()}; /*end*/
  if (in.has_limits()) {
    token.limits = Decode(in.limits());
  } else if (!in.step().key().empty()) {
    token.limits = TokenLimits{.state = in.step().waits_for_key() ? TokenLimits::State::kWaits
                                                                  : TokenLimits::State::kHolds,
                               .keys = {SingletonKey(in.step().key())},
                               .ready_since = FromMicros(in.step().ready_since())};
  }
  return token;
}

void Encode(const Answer& answer, record::Answer* out) {
  out->set_epoch(answer.claim.epoch);
  out->set_serial(answer.claim.serial);
  out->set_transition(answer.transition);
  out->set_prev_node(answer.prev_node);
  for (const std::string& node : answer.nodes) out->add_nodes(node);
  out->set_visit(answer.visit);
  out->set_state(static_cast<uint32_t>(answer.state));
  out->set_result(static_cast<uint32_t>(answer.result));
  if (!answer.started) return;
  /*mutant started-not-recorded*/ for (const Begun& begun : *answer.started) {
    record::Begun* to = out->add_started();
    to->set_id(begun.id);
    to->set_created(begun.created);
  } /*end*/
}

Answer Decode(const record::Answer& in) {
  Answer answer;
  answer.claim = {in.epoch(), in.serial()};
  answer.transition = in.transition();
  answer.prev_node = in.prev_node();
  answer.nodes.assign(in.nodes().begin(), in.nodes().end());
  answer.visit = in.visit();
  answer.state = static_cast<InstanceState>(in.state());
  answer.result = static_cast<InstanceResult>(in.result());
  if (in.started().empty()) return answer;
  std::vector<Begun> started;
  for (const record::Begun& begun : in.started()) started.push_back({begun.id(), begun.created()});
  answer.started = std::move(started);
  return answer;
}

}  // namespace dfsmr::rows
