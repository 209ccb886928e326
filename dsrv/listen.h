// gRPC's port.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "dsrv/access/acceptor.h"
#include "dsrv/flags.h"

namespace dfsmr {

// Bytes of trailers that a caller takes: the diagnostics of a bad definition are in one.
inline constexpr int kLargestTrailers = 4 << 20;

// A server whose connections come from `acceptor`, with what `add` registers; null: gRPC does not
// start. It is not SERVING yet.
std::unique_ptr<grpc::Server> Listen(const Flags& flags,
                                     const std::function<void(grpc::ServerBuilder&)>& add,
                                     Acceptor* acceptor);

// Whether a server tells of its services by reflection. To be said of each that is built: the
// library has all of them do so once it is loaded.
void SetReflection(grpc::ServerBuilder& builder, bool on);

// A connection to another server of the same store, which this server's flags say how to make.
std::shared_ptr<grpc::Channel> DialPeer(const Flags& flags, const std::string& address);

// What its health service answers, for the server and for the services that have names there.
void SetServing(grpc::Server& server, bool serving);

}  // namespace dfsmr
