#include "dcli/commands/bulks.h"
#include "dcli/commands/commands.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

void PrintTasks(Context& context, const v1::ReadyResponse& reply) {
  std::vector<std::string> header = {"INSTANCE", "MACHINE", "NODE", "ATTEMPT", "DEADLINE", "CLAIM"};
  if (context.wide()) {
    header.insert(header.end(), {"ACTION", "QUEUE", "PHASE", "EVENT", "NODE PARAMS"});
  }
  header.push_back("PARAMS");
  Table table(header);
  for (const v1::Task& task : reply.tasks()) {
    std::vector<std::string> row = {
        task.instance(),
        MachineText(task.machine(), task.version()),
        task.node(),
        std::to_string(task.attempt()),
        task.has_deadline() ? When(task.deadline(), context.look) : "never",
        task.claim()};
    if (context.wide()) {
      row.insert(row.end(),
                 {task.action(), task.queue(), task.phase(), task.event(), task.node_params()});
    }
    row.push_back(task.instance_params());
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
  if (!context.err_look.relative) return;  // a program is reading
  context.Note("report with: dcli transition " + reply.tasks(0).instance() +
               " TRANSITION --claim " + reply.tasks(0).claim());
}

v1::ReadyRequest RequestOf(const Context& context, const ReadyOptions& options, Duration wait) {
  v1::ReadyRequest request;
  request.set_namespace_(context.name_space);
  request.set_worker(options.worker.empty() ? UserName() : options.worker);
  request.set_machine(options.machine);
  request.set_node(options.node);
  request.set_action(options.action);
  request.set_queue(options.queue);
  for (const std::string& word : options.capabilities) request.add_capabilities(word);
  request.set_max_tasks(options.max);
  *request.mutable_wait() = ToProto(wait);
  return request;
}

// MACHINE or MACHINE=JSON.
Result<Ok> AddChild(const std::string& text, v1::TransitionRequest* request) {
  const size_t equals = text.find('=');
  const auto ref = ParseStartRef(text.substr(0, equals));
  if (!ref) return ref.error();
  v1::StartRequest* child = request->add_children();
  child->set_machine(ref->id);
  child->set_version(ref->version);
  if (equals == std::string::npos) return Ok{};
  const auto params = ParseObject(text.substr(equals + 1), "the params of --child");
  if (!params) return params.error();
  child->set_params(*params);
  return Ok{};
}

// The fields that go with `error`.
Result<Ok> AddFailure(const TransitionOptions& options, v1::TransitionRequest* request) {
  request->set_error(options.error);
  request->set_error_kind(options.error_kind);
  request->set_fatal(options.fatal);
  if (options.retry_after.empty()) return Ok{};
  const auto after = ParseDuration(options.retry_after);
  if (!after) return after.error();
  *request->mutable_retry_after() = ToProto(*after);
  return Ok{};
}

// The fields that go with suspending.
Result<Ok> AddWaiting(const TransitionOptions& options, v1::TransitionRequest* request) {
  if (!options.wake_after.empty()) {
    const auto after = ParseDuration(options.wake_after);
    if (!after) return after.error();
    *request->mutable_wake_after() = ToProto(*after);
  }
  for (const std::string& child : options.children) {
    const auto added = AddChild(child, request);
    if (!added) return added;
  }
  request->set_children_concurrency(options.children_concurrency);
  return Ok{};
}

// No node is entered when the next one still waits for others.
std::string EnteredText(const v1::TransitionResponse& reply) {
  const std::vector<std::string> nodes(reply.nodes().begin(), reply.nodes().end());
  if (nodes.size() > 1) return " -> " + Join(nodes, " + ");
  return reply.node().empty() ? " is over" : " -> " + reply.node();
}

void PrintTransition(Context& context, const v1::TransitionResponse& reply) {
  context.out << Escaped(reply.instance()) << "  " << Escaped(reply.prev_node())
              << Escaped(EnteredText(reply)) << "  "
              << Painted(NameOf(reply.state()), context.look);
  if (reply.result() != v1::Instance::RESULT_UNSPECIFIED) {
    context.out << "  " << Painted(NameOf(reply.result()), context.look);
  }
  context.out << (reply.repeated_report() ? "  (reported before)\n" : "\n");
}

}  // namespace

int Ready(Context& context, const ReadyOptions& options) {
  const auto wait = ParseDuration(options.wait);
  if (!wait) return context.FailUsage(wait.error());
  if (options.max < 1) return context.Fail(kBadUsage, "--max must be at least 1");
  Canceller canceller;  // an interrupted poll must not take work with it
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  const auto reply = context.client->Ready(RequestOf(context, options, *wait), &canceller);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply) || reply->tasks_size() == 0) return kSucceeded;
  if (context.names()) {
    for (const v1::Task& task : reply->tasks()) context.out << task.instance() << '\n';
  } else {
    PrintTasks(context, *reply);
  }
  return kSucceeded;
}

int Transition(Context& context, const TransitionOptions& options) {
  if (auto status = InBulk(context, options)) return *status;
  const auto params = ParseParams(options.params, options.pairs);
  if (!params) return context.FailUsage(params.error());
  const auto output = ParseObject(options.output, "--output");
  if (!output) return context.FailUsage(output.error());
  v1::TransitionRequest request;
  request.set_namespace_(context.name_space);
  request.set_instance(options.instance);
  request.set_transition(options.transition);
  request.set_node_params(*params);
  request.set_claim(options.claim);
  request.set_node(options.node);
  request.set_output(*output);
  request.set_client(UserName());
  request.set_reason(options.bulk.reason);
  const auto failure = AddFailure(options, &request);
  if (!failure) return context.FailUsage(failure.error());
  const auto waiting = AddWaiting(options, &request);
  if (!waiting) return context.FailUsage(waiting.error());
  const auto reply = context.client->Transition(request);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply)) return kSucceeded;
  if (context.names()) {
    context.out << Escaped(reply->node()) << '\n';
    return kSucceeded;
  }
  PrintTransition(context, *reply);
  return kSucceeded;
}

int Relinquish(Context& context, const ClaimOptions& options) {
  v1::RelinquishRequest request;
  request.set_namespace_(context.name_space);
  request.set_instance(options.instance);
  request.set_claim(options.claim);
  const auto reply = context.client->Relinquish(request);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply)) return kSucceeded;
  context.out << Escaped(reply->instance());
  if (!context.names()) context.out << "  " << Escaped(reply->node()) << "  given back";
  context.out << '\n';
  return kSucceeded;
}

int Extend(Context& context, const ClaimOptions& options) {
  v1::ExtendRequest request;
  request.set_namespace_(context.name_space);
  auto* item = request.add_items();
  item->set_instance(options.instance);
  item->set_claim(options.claim);
  if (!options.by.empty()) {
    const auto by = ParseDuration(options.by);
    if (!by) return context.FailUsage(by.error());
    *item->mutable_by() = ToProto(*by);
  }
  const auto reply = context.client->Extend(request);
  if (!reply) return context.Fail(reply.error());
  if (reply->items_size() != 1) return context.Fail(kRefused, "the server's answer is empty");
  const auto& answer = reply->items(0);
  if (answer.has_error()) return context.Fail(FromProto(answer.error()));
  if (context.Print(*reply)) return kSucceeded;
  context.out << Escaped(options.instance);
  if (!context.names()) {
    context.out << "  deadline "
                << (answer.has_deadline() ? When(answer.deadline(), context.look) : "never");
    if (answer.kill_requested()) {
      context.out << "  kill requested: stop at once";
    } else if (answer.cancel_requested()) {
      context.out << "  cancel requested: come to an end";
    }
  }
  context.out << '\n';
  return kSucceeded;
}

}  // namespace dfsmr::cli
