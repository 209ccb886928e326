#include "dsrv/calls/agents.h"

#include "dsrv/wire/agents.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

Result<AgentCommand> Named(const std::string& ns_given, const std::string& name) {
  auto ns = ToNamespace(ns_given);
  if (!ns) return ns.error();
  auto checked = CheckName("name", name);
  if (!checked) return checked.error();
  return AgentCommand{*std::move(ns), name, false, ""};
}

}  // namespace

Result<ListAgentsCommand> ParseListAgents(const v1::ListAgentsRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  if (!v1::Agent::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of an agent");
  }
  const std::string filters = FiltersOf(request);
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  AgentQuery query{*ns, static_cast<AgentState>(request.state()), {}, {}, *last, *limit + 1};
  query.capabilities.assign(request.capabilities().begin(), request.capabilities().end());
  for (const auto& [key, value] : request.labels()) query.labels[key] = value;
  return ListAgentsCommand{std::move(query), filters};
}

Result<std::vector<AgentView>> RunListAgents(Engine& engine, const Caller&,
                                             ListAgentsCommand& command) {
  return engine.agents().List(command.query);
}

void ReplyListAgents(const std::vector<AgentView>& views, const ListAgentsCommand& command,
                     v1::ListAgentsResponse* reply) {
  const size_t page = command.query.limit - 1;  // one more was asked for
  for (size_t i = 0; i < views.size() && i < page; ++i) ToProto(views[i], reply->add_agents());
  if (views.size() > page) {
    reply->set_next_page_token(PageToken(command.filters, views[page - 1].name));
  }
}

Result<AgentCommand> ParseGetAgent(const v1::GetAgentRequest& request, const Call&) {
  return Named(request.namespace_(), request.name());
}

Result<AgentView> RunGetAgent(Engine& engine, const Caller&, AgentCommand& command) {
  return engine.agents().Get(command.ns, command.name);
}

void ReplyGetAgent(const AgentView& view, const AgentCommand&, v1::Agent* reply) {
  ToProto(view, reply);
}

Result<AgentCommand> ParseDrainAgent(const v1::DrainAgentRequest& request, const Call& call) {
  call.caller().On(request.name(), request.undo() ? "undrain" : request.reason());
  auto command = Named(request.namespace_(), request.name());
  if (!command) return command;
  auto checked = CheckText("reason", request.reason(), limits::kNote);
  if (!checked) return checked.error();
  command->undo = request.undo();
  command->reason = request.reason();
  return command;
}

Result<AgentView> RunDrainAgent(Engine& engine, const Caller&, AgentCommand& command) {
  return engine.agents().Drain(command.ns, command.name, command.undo, command.reason);
}

void ReplyDrainAgent(const AgentView& view, const AgentCommand&, v1::Agent* reply) {
  ToProto(view, reply);
}

Result<AgentCommand> ParseEvictAgent(const v1::EvictAgentRequest& request, const Call& call) {
  call.caller().On(request.name());
  return Named(request.namespace_(), request.name());
}

Result<Agents::Evicted> RunEvictAgent(Engine& engine, const Caller&, AgentCommand& command) {
  return engine.agents().Evict(command.ns, command.name);
}

void ReplyEvictAgent(const Agents::Evicted& evicted, const AgentCommand&,
                     v1::EvictAgentResponse* reply) {
  reply->set_given_back(evicted.given_back);
  reply->set_kept(evicted.kept);
}

Result<ListOperationsCommand> ParseListOperations(const v1::ListOperationsRequest& request,
                                                  const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  const std::string filters = FiltersOf(request);
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  const bool tells_places = TakeTellsPlaces(&*last);
  return ListOperationsCommand{
      {*ns, request.agent(), request.instance(), *last, *limit + 1}, filters, tells_places};
}

Result<std::vector<OperationView>> RunListOperations(Engine& engine, const Caller&,
                                                     ListOperationsCommand& command) {
  return engine.agents().ListOperations(command.query);
}

void ReplyListOperations(const std::vector<OperationView>& views,
                         const ListOperationsCommand& command,
                         v1::ListOperationsResponse* reply) {
  const size_t page = command.query.limit - 1;
  PlacesOfPage places;
  for (size_t i = 0; i < views.size() && i < page; ++i) {
    ToProto(views[i], reply->add_operations());
    if (command.tells_places) places.items.push_back(OperationPlace(views[i]));
  }
  if (views.size() > page) places.last = OperationPlace(views[page - 1]);
  if (command.tells_places) {
    reply->set_next_page_token(PageToken(command.filters, TextOf(places)));
  } else if (!places.last.empty()) {
    reply->set_next_page_token(PageToken(command.filters, places.last));
  }
}

}  // namespace dfsmr
