// The unary methods of AgentService about agents and operations.
#pragma once

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/agents.h"

namespace dfsmr {

struct ListAgentsCommand {
  AgentQuery query;
  std::string filters;  // that the page token is valid for
};
Result<ListAgentsCommand> ParseListAgents(const v1::ListAgentsRequest& request, const Call&);
Result<std::vector<AgentView>> RunListAgents(Engine& engine, const Caller&,
                                             ListAgentsCommand& command);
void ReplyListAgents(const std::vector<AgentView>& views, const ListAgentsCommand& command,
                     v1::ListAgentsResponse* reply);

struct AgentCommand {
  std::string ns;
  std::string name;
  bool undo = false;   // DrainAgent
  std::string reason;  // DrainAgent
};
Result<AgentCommand> ParseGetAgent(const v1::GetAgentRequest& request, const Call&);
Result<AgentView> RunGetAgent(Engine& engine, const Caller&, AgentCommand& command);
void ReplyGetAgent(const AgentView& view, const AgentCommand&, v1::Agent* reply);
Result<AgentCommand> ParseDrainAgent(const v1::DrainAgentRequest& request, const Call& call);
Result<AgentView> RunDrainAgent(Engine& engine, const Caller&, AgentCommand& command);
void ReplyDrainAgent(const AgentView& view, const AgentCommand&, v1::Agent* reply);
Result<AgentCommand> ParseEvictAgent(const v1::EvictAgentRequest& request, const Call& call);
Result<Agents::Evicted> RunEvictAgent(Engine& engine, const Caller&, AgentCommand& command);
void ReplyEvictAgent(const Agents::Evicted& evicted, const AgentCommand&,
                     v1::EvictAgentResponse* reply);

struct ListOperationsCommand {
  OperationQuery query;
  std::string filters;
  bool tells_places = false;  // see wire/pages.h
};
Result<ListOperationsCommand> ParseListOperations(const v1::ListOperationsRequest& request,
                                                  const Call&);
Result<std::vector<OperationView>> RunListOperations(Engine& engine, const Caller&,
                                                     ListOperationsCommand& command);
void ReplyListOperations(const std::vector<OperationView>& views,
                         const ListOperationsCommand& command, v1::ListOperationsResponse* reply);

}  // namespace dfsmr
