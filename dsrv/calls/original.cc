#include "dsrv/calls/original.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "dsrv/calls/items.h"
#include "dsrv/engine/compile.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/original_line.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr::original {
namespace {

using Params = google::protobuf::Map<std::string, std::string>;

std::string ToJson(const Params& params) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, value] : params) object[key] = value;
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The end of the JSON value that starts at `at`, in text that is known to be JSON.
size_t ValueEnd(std::string_view json, size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < json.size(); ++at) {
    const char c = json[at];
    if (quoted) {
      if (c == '\\') ++at;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth-- == 0) break;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  return at;
}

// Strings as they are, anything else as its JSON text, to the letter.
void FromJson(const std::string& text, Params* out) {
  const std::string_view json = text;
  auto skip = [&json](size_t at) {
    return std::min(json.find_first_not_of(" \t\r\n", at), json.size());
  };
  auto decode = [](std::string_view string) {
    return nlohmann::json::parse(string, nullptr, false).get<std::string>();
  };
  size_t at = skip(0) + 1;  // past the brace
  while ((at = skip(at)) < json.size() && json[at] == '"') {
    size_t key_end = at + 1;
    while (json[key_end] != '"') key_end += json[key_end] == '\\' ? 2 : 1;
    const size_t value = skip(json.find(':', key_end) + 1);
    const size_t end = ValueEnd(json, value);
    std::string_view raw = json.substr(value, end - value);
    raw = raw.substr(0, raw.find_last_not_of(" \t\r\n") + 1);
    (*out)[decode(json.substr(at, key_end + 1 - at))] =
        raw.starts_with('"') ? decode(raw) : std::string(raw);
    at = end + 1;
  }
}

std::string Scalar(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The YAML that says what the message says. The original's client sends nodes in random order.
std::string ToYaml(const ::DefineRequest& request) {
  std::map<std::string, const ::Node*> nodes;
  std::string twice;
  for (const ::Node& node : request.nodes()) {
    if (!nodes.emplace(node.id(), &node).second) twice = "  " + Scalar(node.id()) + ": {}\n";
  }
  std::string yaml = "id: " + Scalar(request.id()) + "\nnodes:\n";
  for (const auto& [id, node] : nodes) {
    yaml += "  " + Scalar(id) + ":";
    if (!node->start() && !node->final() && node->transitions().empty()) yaml += " {}";
    yaml += '\n';
    if (node->start()) yaml += "    start: true\n";
    if (node->final()) yaml += "    final: true\n";
    if (node->transitions().empty()) continue;
    yaml += "    transitions:\n";
    std::multimap<std::string, std::string> transitions;
    for (const auto& transition : node->transitions()) {
      transitions.emplace(transition.id(), transition.node());
    }
    for (const auto& [name, target] : transitions) {
      yaml += "      " + Scalar(name) + ": " + Scalar(target) + "\n";
    }
  }
  return yaml + twice;  // a node given twice is refused as one
}

void FromMachine(const Machine& machine, ::DefineRequest* out) {
  out->set_id(machine.id);
  for (const Node& node : machine.nodes) {
    ::Node* to = out->add_nodes();
    to->set_id(node.id);
    to->set_start(node.start);
    to->set_final(node.kind == NodeKind::kFinal);
    for (const Edge& edge : node.transitions) {
      ::Transition* transition = to->add_transitions();
      transition->set_id(edge.transition);
      transition->set_node(machine.nodes[edge.targets.front()].id);
    }
  }
}

bool SameNodes(const Machine& machine, const ::DefineRequest& request) {
  ::DefineRequest known;
  FromMachine(machine, &known);
  return ToYaml(known) == ToYaml(request);
}

void FromView(const InstanceView& view, ::TaskMessage* out) {
  const Instance& instance = view.instance;
  out->set_id(instance.id);
  out->set_machine(instance.machine);
  FromJson(view.spec->params, out->mutable_instanceparams());
  if (instance.tokens.empty()) return;
  const Token& token = instance.tokens.front();
  out->set_node(view.nodes.front());
  out->set_starts(static_cast<int32_t>(token.attempt));
  FromJson(token.params, out->mutable_nodeparams());
  for (const Claim& claim : token.claims) {
    if (!claim.Live()) continue;
    out->set_owner(claim.worker);
    out->set_starttime(static_cast<int32_t>(Micros(claim.claim_time) / 1'000'000));
  }
}

}  // namespace

Result<DefineCommand> ParseDefine(const ::DefineRequest& request, const Call& call) {
  call.caller().On(request.id());
  Parsed parsed = ParseDefinitions(ToYaml(request), request.id());
  if (parsed.ok()) return DefineCommand{request, std::move(parsed.definitions.front())};
  std::string message;
  for (const Diagnostic& diagnostic : parsed.diagnostics) {
    if (!diagnostic.error || message.size() > 4'000) continue;
    message += (message.empty() ? "" : "\n") + diagnostic.path + ": " + diagnostic.message;
  }
  return Error{Code::kInvalidArgument, Reason::kBadMachine, message};
}

Result<bool> RunDefine(Engine& engine, const Caller&, DefineCommand& command) {
  auto latest = engine.reader().registry.Find(kNamespace, command.request.id());
  if (latest && SameNodes(latest->machine, command.request)) return false;
  Sources sources;
  sources.machines.push_back(std::move(command.machine));
  std::vector<DefineProblem> problems;
  auto defined = DefineAtOnce(engine, kNamespace, std::move(sources), false, &problems);
  if (!defined) return defined.error();
  return defined->front().changed;
}

void ReplyDefine(const bool& changed, const DefineCommand& command, ::DefineReply* reply) {
  reply->set_success(true);
  reply->set_id(command.request.id());
  reply->set_successmessage(changed ? "Created machine." : "Machine is unchanged.");
}

Result<StartArgs> ParseStart(const ::TaskMessage& request, const Call& call) {
  call.caller().On(request.id().empty() ? request.machine() : request.id(), request.machine());
  auto allowed = call.caller().MayStart(request.machine(), false);
  if (!allowed) return allowed.error();
  v1::StartRequest start;
  start.set_machine(request.machine());
  start.set_id(request.id());
  start.set_params(ToJson(request.instanceparams()));
  auto args = ToStart(start);
  if (args) args->spec.client = call.Peer();
  if (args) Join(call.Traceparent(), &*args);
  return args;
}

void ReplyStart(const Started& started, const StartArgs&, ::TaskMessage* reply) {
  FromView(started.view, reply);
}

Result<PollCommand> ParseReady(const ::ReadyRequest& request, const Call& call) {
  v1::ReadyRequest ready;
  ready.set_worker(request.client());
  ready.set_machine(request.machine());
  ready.set_node(request.node());
  const Timestamp now = call.backend().clock();
  auto poll = ToPoll(ready, call.Peer(), now);
  if (!poll) return poll.error();
  auto allowed = call.caller().Narrow(&poll->filter);
  if (!allowed) return allowed.error();
  PollCommand command;
  command.asked = {poll->worker, call.backend().loop.Now()};
  command.poll = *std::move(poll);
  command.bytes = 256;
  return command;
}

std::optional<Error> HandReady(const std::vector<Task>& tasks, const PollCommand::Asked& asked,
                               ::TaskMessage* reply) {
  if (tasks.empty()) return Error{Code::kNotFound, Reason::kNone, "no available work"};
  const Task& task = tasks.front();
  reply->set_id(task.instance);
  reply->set_machine(task.machine);
  reply->set_node(task.node);
  reply->set_owner(asked.worker);
  reply->set_starttime(static_cast<int32_t>(Micros(asked.at) / 1'000'000));
  reply->set_starts(static_cast<int32_t>(task.attempt));
  FromJson(task.spec ? task.spec->params : "{}", reply->mutable_instanceparams());
  FromJson(task.node_params, reply->mutable_nodeparams());
  return std::nullopt;
}

Result<Ok> ParseMachines(const ::MachinesRequest&, const Call&) { return Ok{}; }

Result<std::vector<MachineView>> RunMachines(Engine& engine, const Caller&, Ok&) {
  return engine.ListMachines(kNamespace, false, {}, SIZE_MAX);
}

void ReplyMachines(const std::vector<MachineView>& views, const Ok&, ::MachinesReply* reply) {
  for (const MachineView& view : views) {
    FromMachine(view.definition->machine, reply->add_machines());
  }
}

Result<Ok> ParseInstances(const ::InstancesRequest&, const Call&) { return Ok{}; }

Result<Ok> SettleInstances(Engine& engine, const Caller&, const Ok&) {
  return engine.Settle(kNamespace, "");
}

// The original knows no pages: as many as one message holds.
Result<Ok> ReadInstances(const Reader& reader, const Ok&, ::InstancesReply* reply) {
  InstanceQuery query;
  query.ns = kNamespace;
  query.limit = limits::kPage;
  size_t bytes = 0;
  const Moment moment(reader);
  do {
    auto page = dfsmr::ReadInstances(moment, query);
    if (!page) return page.error();
    for (const InstanceView& view : page->instances) {
      ::TaskMessage task;
      FromView(view, &task);
      bytes += task.ByteSizeLong() + 8;
      if (bytes > limits::kMessage) return Ok{};
      *reply->add_instances() = std::move(task);
    }
    query.after = page->last;
  } while (!query.after.empty());
  return Ok{};
}

Result<ReportCommand> ParseTransition(const ::TransitionRequest& request, const Call& call) {
  call.caller().On(request.instance(), request.transition());
  v1::TransitionRequest transition;
  transition.set_instance(request.instance());
  transition.set_transition(request.transition());
  if (!request.nodeparams().empty()) transition.set_node_params(ToJson(request.nodeparams()));
  transition.set_client(call.Peer());
  return ToReport(transition);
}

Result<Answer> RunTransition(Engine& engine, const Caller&, ReportCommand& command) {
  return engine.Report(command.ns, command.instance, std::move(command.args));
}

void ReplyTransition(const Answer& answer, const ReportCommand& command,
                     ::TransitionReply* reply) {
  reply->set_instance(command.instance);
  if (!answer.nodes.empty()) reply->set_node(answer.nodes.front());
  reply->set_prevnode(answer.prev_node);
}

Result<RelinquishCommand> ParseRelinquish(const ::RelinquishRequest& request, const Call& call) {
  call.caller().On(request.instance());
  auto checked = CheckInstanceId(request.instance());
  if (!checked) return checked.error();
  return RelinquishCommand{request.instance(), call.Peer()};
}

Result<Ok> SettleRelinquish(Engine& engine, const Caller&, const RelinquishCommand& command) {
  auto node =
      engine.Relinquish(kNamespace, command.instance, ClaimRef(), {.client = command.client});
  // What has stopped is free as it is.
  if (node || node.error().reason == Reason::kInstanceStopped) return Ok{};
  return node.error();
}

Result<Ok> ReadRelinquished(const Reader& reader, const RelinquishCommand& command,
                            ::RelinquishReply* reply) {
  auto view = ReadInstance(Moment(reader), kNamespace, command.instance);
  if (!view) return view.error();
  ::TaskMessage task;
  FromView(*view, &task);
  reply->set_istance(command.instance);
  reply->set_node(task.node());
  return Ok{};
}

ChangesStream::Open OpenChanges(const Backend& backend) {
  ChangesStream::Open open;
  open.filter.ns = kNamespace;
  open.after = backend.changes.head();
  open.beats = false;
  return open;
}

void EncodeLines(const Changes::PortionPtr& portion, const std::string&,
                 std::deque<grpc::ByteBuffer>* out) {
  for (const auto& wire : portion->changes) {
    v1::Change change;
    if (!change.ParseFromString(*wire)) continue;
    ::ChangesReply reply;
    reply.set_command(OriginalLine(change));
    reply.set_client(change.client());
    const grpc::Slice slice(reply.SerializeAsString());
    out->emplace_back(&slice, 1);
  }
}

}  // namespace dfsmr::original
