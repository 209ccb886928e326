#include "dsrv/calls/triggers.h"

#include <utility>

#include "dsrv/feed/changes.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/schedules.h"
#include "dsrv/wire/triggers.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

bool Wanted(const ListTriggersCommand& command, const TriggerView& view) {
  const bool any = command.state == v1::Schedule::STATE_UNSPECIFIED;
  if (!any && command.state != StateOf(view.row)) return false;
  if (!command.failed || view.occurrences.failed > 0) return true;
  for (const rows::PollRow& poll : view.row.poll) {
    if (poll.failures > 0) return true;
  }
  return false;
}

}  // namespace

CursorOf CursorsOf(const Call& call) {
  return [life = call.backend().life](const std::vector<uint64_t>& seqs) {
    return CursorText({life, seqs});
  };
}

Result<ListTriggersCommand> ParseListTriggers(const v1::ListTriggersRequest& request,
                                              const Call& call) {
  ListTriggersCommand command;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  if (!v1::Schedule::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of triggers");
  }
  command.filters =
      *ns + '\n' + std::to_string(request.state()) + (request.failed() ? "\nfailed" : "");
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.ns = *std::move(ns);
  command.state = request.state();
  command.failed = request.failed();
  command.limit = *limit;
  command.after = *std::move(after);
  command.cursor = CursorsOf(call);
  return command;
}

Result<Ok> SettleListTriggers(Engine& engine, const Caller&, const ListTriggersCommand& command) {
  size_t bytes = 0;
  std::string last;
  auto listed = engine.triggers().List(command.ns, command.after, [&](const TriggerView& view) {
    const bool wanted = Wanted(command, view);
    const size_t size = command.seen->views.size();
    bytes += view.definition.document->source.size();
    if (wanted && (size == command.limit || (size > 0 && bytes > kReplyBytes / 2))) {
      command.seen->last = last;
      return false;
    }
    last = view.definition.document->name;
    if (wanted) command.seen->views.push_back(view);
    return true;
  });
  return listed ? engine.Settle(command.ns, "") : listed;
}

Result<Ok> ReadListTriggers(const Reader& reader, const ListTriggersCommand& command,
                            v1::ListTriggersResponse* reply) {
  const Moment moment(reader);
  for (const TriggerView& view : command.seen->views) {
    auto shown = ShowTrigger(moment, view, command.cursor, reply->add_triggers());
    if (!shown) return shown;
  }
  if (!command.seen->last.empty()) {
    reply->set_next_page_token(PageToken(command.filters, command.seen->last));
  }
  return Ok{};
}

Result<GetTriggerCommand> ParseGetTrigger(const v1::GetTriggerRequest& request, const Call& call) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto named = Required("name", request.name()); !named) return named.error();
  return GetTriggerCommand{*std::move(ns), request.name(), request.version(), CursorsOf(call)};
}

Result<Ok> SettleGetTrigger(Engine& engine, const Caller&, const GetTriggerCommand& command) {
  auto view = engine.triggers().Get(command.ns, command.name, command.version);
  if (!view) return view.error();
  *command.seen = *std::move(view);
  return engine.Settle(command.ns, "");
}

Result<Ok> ReadGetTrigger(const Reader& reader, const GetTriggerCommand& command,
                          v1::Trigger* reply) {
  return ShowTrigger(Moment(reader), *command.seen, command.cursor, reply);
}

Result<FireTriggerCommand> ParseFireTrigger(const v1::FireTriggerRequest& request,
                                            const Call& call) {
  call.caller().On(request.name(), "fire");
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto named = Required("name", request.name()); !named) return named.error();
  if (!request.item().empty()) {
    if (auto json = CheckAnyJson("the item", request.item()); !json) return json.error();
  }
  return FireTriggerCommand{*std::move(ns), request.name(), request.on(), request.item(),
                            ReadTraceparent(call.Traceparent())};
}

Result<Occurrence> RunFireTrigger(Engine& engine, const Caller&, FireTriggerCommand& command) {
  auto fired = engine.triggers().Fire(command.ns, command.name, command.on, command.item,
                                      command.trace);
  if (fired) command.standing = engine.StandingOf(command.ns, fired->instance);
  return fired;
}

void ReplyFireTrigger(const Occurrence& occurrence, const FireTriggerCommand& command,
                      v1::Occurrence* reply) {
  ToProto({command.ns, DocumentKind::kTrigger, command.name}, occurrence, reply);
  if (command.standing) ShowStanding(command.standing->first, command.standing->second, reply);
}

}  // namespace dfsmr
