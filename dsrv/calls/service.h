// dfsmr.v1.RunnerService: each method turns its message into a command for the loop, or refuses it.
#pragma once

#include "dfsmr/v1/runner.grpc.pb.h"
#include "dsrv/calls/calls.h"
#include "dsrv/calls/message_pool.h"

namespace dfsmr {

class RunnerService final
    : public v1::RunnerService::WithRawCallbackMethod_Changes<v1::RunnerService::CallbackService> {
 public:
  explicit RunnerService(const Backend& backend) : backend_(backend) {
    SetMessageAllocatorFor_Report(&report_messages_);
  }

 private:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* Define(Context*, const v1::DefineRequest*, v1::DefineResponse*) override;
  Unary* ListMachines(Context*, const v1::ListMachinesRequest*, v1::ListMachinesResponse*) override;
  Unary* GetMachine(Context*, const v1::GetMachineRequest*, v1::Machine*) override;
  Unary* Start(Context*, const v1::StartRequest*, v1::StartResponse*) override;
  Unary* StartBatch(Context*, const v1::StartBatchRequest*, v1::StartBatchResponse*) override;
  Unary* ListInstances(Context*, const v1::ListInstancesRequest*,
                       v1::ListInstancesResponse*) override;
  Unary* GetInstance(Context*, const v1::GetInstanceRequest*, v1::Instance*) override;
  Unary* GetHistory(Context*, const v1::GetHistoryRequest*, v1::GetHistoryResponse*) override;
  Unary* Ready(Context*, const v1::ReadyRequest*, v1::ReadyResponse*) override;
  Unary* Transition(Context*, const v1::TransitionRequest*, v1::TransitionResponse*) override;
  Unary* Report(Context*, const v1::ReportRequest*, v1::ReportResponse*) override;
  Unary* Relinquish(Context*, const v1::RelinquishRequest*, v1::RelinquishResponse*) override;
  Unary* Extend(Context*, const v1::ExtendRequest*, v1::ExtendResponse*) override;
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(Context*) override;
  Unary* Pause(Context*, const v1::PauseRequest*, v1::Instance*) override;
  Unary* Resume(Context*, const v1::ResumeRequest*, v1::Instance*) override;
  Unary* Skip(Context*, const v1::SkipRequest*, v1::Instance*) override;
  Unary* Cancel(Context*, const v1::CancelRequest*, v1::Instance*) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Changes(Context*, const grpc::ByteBuffer*) override;

  // Pause, Resume, Skip, Cancel: answer the instance as it is afterwards.
  template <typename Request, typename Control>
  Unary* Controlled(Context* context, const Method& method, const Request* request,
                    v1::Instance* reply, std::string_view detail, Control control);

  const Backend backend_;
  MessagePool<v1::ReportRequest, v1::ReportResponse> report_messages_;
};

// A change as a field of ChangesResponse would hold it.
std::string SerialiseChange(const Event& event, PartitionId partition);

}  // namespace dfsmr
