// The service of the original dfsmr over the same engine, in namespace "default".
#pragma once

#include "dfsmr.grpc.pb.h"
#include "dsrv/calls/calls.h"

namespace dfsmr {

class OriginalService final
    : public ::DistributedFSMRunner::WithRawCallbackMethod_Changes<
          ::DistributedFSMRunner::CallbackService> {
 public:
  explicit OriginalService(const Backend& backend) : backend_(backend) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* Define(Context*, const ::DefineRequest*, ::DefineReply*) override;
  Unary* Start(Context*, const ::TaskMessage*, ::TaskMessage*) override;
  Unary* Ready(Context*, const ::ReadyRequest*, ::TaskMessage*) override;
  Unary* Machines(Context*, const ::MachinesRequest*, ::MachinesReply*) override;
  Unary* Instances(Context*, const ::InstancesRequest*, ::InstancesReply*) override;
  Unary* Transition(Context*, const ::TransitionRequest*, ::TransitionReply*) override;
  Unary* Relinquish(Context*, const ::RelinquishRequest*, ::RelinquishReply*) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Changes(Context*, const grpc::ByteBuffer*) override;

  const Backend backend_;
};

}  // namespace dfsmr
