// Agents and operations between dfsmr.v1 and values.
#pragma once

#include <string>

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "storage/rows/agent.h"

namespace dfsmr {

// What an agent says of itself, with what it asks for; `address`: where it calls from.
Result<rows::AgentRow> ToAgent(const v1::Register& in, const v1::ReadyRequest& open,
                               const std::string& address);
// The filters that a page token is valid for.
std::string FiltersOf(const v1::ListAgentsRequest& request);
std::string FiltersOf(const v1::ListOperationsRequest& request);
void ToProto(const AgentView& view, v1::Agent* out);
void ToProto(const OperationView& view, v1::Operation* out);
void ToProto(const RefusedWork& refused, v1::RefusedWork* out);
RefusedWork ToRefused(const v1::RefusedWork& in);

}  // namespace dfsmr
