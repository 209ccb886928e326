#include "dsrv/wire/requests.h"

#include <algorithm>

#include "dsrv/wire/groups.h"
#include "dsrv/wire/pages.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/dry_run.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {

static_assert(static_cast<int>(CancelMode::kKill) == v1::CancelRequest::KILL);

// What the server reports in a dry run.
static Result<Ok> FillDryRun(const v1::StartRequest& request, StartArgs* args) {
  args->dry_run = request.dry_run();
  if (!args->dry_run && request.dry_answers_size() > 0) {
    return Bad("dry_answers are for a dry run: set dry_run, too");
  }
  if (args->dry_run && !request.group().empty()) {
    return Bad("a dry run joins no group; leave 'group' out");
  }
  if (request.dry_answers_size() > static_cast<int>(limits::kBatchItems)) {
    return TooLarge("the list of dry_answers", static_cast<size_t>(request.dry_answers_size()),
                    limits::kBatchItems);
  }
  for (const auto& given : request.dry_answers()) {
    const std::string& node = given.first;
    const std::string& text = given.second;
    if (node.empty()) return Bad("dry_answers: an answer is for no node");
    const std::string what = "dry_answers[" + Quoted(node) + "]";
    auto checked = All([&] { return CheckNode("dry_answers, a node", node); },
                       [&] {
                         const size_t begin = text.find_first_not_of(" \t\r\n");
                         const bool json = begin != std::string::npos && text[begin] == '{';
                         return json ? CheckJson(what, text) : Result<Ok>(Ok{});
                       });
    if (!checked) return checked;
    auto answer = ReadDryAnswer(text);
    if (!answer) return Bad(what + ": " + answer.error().message);
    args->spec.dry_answers.emplace(node, text);
  }
  return Ok{};
}

namespace {

// What is started, and under which name.
Result<Ok> FillSubject(const v1::StartRequest& request, StartArgs* args) {
  if (!request.flow().empty()) {
    auto flow = ToFlow(request.flow());
    if (!flow) return flow.error();
    if (request.version() != 0) {
      return Bad("'version' is that of what is defined, and 'flow' is planned as it stands: give "
                 "one of them");
    }
    args->flow = *std::move(flow);
    args->spec.flow = request.flow();
  }
  args->machine = request.machine();
  args->version = request.version();
  if (const size_t at = request.machine().find('@'); at != std::string::npos && !args->flow) {
    args->machine = request.machine().substr(0, at);
    args->package_version = request.machine().substr(at + 1);
    if (args->package_version.empty() || args->version != 0) {
      return Bad("machine " + Quoted(request.machine()) +
                 " is to name a version of a package, P.NAME@VERSION, and no other version");
    }
  }
  args->id = request.id();
  return All(
      [&] {
        return args->flow && request.machine().empty() ? Result<Ok>(Ok{})
                                                       : Required("machine", args->machine);
      },
      [&] { return args->flow ? CheckNode("machine", request.machine()) : Result<Ok>(Ok{}); },
      [&] { return request.id().empty() ? Result<Ok>(Ok{}) : CheckInstanceId(request.id()); });
}

Result<Ok> FillPrerequisites(const v1::StartRequest& request, StartArgs* args) {
  auto few = CheckBatch(request.after_size(), "prerequisites in 'after'");
  if (!few) return few;
  for (const v1::After& after : request.after()) {
    auto id = CheckInstanceId(after.instance());
    if (!id) return id;
    args->after.push_back({after.instance(), after.any_result()});
  }
  return Ok{};
}

Result<Ok> FillLabels(const v1::StartRequest& request, StartArgs* args) {
  args->spec.labels.insert(request.labels().begin(), request.labels().end());
  return CheckLabels(request.labels());
}

// Whether it may begin beside others.
Result<Ok> FillConflict(const v1::StartRequest& request, StartArgs* args) {
  if (!request.group().empty()) {
    auto group = CheckGroup(request.group());
    if (!group) return group;
    args->provenance = Provenance{.group = request.group()};
  }
  args->force = request.force();
  if (request.on_conflict().empty()) return Ok{};
  args->on_conflict = ConflictNamed(request.on_conflict());
  if (args->on_conflict) return Ok{};
  return Bad("on_conflict " + Quoted(request.on_conflict()) +
             " is none of wait, latest, skip, fail, cancel and replace");
}

Result<Ok> FillTimes(const v1::StartRequest& request, StartArgs* args) {
  if (request.has_start_at()) {
    auto at = ToTimestamp("start_at", request.start_at());
    if (!at) return at.error();
    args->start_at = *at;
  }
  if (request.has_start_before()) {
    auto before = ToTimestamp("start_before", request.start_before());
    if (!before) return before.error();
    args->start_before = *before;
  }
  if (request.has_wait_after_fail()) {
    auto wait = ToDuration("wait_after_fail", request.wait_after_fail(), limits::kExtend);
    if (!wait) return wait.error();
    args->wait_after_fail = *wait;
  }
  return Ok{};
}

}  // namespace

Result<StartArgs> ToStart(const v1::StartRequest& request) {
  StartArgs args;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  args.ns = *ns;
  args.spec.params = request.params();
  args.priority = request.priority();
  args.hold = request.hold();
  if (auto trace = ReadTraceparent(request.traceparent())) args.spec.trace = *std::move(trace);
  auto filled =
      All([&] { return FillSubject(request, &args); },
          [&] { return CheckJson("params", request.params()); },
          [&] { return FillPrerequisites(request, &args); },
          [&] { return FillLabels(request, &args); }, [&] { return FillConflict(request, &args); },
          [&] { return FillTimes(request, &args); }, [&] { return FillDryRun(request, &args); });
  if (!filled) return filled.error();
  return args;
}

namespace {

// The instances to start with a report. A start that names no namespace means the report's.
Result<Ok> FillStarts(const v1::TransitionRequest& request, ReportCommand* command) {
  auto few = CheckBatch(request.starts_size(), "starts");
  if (!few) return few;
  command->starts.reserve(static_cast<size_t>(request.starts_size()));
  for (const v1::StartRequest& start : request.starts()) {
    auto args = ToStart(start);
    if (!args) {
      return RefusedStart(command->starts.size(), start.machine(), start.id(), args.error());
    }
    if (start.namespace_().empty()) args->ns = command->ns;
    command->starts.push_back(*std::move(args));
  }
  return Ok{};
}

// How a report of `error` wants it to be taken.
Result<Ok> FillFailure(const v1::TransitionRequest& request, ReportArgs* args) {
  const char* key = request.fatal()                 ? "fatal"
                    : request.has_retry_after()     ? "retry_after"
                    : !request.error_kind().empty() ? "error_kind"
                                                    : nullptr;
  if (!key) return Ok{};
  if (request.transition() != "error") {
    return Bad(Quoted(key) + " goes with 'error', not with " + Quoted(request.transition()));
  }
  auto kind = CheckFilter("error_kind", request.error_kind());
  if (!kind) return kind;
  args->error_kind = request.error_kind();
  args->fatal = request.fatal();
  if (!request.has_retry_after()) return Ok{};
  auto after = ToDuration("retry_after", request.retry_after(), limits::kExtend);
  if (!after) return after.error();
  args->retry_after = *after;
  return Ok{};
}

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
                     [&] { return CheckCheckpoint(request.checkpoint()); },
                     [&] { return CheckWorker("client", request.client()); });
  if (!checked) return checked;
  if (request.error().size() > limits::kErrorText) {
    return TooLarge("error", request.error().size(), limits::kErrorText);
  }
  ReportArgs& args = command->args;
  args.params = request.node_params();
  args.node = request.node();
  args.output = request.output();
  args.checkpoint = request.checkpoint();
  args.error = request.error();
  args.client = request.client();
  args.concurrency = request.children_concurrency();
  auto failure = FillFailure(request, &args);
  if (!failure) return failure;
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
                                 start->after, start->package_version});
  }
  args.children = command->children.size();
  return FillStarts(request, command);
}

}  // namespace

Result<ReportCommand> ToReport(const v1::TransitionRequest& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckInstanceId(request.instance()); },
                     [&] { return Required("transition", request.transition()); });
  if (!checked) return checked.error();
  ReportCommand command{*std::move(ns), request.instance(), {}, {}, {}, request.reason()};
  command.args.transition = request.transition();
  command.args.claim = ClaimRef::Read(request.claim());
  auto filled = FillReport(request, &command);
  if (filled) filled = CheckText("reason", request.reason(), limits::kChangeReason);
  if (filled) return command;
  if (!command.args.claim.given()) return filled.error();
  command.starts.clear();
  command.args.fault = filled.error();
  return command;
}

namespace {

Result<WorkerTerms> ToTerms(const v1::ReadyRequest& request) {
  WorkerTerms terms;
  auto checked = CheckSession(request.session());
  if (!checked) return checked.error();
  terms.session = request.session();
  if (request.has_begin_within()) {
    auto within = ToDuration("begin_within", request.begin_within(), Duration::max());
    if (!within) return within.error();
    if (*within < std::chrono::seconds(1) || *within > limits::kBeginWithin) {
      return Bad("begin_within must be between 1 s and 10 min");
    }
    terms.begin_within = *within;
  }
  if (request.has_keep_for()) {
    auto keep = ToDuration("keep_for", request.keep_for(), Duration::max());
    if (!keep) return keep.error();
    if (*keep > limits::kKeepFor) return Bad("keep_for must be at most 5 min");
    if (terms.session.empty()) return Bad("keep_for needs a session that comes back");
    terms.keep_for = *keep;
  }
  return terms;
}

// Names, each once, in order. `all`: "*" is one, too.
Result<std::vector<std::string>> ToNames(
    std::string_view what, const google::protobuf::RepeatedPtrField<std::string>& given,
    size_t most, bool all = false) {
  const auto count = static_cast<size_t>(given.size());
  if (count > most) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 std::string(what) + ": there are " + std::to_string(count) + "; the limit is " +
                     std::to_string(most)};
  }
  std::vector<std::string> names(given.begin(), given.end());
  for (const std::string& name : names) {
    if (all && name == "*") continue;
    if (auto checked = Required(what, name); !checked) return checked.error();
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// NAME, NAME.* or *.
Result<std::vector<std::string>> ToPatterns(const v1::ReadyRequest& request) {
  google::protobuf::RepeatedPtrField<std::string> names;
  for (const std::string& pattern : request.actions()) {
    if (pattern == "*") continue;
    const bool all_of = pattern.ends_with(".*");
    *names.Add() = pattern.substr(0, pattern.size() - (all_of ? 2 : 0));
  }
  auto checked = ToNames("action", names, limits::kBatchItems);
  if (!checked) return checked;
  std::vector<std::string> patterns(request.actions().begin(), request.actions().end());
  std::ranges::sort(patterns);
  patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  return patterns;
}

// What a worker takes, besides the names that one request may hold once.
Result<Ok> FillFilter(const v1::ReadyRequest& request, Filter* filter) {
  auto actions = ToPatterns(request);
  if (!actions) return actions.error();
  auto packages = ToNames("package", request.packages(), limits::kBatchItems, /*all=*/true);
  if (!packages) return packages.error();
  auto queues = ToNames("queue", request.queues(), limits::kBatchItems);
  if (!queues) return queues.error();
  auto words = ToNames("capability", request.capabilities(), limits::kCapabilities);
  if (!words) return words.error();
  filter->actions = *std::move(actions);
  filter->packages = *std::move(packages);
  filter->queues = *std::move(queues);
  filter->capabilities = *std::move(words);
  filter->dry_run = request.dry_run();
  return Ok{};
}

}  // namespace

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
  auto terms = ToTerms(request);
  if (!terms) return terms.error();
  args.terms = *std::move(terms);
  args.terms.address = peer;
  args.filter = {*ns, request.machine(), request.node(), request.action(), request.queue()};
  auto filled = FillFilter(request, &args.filter);
  if (!filled) return filled.error();
  args.worker = request.worker().empty() ? peer : request.worker();
  args.max_tasks = request.max_tasks() == 0 ? 1 : request.max_tasks();
  args.until = now + *wait;
  return args;
}

Result<ExtendCommand> ToExtend(const std::string& ns, const v1::ExtendRequest::Item& item) {
  ExtendCommand command{ns, item.instance(), ClaimRef::Read(item.claim()), std::nullopt, {}};
  auto checked = All([&] { return CheckInstanceId(item.instance()); },
                     [&] { return CheckCheckpoint(item.checkpoint()); },
                     [&] { return CheckText("note", item.note(), limits::kNote); });
  if (!checked) return checked.error();
  if (!(item.progress() >= 0 && item.progress() <= 1)) {
    return Bad("progress must lie between 0 and 1");
  }
  if (item.has_by()) {
    auto by = ToDuration("by", item.by(), limits::kExtend);
    if (!by) return by.error();
    command.by = *by;
  }
  command.args.progress = item.progress();
  command.args.begin = item.begin();
  command.args.checkpoint = item.checkpoint();
  command.args.note = item.note();
  return command;
}

Result<RelinquishCommand> ToRelinquish(const v1::RelinquishRequest& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckInstanceId(request.instance()); },
                     [&] { return CheckText("reason", request.reason(), limits::kReason); });
  if (!checked) return checked.error();
  if (request.refused() && request.claim().empty()) {
    return Bad("refused needs the claim that is given back");
  }
  return RelinquishCommand{*std::move(ns),
                           request.instance(),
                           ClaimRef::Read(request.claim()),
                           {.reason = request.reason(), .refused = request.refused()}};
}

Result<CancelMode> ToCancelMode(v1::CancelRequest::Mode mode) {
  if (v1::CancelRequest::Mode_IsValid(mode)) return static_cast<CancelMode>(mode);
  return Bad("mode " + std::to_string(mode) + " is not CANCEL, FORCE or KILL");
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
  ChangeFilter filter{*ns, request.machine(), request.instance(), {}, request.dry_run()};
  for (int kind : request.kinds()) {
    if (!v1::Change::Kind_IsValid(kind) || kind == v1::Change::KIND_UNSPECIFIED) {
      return Bad("kind " + std::to_string(kind) + " is not a kind of Change");
    }
    filter.kinds.insert(static_cast<ChangeKind>(kind));
  }
  return filter;
}

// "changed", or "-changed" for the latest first.
static Result<Ok> SetOrder(const std::string& order_by, InstanceQuery* query) {
  query->backwards = order_by.starts_with('-');
  const std::string name = order_by.substr(query->backwards ? 1 : 0);
  if (name == "changed") {
    query->order = ListOrder::kChanged;
  } else if (name == "started") {
    query->order = ListOrder::kStarted;
  } else if (query->backwards || (!name.empty() && name != "id")) {
    return Bad("order_by " + Quoted(order_by) +
               " is unknown; there are id, changed and started, and -changed and -started, which "
               "have the latest first");
  }
  return Ok{};
}

Result<InstanceQuery> ToQuery(const v1::ListInstancesRequest& request, Timestamp now) {
  InstanceQuery query;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (!v1::Instance::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of Instance");
  }
  if (!v1::Instance::Result_IsValid(request.result())) {
    return Bad("result " + std::to_string(request.result()) + " is not a result of Instance");
  }
  auto checked =
      All([&] { return CheckFilter("machine", request.machine()); },
          [&] { return CheckNode("node", request.node()); },
          [&] {
            return request.parent().empty() ? Result<Ok>(Ok{}) : CheckInstanceId(request.parent());
          },
          [&] { return request.group().empty() ? Result<Ok>(Ok{}) : CheckGroup(request.group()); });
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
  query.group = request.group();
  query.cause = request.cause();
  query.package = request.package();
  query.dry_run = request.dry_run();
  query.limit = *limit;
  query.after = *after;
  query.brief = request.brief();
  query.now = now;
  auto filter = InstanceFilter::Parse(request.filter(), now);
  if (!filter) return filter.error();
  query.filter = *std::move(filter);
  auto ordered = SetOrder(request.order_by(), &query);
  if (!ordered) return ordered.error();
  if (query.Searches()) query.patience = kSearchPatience;
  if (query.order != ListOrder::kId) query.tells_places = TakeTellsPlaces(&query.after);
  return query;
}

}  // namespace dfsmr
