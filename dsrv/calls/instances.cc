#include "dsrv/calls/instances.h"

#include <cstdlib>
#include <utility>

#include "dsrv/calls/items.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/plan_view.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

// To what the instance is, and how it stands.
void Shorten(v1::StartResponse* started) {
  v1::Instance whole = std::move(*started->mutable_instance());
  v1::Instance* instance = started->mutable_instance();
  instance->Clear();
  instance->set_namespace_(whole.namespace_());
  instance->set_id(whole.id());
  instance->set_machine(whole.machine());
  instance->set_version(whole.version());
  instance->set_state(whole.state());
  instance->set_result(whole.result());
}

const std::string& NameOf(const v1::StartRequest& start) {
  return start.id().empty() ? start.machine() : start.id();
}

std::string NamesOf(const StartRequests& starts) {
  std::string names;
  for (const v1::StartRequest& start : starts) names += (names.empty() ? "" : " ") + NameOf(start);
  return names;
}

// One start, alone or of a batch.
Result<StartArgs> ToAllowedStart(const v1::StartRequest& request, const Call& call) {
  auto allowed = call.caller().MayStart(request.machine().substr(0, request.machine().find('@')),
                                        !request.flow().empty());
  if (allowed && request.force()) allowed = call.caller().MayForce();
  if (!allowed) return allowed.error();
  auto args = ToStart(request);
  if (!args) return args;
  args->spec.client = call.Peer();
  Join(call.Traceparent(), &*args);
  return args;
}

template <typename Request>
Result<ControlCommand> ToControl(const Request& request, const Call& call,
                                 std::string_view detail) {
  const std::string why = request.reason().empty() ? "" : ": " + request.reason();
  call.caller().On(request.instance(), std::string(detail) + why);
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckInstanceId(request.instance());
  if (!checked) return checked.error();
  ControlCommand command;
  command.ns = *std::move(ns);
  command.instance = request.instance();
  checked = CheckText("reason", request.reason(), limits::kChangeReason);
  if (!checked) return checked.error();
  command.reason = request.reason();
  return command;
}

Result<Ok> Settled(Engine& engine, const ControlCommand& command, const Result<Ok>& outcome) {
  if (!outcome) return outcome;
  auto settled = engine.Settle(command.ns, command.instance);
  if (settled) *command.waits = engine.WaitsOf(command.ns, command.instance);
  return settled;
}

}  // namespace

// Start ------------------------------------------------------------------------------------------

Result<StartArgs> ParseStart(const v1::StartRequest& request, const Call& call) {
  call.caller().On(NameOf(request), request.machine());
  return ToAllowedStart(request, call);
}

Result<Started> RunStart(Engine& engine, const Caller&, StartArgs& args) {
  auto started = engine.Start(std::move(args));
  if (!started || started->view.waits) return started;
  // As GetInstance tells it; of a batch the single instances are not looked at.
  started->view.waits = engine.WaitsOf(started->view.instance.ns, started->view.instance.id);
  return started;
}

void ReplyStart(const Started& started, const StartArgs&, v1::StartResponse* reply) {
  ToProto(started.view, reply->mutable_instance());
  reply->set_created(started.created);
}

Result<Starts> ParseStartBatch(const v1::StartBatchRequest& request, const Call& call) {
  if (call.caller().Audited()) call.caller().On(NamesOf(request.starts()));
  if (call.backend().loop.Overloaded()) return Overloaded();
  return ToAllowedStarts(request.starts(), call);
}

Result<Starts> ToAllowedStarts(const StartRequests& requests, const Call& call) {
  auto checked = CheckBatch(requests.size(), "starts");
  if (!checked) return checked.error();
  Starts starts;
  starts.reserve(static_cast<size_t>(requests.size()));
  for (const auto& start : requests) starts.push_back(ToAllowedStart(start, call));
  return starts;
}

Result<std::vector<Result<Started>>> RunStartBatch(Engine& engine, const Caller&, Starts& starts) {
  std::vector<Result<Started>> results;
  results.reserve(starts.size());
  for (auto& start : starts) {
    results.push_back(start ? engine.Start(*std::move(start)) : Result<Started>(start.error()));
  }
  starts.clear();
  return results;
}

void ReplyStartBatch(const std::vector<Result<Started>>& results, const Starts&,
                     v1::StartBatchResponse* reply) {
  // A reply must fit a message. The caller has what it sent; GetInstance shows the rest.
  ToProto(results, limits::kMessage - limits::kJson, reply->mutable_results());
}

void ToProto(const std::vector<Result<Started>>& results, size_t bytes,
             google::protobuf::RepeatedPtrField<v1::StartResult>* out) {
  size_t shown = 0;
  for (const auto& result : results) {
    v1::StartResult* to = out->Add();
    if (!result) {
      ToProto(result.error(), to->mutable_error());
      continue;
    }
    v1::StartResponse* started = to->mutable_started();
    ReplyStart(*result, {}, started);
    if (shown + started->ByteSizeLong() > bytes) Shorten(started);
    shown += started->ByteSizeLong();
  }
}

// Reads ------------------------------------------------------------------------------------------

Result<GetInstanceCommand> ParseGetInstance(const v1::GetInstanceRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckInstanceId(request.id());
  if (!checked) return checked.error();
  return GetInstanceCommand{*std::move(ns), request.id(), request.with_nodes()};
}

Result<Ok> SettleGetInstance(Engine& engine, const Caller& caller,
                             const GetInstanceCommand& command) {
  auto allowed = caller.MaySee(engine, command.ns, command.instance);
  if (!allowed) return allowed;
  auto settled = engine.Settle(command.ns, command.instance);
  if (settled) *command.waits = engine.WaitsOf(command.ns, command.instance);
  return settled;
}

Result<Ok> ReadGetInstance(const Reader& reader, const GetInstanceCommand& command,
                           v1::Instance* reply) {
  const Moment moment(reader);
  auto view = ReadInstance(moment, command.ns, command.instance);
  if (!view) return view.error();
  view->waits = *command.waits;
  ToProto(*view, reply);
  return command.with_nodes ? ShowNodes(moment, view->instance, reply) : Ok{};
}

Result<HistoryCommand> ParseGetHistory(const v1::GetHistoryRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckInstanceId(request.id());
  if (!checked) return checked.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  auto node = CheckNode("node", request.node());
  if (!node) return node.error();
  HistoryCommand command{.query = {*std::move(ns), request.id()}};
  command.query.limit = *limit;
  command.query.newest_first = request.newest_first();
  command.query.node = request.node();
  for (const int kind : request.kinds()) {
    if (kind <= 0 || !IsChangeKind(static_cast<uint32_t>(kind))) {
      return Bad("kinds: " + std::to_string(kind) + " is not a kind of Change");
    }
    command.query.kinds |= uint64_t{1} << static_cast<unsigned>(kind);
  }
  command.filters = command.query.ns + '\n' + request.id();
  if (request.newest_first() || command.query.kinds != 0 || !request.node().empty()) {
    command.filters += '\n' + std::to_string(request.newest_first()) + ' ' +
                       std::to_string(command.query.kinds) + ' ' + request.node();
  }
  auto last = ParsePageToken(command.filters, request.page_token());
  if (!last) return last.error();
  command.query.after = last->empty() ? 0 : std::strtoull(last->c_str(), nullptr, 10);
  return command;
}

Result<Ok> SettleGetHistory(Engine& engine, const Caller&, const HistoryCommand& command) {
  return engine.Settle(command.query.ns, command.query.id);
}

Result<Ok> ReadGetHistory(const Reader& reader, const HistoryCommand& command,
                          v1::GetHistoryResponse* reply) {
  auto page = ReadHistory(Moment(reader), command.query);
  if (!page) return page.error();
  for (const Event& event : page->events) ToProto(event, reader.partition, reply->add_changes());
  if (page->last != 0) {
    reply->set_next_page_token(PageToken(command.filters, std::to_string(page->last)));
  }
  return Ok{};
}

// Control ----------------------------------------------------------------------------------------

Result<ControlCommand> ParsePause(const v1::PauseRequest& request, const Call& call) {
  return ToControl(request, call, "");
}

Result<ControlCommand> ParseResume(const v1::ResumeRequest& request, const Call& call) {
  auto command = ToControl(request, call, request.node() + (request.force() ? " force" : ""));
  if (!command) return command;
  command->node = request.node();
  command->force = request.force();
  return command;
}

Result<ControlCommand> ParseSkip(const v1::SkipRequest& request, const Call& call) {
  auto command = ToControl(request, call, request.node());
  if (command) command->node = request.node();
  return command;
}

Result<ControlCommand> ParseCancel(const v1::CancelRequest& request, const Call& call) {
  auto command = ToControl(request, call,
                           v1::CancelRequest::Mode_IsValid(request.mode())
                               ? v1::CancelRequest::Mode_Name(request.mode())
                               : "");
  if (command) command->mode = request.mode();
  return command;
}

Result<Ok> SettlePause(Engine& engine, const Caller&, const ControlCommand& command) {
  return Settled(engine, command, engine.Pause(command.ns, command.instance, command.reason));
}

Result<Ok> SettleResume(Engine& engine, const Caller&, const ControlCommand& command) {
  return Settled(
      engine, command,
      engine.Resume(command.ns, command.instance, command.node, command.force, command.reason));
}

Result<Ok> SettleSkip(Engine& engine, const Caller&, const ControlCommand& command) {
  return Settled(engine, command,
                 engine.Skip(command.ns, command.instance, command.node, command.reason));
}

Result<Ok> SettleCancel(Engine& engine, const Caller&, const ControlCommand& command) {
  auto mode = ToCancelMode(command.mode);
  if (!mode) return mode.error();
  return Settled(engine, command,
                 engine.Cancel(command.ns, command.instance, *mode, command.reason));
}

Result<Ok> ReadControlled(const Reader& reader, const ControlCommand& command,
                          v1::Instance* reply) {
  auto view = ReadInstance(Moment(reader), command.ns, command.instance);
  if (!view) return view.error();
  view->waits = *command.waits;
  ToProto(*view, reply);
  return Ok{};
}

}  // namespace dfsmr
