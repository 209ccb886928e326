#include "dsrv/wire/convert.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

static_assert(static_cast<int>(InstanceState::kStopped) == v1::Instance::STOPPED);
static_assert(static_cast<int>(InstanceResult::kAborted) == v1::Instance::ABORTED);
static_assert(static_cast<int>(TokenState::kDone) == v1::Token::DONE);
static_assert(static_cast<int>(ChangeKind::kBreakerClosed) == v1::Change::BREAKER_CLOSED);
static_assert(static_cast<int>(CancelMode::kKill) == v1::CancelRequest::KILL);

void Set(Timestamp t, google::protobuf::Timestamp* out) {
  const int64_t us = Micros(t);
  out->set_seconds(us / 1'000'000);
  out->set_nanos(static_cast<int32_t>(us % 1'000'000 * 1'000));
}

void Set(Duration d, google::protobuf::Duration* out) {
  out->set_seconds(d.count() / 1'000'000);
  out->set_nanos(static_cast<int32_t>(d.count() % 1'000'000 * 1'000));
}

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

Error TooLarge(std::string_view what, size_t is, size_t limit) {
  return {Code::kInvalidArgument, Reason::kTooLarge,
          std::string(what) + " is " + std::to_string(is) + " long; the limit is " +
              std::to_string(limit)};
}

// What a Timestamp may be: from the begin of the year 1 to the end of 9999.
constexpr int64_t kSecondsMin = -62'135'596'800;
constexpr int64_t kSecondsMax = 253'402'300'799;

// Whatever is before 1970 is as long ago as that.
Result<Timestamp> ToTimestamp(std::string_view what, const google::protobuf::Timestamp& t) {
  if (t.seconds() < kSecondsMin || t.seconds() > kSecondsMax || t.nanos() < 0 ||
      t.nanos() > 999'999'999) {
    return Bad(std::string(what) + " is no time between the years 1 and 9999");
  }
  if (t.seconds() < 0) return Timestamp();
  return FromMicros(t.seconds() * 1'000'000 + t.nanos() / 1'000);
}

Result<Duration> ToDuration(std::string_view what, const google::protobuf::Duration& d,
                            Duration most) {
  if (d.seconds() < 0 || d.nanos() < 0 || d.nanos() > 999'999'999) {
    return Bad(std::string(what) + " must not be negative");
  }
  if (d.seconds() > most.count() / 1'000'000) return most;
  return std::min(most, Duration(d.seconds() * 1'000'000 + d.nanos() / 1'000));
}

// Follows the depth of a document without building it, so that hostile nesting costs nothing.
class JsonGuard : public nlohmann::json::json_sax_t {
 public:
  bool object() const { return object_; }
  bool too_deep() const { return too_deep_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(int64_t) override { return Scalar(); }
  bool number_unsigned(uint64_t) override { return Scalar(); }
  bool number_float(double, const std::string&) override { return Scalar(); }
  bool string(std::string&) override { return Scalar(); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(true); }
  bool key(std::string&) override { return true; }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    problem_ = error.what();
    return false;
  }

 private:
  bool Scalar() { return true; }
  bool Open(bool object) {
    if (depth_ == 0) object_ = object;
    too_deep_ = ++depth_ > limits::kJsonDepth;
    return !too_deep_;
  }
  bool Close() {
    --depth_;
    return true;
  }
  size_t depth_ = 0;
  bool object_ = false;
  bool too_deep_ = false;
  std::string problem_;
};

Result<Ok> CheckJson(std::string_view what, const std::string& text) {
  if (text.empty()) return Ok{};
  if (text.size() > limits::kJson) return TooLarge(what, text.size(), limits::kJson);
  JsonGuard guard;
  const bool whole = nlohmann::json::sax_parse(text, &guard);
  if (guard.too_deep()) {
    return Error{
        Code::kInvalidArgument, Reason::kTooLarge,
        std::string(what) + " nests deeper than " + std::to_string(limits::kJsonDepth) + " levels"};
  }
  if (whole && guard.object()) return Ok{};
  std::string problem = guard.problem();
  if (const size_t at = problem.find("] "); at != std::string::npos) problem.erase(0, at + 2);
  return Error{Code::kInvalidArgument, Reason::kBadParams,
               std::string(what) + (whole ? " must be a JSON object, {\"key\": value, ...}"
                                          : " is not JSON: " + problem)};
}

Result<Ok> CheckName(std::string_view what, const std::string& name) {
  if (name.size() > limits::kName) return TooLarge(what, name.size(), limits::kName);
  if (auto problem = NameProblem(what, name)) return Bad(*problem);
  return Ok{};
}

// A filter: a name, or nothing. One that nothing is called yet is fine.
Result<Ok> CheckFilter(std::string_view what, const std::string& name) {
  return name.empty() ? Result<Ok>(Ok{}) : CheckName(what, name);
}

// Nodes of compiled plans are names joined by '/'.
Result<Ok> CheckNode(std::string_view what, const std::string& name) {
  if (name.size() > 8 * limits::kName) return TooLarge(what, name.size(), 8 * limits::kName);
  Result<Ok> checked = Ok{};
  for (size_t begin = 0; checked && !name.empty() && begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (!ValidName(part)) checked = CheckName(what, part.empty() ? name : part);
    begin = end + 1;
  }
  return checked;
}

Result<Ok> Required(std::string_view what, const std::string& name) {
  if (name.empty()) return Bad("'" + std::string(what) + "' is empty; it must be given");
  return CheckName(what, name);
}

Result<Ok> CheckWorker(std::string_view what, const std::string& name) {
  if (name.empty() || ValidWorkerName(name)) return Ok{};
  const size_t characters = Characters(name);
  if (characters > limits::kWorkerName) return TooLarge(what, characters, limits::kWorkerName);
  return Bad(std::string(what) + " has characters that cannot be printed");
}

// The first failure of several checks.
template <typename... Checks>
Result<Ok> All(Checks&&... checks) {
  Result<Ok> outcome = Ok{};
  ((outcome.has_value() ? void(outcome = checks()) : void()), ...);
  return outcome;
}

uint64_t Hash(std::string_view text) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace

grpc::Status ToStatus(const Error& error) {
  return {static_cast<grpc::StatusCode>(error.code), error.message};
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
  out->set_id(defined.id);
  out->set_version(defined.version);
  out->set_changed(defined.changed);
  out->set_upgrade_strategy(std::string(Name(defined.strategy)));
  out->set_affected_instances(defined.affected);
}

void ToProto(const Node& node, const Machine& machine, v1::Node* out) {
  out->set_id(node.id);
  out->set_kind(std::string(Name(node.kind)));
  out->set_start(node.start);
  out->set_final(node.kind == NodeKind::kFinal);
  out->set_join(node.join == Join::kAll ? "all" : "any");
  for (const Edge& edge : node.transitions) {
    v1::Edge* to = out->add_transitions();
    to->set_transition(edge.transition);
    for (NodeIndex target : edge.targets) to->add_targets(machine.nodes[target].id);
  }
  if (node.kind != NodeKind::kWork) return;
  const bool fixed = node.settings->timeout.strategy == TimeoutPolicy::Strategy::kFixed;
  out->set_timeout_strategy(fixed ? "fixed" : "percentile");
  out->set_timeout(node.settings->timeout.value);
  out->set_action(node.settings->action);
  out->set_queue(node.settings->queue);
}

namespace {

void ToProto(const NodeStats& stats, v1::NodeStats* out) {
  out->set_ready(stats.ready);
  out->set_claimed(stats.claimed);
  out->set_waiting(stats.waiting);
  out->set_held(stats.held);
  out->set_completed(stats.completed);
  out->set_timed_out(stats.timed_out);
  if (stats.p50) Set(*stats.p50, out->mutable_p50());
  if (stats.p95) Set(*stats.p95, out->mutable_p95());
  if (stats.timeout_now) Set(*stats.timeout_now, out->mutable_timeout_now());
}

void ToProto(const Claim& claim, v1::Claim* out) {
  out->set_worker(claim.worker);
  out->set_attempt(claim.attempt);
  Set(claim.claim_time, out->mutable_claim_time());
  if (claim.deadline != kNever) Set(claim.deadline, out->mutable_deadline());
  out->set_timed_out(claim.timed_out);
  out->set_progress(claim.progress);
}

void ToProto(const Token& token, const std::string& node, v1::Token* out) {
  out->set_node(node);
  out->set_visit(token.visit);
  out->set_state(static_cast<v1::Token::State>(token.state));
  out->set_attempt(token.attempt);
  out->set_params(token.params);
  for (const Claim& claim : token.claims) {
    if (!claim.given_back) ToProto(claim, out->add_claims());
  }
  if (token.state != TokenState::kDone && token.available_at != kNever) {
    Set(token.available_at, out->mutable_available_at());
  }
  out->set_error(token.error);
}

}  // namespace

// Of a plan the weighted mean of its steps, of a machine what the worker last said.
static double ProgressOf(const Instance& instance) {
  if (instance.plan) {
    const PlanState& plan = *instance.plan;
    const double progress = (plan.done_weight + plan.partial) / plan.weight;
    if (!std::isfinite(progress)) return instance.Stopped() ? 1 : 0;  // nothing weighs, or too much
    return std::clamp(progress, 0.0, 1.0);
  }
  double progress = instance.Stopped() ? 1 : 0;
  for (const Token& token : instance.tokens) {
    for (const Claim& claim : token.claims) progress = std::max(progress, claim.progress);
  }
  return progress;
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
  for (std::string_view system : {kUpgradedNode, kAbortedNode, kTimeoutNode, kCancelledNode}) {
    v1::Node* node = out->add_nodes();
    node->set_id(std::string(system));
    node->set_kind("system");
    node->set_join("any");
  }
  Set(view.definition->define_time, out->mutable_define_time());
  v1::MachineStats* stats = out->mutable_stats();
  stats->set_scheduled(view.stats.scheduled);
  stats->set_running(view.stats.running);
  stats->set_paused(view.stats.paused);
  stats->set_stopped(view.stats.stopped);
  stats->set_retry_rate(view.stats.retry_rate);
  stats->set_breaker(std::string(view.stats.breaker));
}

void ToProto(const InstanceView& view, v1::Instance* out) {
  const Instance& instance = view.instance;
  out->set_namespace_(instance.ns);
  out->set_id(instance.id);
  out->set_machine(instance.machine);
  out->set_version(instance.version);
  out->set_state(static_cast<v1::Instance::State>(instance.state));
  out->set_result(static_cast<v1::Instance::Result>(instance.result));
  out->set_params(view.spec->params.empty() ? "{}" : view.spec->params);
  for (size_t i = 0; i < instance.tokens.size() && i < limits::kTokensShown; ++i) {
    ToProto(instance.tokens[i], view.nodes[i], out->add_tokens());
  }
  out->set_priority(instance.priority);
  out->mutable_labels()->insert(view.spec->labels.begin(), view.spec->labels.end());
  if (instance.start_time != Timestamp()) Set(instance.start_time, out->mutable_start_time());
  if (instance.end_time != Timestamp()) Set(instance.end_time, out->mutable_end_time());
  if (instance.start_at != Timestamp()) Set(instance.start_at, out->mutable_start_at());
  if (instance.start_before != kNever) Set(instance.start_before, out->mutable_start_before());
  out->set_parent(instance.parent);
  out->mutable_outputs()->insert(view.outputs.begin(), view.outputs.end());
  out->set_progress(ProgressOf(instance));
  if (instance.plan) out->set_label(instance.plan->label);
  out->set_error(instance.error);
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
  if (task.spec) out->set_instance_params(task.spec->params.empty() ? "{}" : task.spec->params);
  out->set_node_params(task.node_params.empty() ? "{}" : task.node_params);
  out->set_action(task.action);
  out->set_queue(task.queue);
  out->set_event(task.event);
  if (!task.event.empty()) out->set_event_data(task.event_data.empty() ? "{}" : task.event_data);
  out->set_phase(task.phase);
  for (const std::string& name : task.middleware) out->add_middleware(name);
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
}

void ToProto(const std::string& instance, const Result<Answer>& answer,
             v1::TransitionResult* out) {
  if (answer) {
    ToProto(instance, *answer, out->mutable_accepted());
  } else {
    ToProto(answer.error(), out->mutable_error());
  }
}

void ToProto(const Engine::Extended& extended, v1::ExtendResponse::Item* out) {
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
}

Result<std::string> ToNamespace(const std::string& given) {
  if (given.empty()) return std::string("default");
  auto checked = CheckName("namespace", given);
  if (!checked) return checked.error();
  return given;
}

Result<Ok> CheckInstanceId(const std::string& id) {
  if (id.size() > limits::kInstanceId)
    return TooLarge("the instance id", id.size(), limits::kInstanceId);
  if (ValidInstanceId(id)) return Ok{};
  if (id.empty()) return Bad("which instance? 'instance' is empty");
  return Bad("instance id " + Quoted(id) + " must be printable ASCII without spaces");
}

Result<Ok> CheckBatch(int items, std::string_view what) {
  if (items <= static_cast<int>(limits::kBatchItems)) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kTooLarge,
               std::to_string(items) + " " + std::string(what) + " in one request; the limit is " +
                   std::to_string(limits::kBatchItems)};
}

Result<StartArgs> ToStart(const v1::StartRequest& request) {
  StartArgs args;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  args.ns = *ns;
  if (!request.flow().empty()) {
    auto flow = ToFlow(request.flow());
    if (!flow) return flow.error();
    args.flow = *std::move(flow);
    args.spec.flow = request.flow();
  }
  auto few = CheckBatch(request.after_size(), "prerequisites in 'after'");
  if (!few) return few.error();
  for (const v1::After& after : request.after()) {
    auto id = CheckInstanceId(after.instance());
    if (!id) return id.error();
    args.after.push_back({after.instance(), after.any_result()});
  }
  auto checked = All(
      [&] {
        return args.flow && request.machine().empty() ? Result<Ok>(Ok{})
                                                      : Required("machine", request.machine());
      },
      [&] {
        return args.flow ? CheckNode("machine", request.machine()) : Result<Ok>(Ok{});
      },
      [&] { return request.id().empty() ? Result<Ok>(Ok{}) : CheckInstanceId(request.id()); },
      [&] { return CheckJson("params", request.params()); });
  if (!checked) return checked.error();
  if (request.labels_size() > static_cast<int>(limits::kLabels)) {
    return TooLarge("the list of labels", static_cast<size_t>(request.labels_size()),
                    limits::kLabels);
  }
  for (const auto& [key, value] : request.labels()) {
    auto named = CheckName("label", key);
    if (!named) return named.error();
    if (Characters(value) > limits::kLabelValue) {
      return TooLarge("the value of label " + Quoted(key), Characters(value), limits::kLabelValue);
    }
    args.spec.labels.emplace(key, value);
  }
  args.machine = request.machine();
  args.version = request.version();
  args.id = request.id();
  args.spec.params = request.params();
  args.priority = request.priority();
  args.hold = request.hold();
  if (request.has_start_at()) {
    auto at = ToTimestamp("start_at", request.start_at());
    if (!at) return at.error();
    args.start_at = *at;
  }
  if (request.has_start_before()) {
    auto before = ToTimestamp("start_before", request.start_before());
    if (!before) return before.error();
    args.start_before = *before;
  }
  return args;
}

namespace {

// All of a report but its claim and transition.
Result<Ok> FillReport(const v1::TransitionRequest& request, ReportCommand* command) {
  const bool suspends = request.transition() == "suspend";
  if (request.children_size() > 0 && !suspends) {
    return Bad("'children' are started by a step that reports 'suspend', not " +
               Quoted(request.transition()));
  }
  if (request.has_wake_after() && !suspends) {
    return Bad("'wake_after' goes with 'suspend', not with " + Quoted(request.transition()));
  }
  auto checked = All([&] { return CheckBatch(request.children_size(), "children"); },
                     [&] { return CheckNode("node", request.node()); },
                     [&] { return CheckJson("node_params", request.node_params()); },
                     [&] { return CheckJson("output", request.output()); },
                     [&] { return CheckWorker("client", request.client()); });
  if (!checked) return checked;
  if (request.error().size() > limits::kErrorText) {
    return TooLarge("error", request.error().size(), limits::kErrorText);
  }
  ReportArgs& args = command->args;
  args.params = request.node_params();
  args.node = request.node();
  args.output = request.output();
  args.error = request.error();
  args.client = request.client();
  args.concurrency = request.children_concurrency();
  if (request.has_wake_after()) {
    auto after = ToDuration("wake_after", request.wake_after(), limits::kExtend);
    if (!after) return after.error();
    args.wake_after = *after;
  }
  for (const v1::StartRequest& child : request.children()) {
    auto start = ToStart(child);
    if (!start) return start.error();
    command->children.push_back({start->machine, start->version, start->id, start->priority,
                                 start->spec, start->start_at, start->start_before, start->hold,
                                 start->after});
  }
  args.children = command->children.size();
  return Ok{};
}

}  // namespace

Result<ReportCommand> ToReport(const v1::TransitionRequest& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckInstanceId(request.instance()); },
                     [&] { return Required("transition", request.transition()); });
  if (!checked) return checked.error();
  ReportCommand command{*std::move(ns), request.instance(), {}, {}};
  command.args.transition = request.transition();
  command.args.claim = request.claim();
  auto filled = FillReport(request, &command);
  if (filled) return command;
  if (request.claim().empty()) return filled.error();
  command.args.fault = filled.error();
  return command;
}

Result<PollArgs> ToPoll(const v1::ReadyRequest& request, const std::string& peer, Timestamp now) {
  PollArgs args;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckWorker("worker", request.worker()); },
                     [&] { return CheckFilter("machine", request.machine()); },
                     [&] { return CheckNode("node", request.node()); },
                     [&] { return CheckFilter("action", request.action()); },
                     [&] { return CheckFilter("queue", request.queue()); });
  if (!checked) return checked.error();
  if (request.max_tasks() < 0) return Bad("max_tasks must not be negative");
  auto wait = ToDuration("wait", request.wait(), limits::kWait);
  if (!wait) return wait.error();
  args.filter = {*ns, request.machine(), request.node(), request.action(), request.queue()};
  args.worker = request.worker().empty() ? peer : request.worker();
  args.max_tasks = request.max_tasks() == 0 ? 1 : request.max_tasks();
  args.until = now + *wait;
  return args;
}

Result<ExtendCommand> ToExtend(const v1::ExtendRequest::Item& item) {
  ExtendCommand command{item.instance(), item.claim(), std::nullopt, item.progress()};
  auto checked = CheckInstanceId(item.instance());
  if (!checked) return checked.error();
  if (!(item.progress() >= 0 && item.progress() <= 1)) {
    return Bad("progress must lie between 0 and 1");
  }
  if (item.has_by()) {
    auto by = ToDuration("by", item.by(), limits::kExtend);
    if (!by) return by.error();
    command.by = *by;
  }
  return command;
}

Result<CancelMode> ToCancelMode(v1::CancelRequest::Mode mode) {
  if (v1::CancelRequest::Mode_IsValid(mode)) return static_cast<CancelMode>(mode);
  return Bad("mode " + std::to_string(mode) + " is none of CANCEL, FORCE, KILL");
}

Result<ChangeFilter> ToChangeFilter(const v1::ChangesRequest& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckFilter("machine", request.machine()); },
                     [&] {
                       return request.instance().empty() ? Result<Ok>(Ok{})
                                                         : CheckInstanceId(request.instance());
                     });
  if (!checked) return checked.error();
  ChangeFilter filter{*ns, request.machine(), request.instance(), {}};
  for (int kind : request.kinds()) {
    if (!v1::Change::Kind_IsValid(kind) || kind == v1::Change::KIND_UNSPECIFIED) {
      return Bad("kind " + std::to_string(kind) + " is none that Change has");
    }
    filter.kinds.insert(static_cast<ChangeKind>(kind));
  }
  return filter;
}

Result<size_t> ToPageSize(int32_t given) {
  if (given < 0) return Bad("page_size must not be negative");
  return static_cast<size_t>(given == 0 ? limits::kPageDefault : std::min(given, limits::kPage));
}

std::string PageToken(const std::string& filters, const std::string& last) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string token;
  uint64_t hash = Hash(filters);
  for (int i = 0; i < 16; ++i, hash >>= 4) token += kHex[hash & 15];
  for (char c : last) {
    token += kHex[static_cast<uint8_t>(c) >> 4];
    token += kHex[static_cast<uint8_t>(c) & 15];
  }
  return token;
}

Result<std::string> ParsePageToken(const std::string& filters, const std::string& token) {
  if (token.empty()) return std::string();
  const Error malformed =
      Bad("page_token is none that this server gave; leave it empty for the first page");
  if (token.size() < 18 || token.size() % 2 != 0) return malformed;
  auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string last;
  for (size_t i = 16; i < token.size(); i += 2) {
    const int high = value(token[i]);
    const int low = value(token[i + 1]);
    if (high < 0 || low < 0) return malformed;
    last += static_cast<char>(high << 4 | low);
  }
  if (PageToken(filters, last) != token) {
    return Bad(
        "page_token belongs to a list with other filters; ask for the first page of this one");
  }
  return last;
}

std::string FiltersOf(const v1::ListInstancesRequest& request) {
  v1::ListInstancesRequest filters = request;
  if (filters.namespace_().empty()) filters.set_namespace_("default");
  filters.clear_page_size();
  filters.clear_page_token();
  filters.clear_labels();
  std::string text = filters.SerializeAsString();
  const std::map<std::string, std::string> labels(request.labels().begin(), request.labels().end());
  for (const auto& [key, value] : labels) text += key + '\0' + value + '\0';
  return text;
}

Result<InstanceQuery> ToQuery(const v1::ListInstancesRequest& request) {
  InstanceQuery query;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (!v1::Instance::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is none that Instance has");
  }
  if (!v1::Instance::Result_IsValid(request.result())) {
    return Bad("result " + std::to_string(request.result()) + " is none that Instance has");
  }
  auto checked = All([&] { return CheckFilter("machine", request.machine()); },
                     [&] { return CheckNode("node", request.node()); },
                     [&] {
                       return request.parent().empty() ? Result<Ok>(Ok{})
                                                       : CheckInstanceId(request.parent());
                     });
  for (const auto& [key, value] : request.labels()) {
    if (checked) checked = CheckName("label", key);
  }
  if (!checked) return checked.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  auto after = ParsePageToken(FiltersOf(request), request.page_token());
  if (!after) return after.error();
  query.ns = *ns;
  query.machine = request.machine();
  query.node = request.node();
  query.state = static_cast<InstanceState>(request.state());
  query.result = static_cast<InstanceResult>(request.result());
  query.labels = {request.labels().begin(), request.labels().end()};
  query.parent = request.parent();
  query.limit = *limit;
  query.after = *after;
  return query;
}

}  // namespace dfsmr
