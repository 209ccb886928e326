// What servers that share a store ask of each other, apart from calls that they pass on: whether
// one answers, that its partitions adopt what home has changed, that they apply messages of others,
// what home has to know of them, and parts of calls.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/cluster/front.h"

namespace dfsmr {

// Whether a call is one of these.
bool IsOfPeer(const grpc::GenericCallbackServerContext& context);
// Answers it, if a server of this store asks it of this one. REQUIRES: it is one of these.
grpc::ServerGenericBidiReactor* TakeFromPeer(Front& front,
                                             const grpc::GenericCallbackServerContext& context);

// Asks another server to have its partitions adopt what home has changed. `done` is called once,
// from any thread; false: nobody knows whether it has.
void HaveAdopted(const Front& front, const std::shared_ptr<Peer>& peer, const std::string& ns,
                 std::function<void(bool done)> done);

// Asks another server to have a partition of its apply messages, as Front::Deliver.
void HaveDelivered(const Front& front, const std::shared_ptr<Peer>& peer,
                   const std::string& portion,
                   std::function<void(std::optional<std::string> reply)> done);

// Asks another server about a partition of its, as Front::Outside::answer, for as long as that.
void HaveAnswered(const Front& front, const std::shared_ptr<Peer>& peer,
                  const std::string& question, std::chrono::milliseconds patience,
                  std::function<void(std::optional<std::string> reply)> done);

// Asks another server for parts of a call, as peer::Parts, which its partitions are asked without
// more ado. `done` is called once, with peer::PartReplies where it has answered.
void HavePartsDone(const Front& front, const std::shared_ptr<Peer>& peer, const std::string& parts,
                   std::chrono::system_clock::time_point deadline,
                   std::function<void(const grpc::Status& status, const std::string& reply)> done);

// Asks another server whether it can be reached, and says whether there is something new to see.
// `done` is called once, from any thread; with the cause, where it cannot.
void Ping(const Front& front, const std::shared_ptr<Peer>& peer, bool look,
          std::function<void(bool answers, const std::string& why)> done);

}  // namespace dfsmr
