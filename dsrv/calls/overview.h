// GetOverview: what the engine adds up, and what there is to say of the server.
#pragma once

#include <functional>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

void ServeGetOverview(Call& call, const v1::GetOverviewRequest& request, v1::Overview* reply);

// What the engine knows, in the loop. `sees`: whether the caller may look into a namespace.
void AddUp(Engine& engine, const std::function<bool(const std::string& ns)>& sees,
           const v1::GetOverviewRequest& request, v1::Overview* out);
// Reads what the system knows of the process, which may block.
void ShowServer(const Backend& backend, v1::ServerStatus* out);

}  // namespace dfsmr
