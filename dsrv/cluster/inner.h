// What a front asks of itself: a part of a call, for one partition. It is asked within the process,
// and waits for owners, crosses to other servers and is repeated as any call is.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "storage/store.h"

namespace dfsmr {

grpc::ByteBuffer ToBuffer(const std::string& bytes);
std::string ToBytes(const grpc::ByteBuffer& buffer);

// Has `inner` say who asks in `outer`, as the front tells the services, and for which partition;
// nullopt: it is a call as a client makes it, for the front to split.
void AskInner(const grpc::GenericCallbackServerContext& outer,
              std::optional<PartitionId> partition, grpc::ClientContext* inner);
// Whether the call is for one partition already, as the front says that passed it on or asked it.
bool IsInner(const grpc::GenericCallbackServerContext& context);

}  // namespace dfsmr
