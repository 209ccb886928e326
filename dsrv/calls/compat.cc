#include "dsrv/calls/compat.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dsrv/calls/polls.h"
#include "dsrv/calls/streams.h"
#include "dsrv/wire/lists.h"
#include "fsm/base/limits.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using Params = google::protobuf::Map<std::string, std::string>;

const std::string kNamespace = "default";

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

std::string_view Operation(int kind) {
  switch (kind) {
    case v1::Change::DEFINED: return "Define";
    case v1::Change::STARTED: return "Start";
    case v1::Change::CLAIMED: return "Ready";
    case v1::Change::TRANSITIONED: return "Transition";
    case v1::Change::RELINQUISHED: return "Relinquish";
    default: return "";
  }
}

// A change in the look of the original: the call, then what was in it.
std::string Line(const v1::Change& change) {
  std::string line(Operation(change.kind()));
  if (line.empty()) line = v1::Change::Kind_Name(change.kind());
  auto field = [&line](std::string_view name, const std::string& value) {
    if (!value.empty()) line += " " + std::string(name) + ":" + Scalar(value);
  };
  field("id", change.instance().empty() ? change.machine() : change.instance());
  if (!change.instance().empty()) field("machine", change.machine());
  field("prevNode", change.prev_node());
  field("transition", change.transition());
  field("node", change.node());
  return line;
}

void EncodeLines(const Changes::PortionPtr& portion, const std::string&,
                 std::deque<grpc::ByteBuffer>* out) {
  for (const auto& wire : portion->changes) {
    v1::Change change;
    if (!change.ParseFromString(*wire)) continue;
    ::ChangesReply reply;
    reply.set_command(Line(change));
    reply.set_client(change.client());
    const grpc::Slice slice(reply.SerializeAsString());
    out->emplace_back(&slice, 1);
  }
}

}  // namespace

grpc::ServerUnaryReactor* OriginalService::Define(Context* context, const ::DefineRequest* request,
                                                  ::DefineReply* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Define"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  caller->On(request->id());
  auto parsed = std::make_shared<Parsed>(ParseDefinitions(ToYaml(*request), request->id()));
  if (!parsed->ok()) {
    std::string message;
    for (const Diagnostic& diagnostic : parsed->diagnostics) {
      if (!diagnostic.error || message.size() > 4'000) continue;
      message += (message.empty() ? "" : "\n") + diagnostic.path + ": " + diagnostic.message;
    }
    return Refused(context, {Code::kInvalidArgument, Reason::kBadMachine, message});
  }
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [=](Engine& engine) -> Result<bool> {
        auto latest = engine.registry().Find(kNamespace, request->id());
        if (latest && SameNodes(latest->machine, *request)) return false;
        std::vector<Machine> machines{parsed->definitions.front()};
        std::vector<Engine::DefineProblem> problems;
        auto defined = engine.Define(kNamespace, std::move(machines), false, &problems);
        if (!defined) return defined.error();
        return defined->front().changed;
      },
      [request](bool changed, ::DefineReply* out) {
        out->set_success(true);
        out->set_id(request->id());
        out->set_successmessage(changed ? "Created machine." : "Machine is unchanged.");
      });
}

grpc::ServerUnaryReactor* OriginalService::Start(Context* context, const ::TaskMessage* request,
                                                 ::TaskMessage* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Start"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  caller->On(request->id().empty() ? request->machine() : request->id(), request->machine());
  auto allowed = caller->MayStart(request->machine(), false);
  if (!allowed) return Refused(context, allowed.error());
  v1::StartRequest start;
  start.set_machine(request->machine());
  start.set_id(request->id());
  start.set_params(ToJson(request->instanceparams()));
  auto args = ToStart(start);
  if (!args) return Refused(context, args.error());
  args->spec.client = context->peer();
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [args = *std::move(args)](Engine& engine) mutable {
        return engine.Start(std::move(args));
      },
      [](const Started& started, ::TaskMessage* out) { FromView(started.view, out); });
}

grpc::ServerUnaryReactor* OriginalService::Ready(Context* context, const ::ReadyRequest* request,
                                                 ::TaskMessage* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Ready"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  v1::ReadyRequest ready;
  ready.set_worker(request->client());
  ready.set_machine(request->machine());
  ready.set_node(request->node());
  const Timestamp now = backend_.clock();
  auto poll = ToPoll(ready, context->peer(), now);
  if (!poll) return Refused(context, poll.error());
  auto allowed = caller->Narrow(&poll->filter);
  if (!allowed) return Refused(context, allowed.error());
  auto* call = new PollCall(backend_, context, *std::move(caller));
  const std::string worker = poll->worker;
  call->Ready(*std::move(poll), [=](const std::vector<Task>& tasks) -> std::optional<Error> {
    if (tasks.empty()) return Error{Code::kNotFound, Reason::kNone, "no available work"};
    const Task& task = tasks.front();
    reply->set_id(task.instance);
    reply->set_machine(task.machine);
    reply->set_node(task.node);
    reply->set_owner(worker);
    reply->set_starttime(static_cast<int32_t>(Micros(now) / 1'000'000));
    reply->set_starts(static_cast<int32_t>(task.attempt));
    FromJson(task.spec ? task.spec->params : "{}", reply->mutable_instanceparams());
    FromJson(task.node_params, reply->mutable_nodeparams());
    return std::nullopt;
  });
  return call;
}

grpc::ServerUnaryReactor* OriginalService::Machines(Context* context, const ::MachinesRequest*,
                                                    ::MachinesReply* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Machines"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  return Decided(
      backend_, context, *caller, 0, reply,
      [](Engine& engine) {
        return Result<std::vector<MachineView>>(
            engine.ListMachines(kNamespace, false, {}, SIZE_MAX));
      },
      [](const std::vector<MachineView>& views, ::MachinesReply* out) {
        for (const MachineView& view : views) {
          FromMachine(view.definition->machine, out->add_machines());
        }
      });
}

// The original knows no pages: as many as one message holds.
grpc::ServerUnaryReactor* OriginalService::Instances(Context* context, const ::InstancesRequest*,
                                                     ::InstancesReply* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Instances"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  return SettledRead(
      backend_, context, *caller, reply,
      [](Engine& engine) { return engine.Settle(kNamespace, ""); },
      [this](::InstancesReply* out) -> Result<Ok> {
        InstanceQuery query;
        query.ns = kNamespace;
        query.limit = limits::kPage;
        size_t bytes = 0;
        const Moment moment(backend_.engine);
        do {
          auto page = ReadInstances(moment, query);
          if (!page) return page.error();
          for (const InstanceView& view : page->instances) {
            ::TaskMessage task;
            FromView(view, &task);
            bytes += task.ByteSizeLong() + 8;
            if (bytes > limits::kMessage) return Ok{};
            *out->add_instances() = std::move(task);
          }
          query.after = page->last;
        } while (!query.after.empty());
        return Ok{};
      });
}

grpc::ServerUnaryReactor* OriginalService::Transition(Context* context,
                                                      const ::TransitionRequest* request,
                                                      ::TransitionReply* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Transition"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  caller->On(request->instance(), request->transition());
  v1::TransitionRequest transition;
  transition.set_instance(request->instance());
  transition.set_transition(request->transition());
  if (!request->nodeparams().empty()) transition.set_node_params(ToJson(request->nodeparams()));
  transition.set_client(context->peer());
  auto report = ToReport(transition);
  if (!report) return Refused(context, report.error());
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [report = *std::move(report)](Engine& engine) {
        return engine.Report(report.ns, report.instance, report.args);
      },
      [request](const Answer& answer, ::TransitionReply* out) {
        out->set_instance(request->instance());
        if (!answer.nodes.empty()) out->set_node(answer.nodes.front());
        out->set_prevnode(answer.prev_node);
      });
}

grpc::ServerUnaryReactor* OriginalService::Relinquish(Context* context,
                                                      const ::RelinquishRequest* request,
                                                      ::RelinquishReply* reply) {
  auto caller =
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Relinquish"), kNamespace);
  if (!caller) return Refused(context, caller.error());
  caller->On(request->instance());
  auto checked = CheckInstanceId(request->instance());
  if (!checked) return Refused(context, checked.error());
  return SettledRead(
      backend_, context, *caller, reply,
      [id = request->instance(), peer = context->peer()](Engine& engine) -> Result<Ok> {
        auto node = engine.Relinquish(kNamespace, id, "", peer);
        if (node || node.error().reason == Reason::kInstanceStopped)
          return Ok{};  // it is free as it is
        return node.error();
      },
      [this, request](::RelinquishReply* out) -> Result<Ok> {
        auto view = ReadInstance(Moment(backend_.engine), kNamespace, request->instance());
        if (!view) return view.error();
        ::TaskMessage task;
        FromView(*view, &task);
        out->set_istance(request->instance());
        out->set_node(task.node());
        return Ok{};
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* OriginalService::Changes(Context* context,
                                                                     const grpc::ByteBuffer*) {
  return ChangesStream::Begin(
      backend_, context,
      backend_.access.Admit(*context, RuleOf("DistributedFSMRunner/Changes"), kNamespace),
      [this]() -> Result<ChangesStream::Open> {
        ChangesStream::Open open;
        open.filter.ns = kNamespace;
        open.after = backend_.changes.head();
        open.beats = false;
        return open;
      },
      EncodeLines);
}

}  // namespace dfsmr
