// The way from the door to the services: gRPC within the process, so that they guard themselves.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/http/guard.h"
#include "dsrv/http/message.h"

namespace dfsmr::http {

// Who calls, as the services are told.
struct Asker {
  std::string peer;
  std::string certificate;
  std::string authorization;  // "Bearer …"; empty: none
  std::string request_id;
  std::string traceparent;
  std::string tracestate;
  bool own_page = false;  // a page of this server
};
Asker ToAsker(const Request& request, const Visitor& visitor);

class Inside {
 public:
  explicit Inside(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}

  struct Outcome {
    grpc::Status status;
    Headers trailers;
    std::string reply;  // the message's bytes
  };
  // A call that is under way.
  class Unary {
   public:
    void Cancel() { context_.TryCancel(); }

   private:
    friend class Inside;
    grpc::ClientContext context_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer reply_;
  };
  // `done` is called once, from any thread. Hold the result for as long as the call may be
  // cancelled.
  std::shared_ptr<Unary> Call(const std::string& method, const Asker& asker,
                              const std::string& request,
                              std::optional<std::chrono::milliseconds> timeout,
                              std::function<void(Outcome)> done);

  grpc::GenericStub& stub() { return stub_; }
  // Tells a call who asks, and how long it may take.
  static void Prepare(grpc::ClientContext* context, const Asker& asker,
                      std::optional<std::chrono::milliseconds> timeout);
  static Headers Trailers(const grpc::ClientContext& context);

 private:
  grpc::GenericStub stub_;
};

grpc::ByteBuffer ToBuffer(const std::string& bytes);
std::string ToBytes(const grpc::ByteBuffer& buffer);

}  // namespace dfsmr::http
