// The gRPC services. Each of their methods passes its messages on to its row of the table.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <vector>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/direct_call.h"

namespace dfsmr {

// RunnerService, TokenService, ScheduleService, AgentService, PackageService, NamespaceService,
// SecretService, ViewService and, with `original`, the service of the original
// dfsmr. `backend` must outlive them. Their unary methods are added to `direct`, too.
std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Backend& backend, bool original,
                                                         DirectRows* direct);

}  // namespace dfsmr
