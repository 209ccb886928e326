// Streams that are counted as calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include "dsrv/calls/grpc_call.h"

namespace dfsmr {

// A reactor of gRPC whose Finish counts how the stream has ended. How long it took says nothing of
// the server.
template <typename Reactor>
class Counted : public Reactor {
 public:
  // The stream is of this method. Call it before anything can end the stream.
  void Counts(const Backend& backend, const grpc::CallbackServerContext& context,
              const Method& method) {
    if (!backend.calls) return;
    calls_ = backend.calls;
    kind_ = {method.name, GrpcOrigin(context).ByHttp(), Code::kOk};
    calls_->Began();
  }

 protected:
  // In place of the reactor's own.
  void Finish(grpc::Status status) {
    kind_.code = static_cast<Code>(status.error_code());
    if (calls_) calls_->Ended(kind_, std::nullopt);
    Reactor::Finish(std::move(status));
  }

 private:
  CallMeter* calls_ = nullptr;
  CallMeter::Kind kind_;
};

}  // namespace dfsmr
