// gRPC (1.51) runs the callbacks of all channels by threads of one queue, which goes with the last
// channel that has made such a call. If a callback lets go of that channel, the thread destroys the
// queue under itself, and the process crashes.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

namespace dfsmr {

// From now on the queue stays as long as the channel of `stub` does. Any thread.
inline void KeepCallbackQueue(grpc::GenericStub& stub) {
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now());  // it goes nowhere
  Call& made = *call;
  const grpc::Slice nothing;
  made.request = grpc::ByteBuffer(&nothing, 1);
  stub.UnaryCall(&made.context, "/dfsmr.peer.PeerService/None", grpc::StubOptions(), &made.request,
                 &made.reply, [call = std::move(call)](const grpc::Status&) {});
}

}  // namespace dfsmr
