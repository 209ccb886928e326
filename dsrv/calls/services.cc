#include "dsrv/calls/services.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "dfsmr.grpc.pb.h"
#include "dfsmr/v1/admin.grpc.pb.h"
#include "dfsmr/v1/runner.grpc.pb.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/calls/message_pool.h"
#include "dsrv/calls/methods.h"
#include "dsrv/calls/work_stream.h"

namespace dfsmr {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;
using Feed = grpc::ServerWriteReactor<grpc::ByteBuffer>;

// A unary method, by its row.
template <typename Row, typename Request, typename Reply>
Unary* By(const Row& row, const Backend& backend, Context* context, const Request* request,
          Reply* reply) {
  auto* call = new UnaryCall(backend, context);
  Serve(row, *call, *request, reply);
  return call;
}

class Runner final
    : public v1::RunnerService::WithRawCallbackMethod_Changes<v1::RunnerService::CallbackService> {
 public:
  explicit Runner(const Backend& backend) : backend_(backend) {
    SetMessageAllocatorFor_Report(&report_messages_);
  }

 private:
#define METHOD(ROWS, NAME, REQUEST, REPLY)                                       \
  Unary* NAME(Context* context, const REQUEST* request, REPLY* reply) override { \
    return By(ROWS::k##NAME, backend_, context, request, reply);                 \
  }
  METHOD(runner, Define, v1::DefineRequest, v1::DefineResponse)
  METHOD(runner, ListMachines, v1::ListMachinesRequest, v1::ListMachinesResponse)
  METHOD(runner, GetMachine, v1::GetMachineRequest, v1::Machine)
  METHOD(runner, Start, v1::StartRequest, v1::StartResponse)
  METHOD(runner, StartBatch, v1::StartBatchRequest, v1::StartBatchResponse)
  METHOD(runner, ListInstances, v1::ListInstancesRequest, v1::ListInstancesResponse)
  METHOD(runner, GetInstance, v1::GetInstanceRequest, v1::Instance)
  METHOD(runner, GetHistory, v1::GetHistoryRequest, v1::GetHistoryResponse)
  METHOD(runner, Ready, v1::ReadyRequest, v1::ReadyResponse)
  METHOD(runner, Transition, v1::TransitionRequest, v1::TransitionResponse)
  METHOD(runner, Report, v1::ReportRequest, v1::ReportResponse)
  METHOD(runner, Relinquish, v1::RelinquishRequest, v1::RelinquishResponse)
  METHOD(runner, Extend, v1::ExtendRequest, v1::ExtendResponse)
  METHOD(runner, Pause, v1::PauseRequest, v1::Instance)
  METHOD(runner, Resume, v1::ResumeRequest, v1::Instance)
  METHOD(runner, Skip, v1::SkipRequest, v1::Instance)
  METHOD(runner, Cancel, v1::CancelRequest, v1::Instance)

  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(Context* context) override {
    return WorkStream::Begin(backend_, context, runner::kWork.method);
  }

  Feed* Changes(Context* context, const grpc::ByteBuffer* buffer) override {
    v1::ChangesRequest request;
    grpc::ByteBuffer copy(*buffer);
    grpc::ProtoBufferReader reader(&copy);
    const bool read = request.ParseFromZeroCopyStream(&reader);
    return ChangesStream::Begin(
        backend_, context, Admit(runner::kChanges, backend_.access, GrpcOrigin(*context), request),
        [&]() -> Result<ChangesStream::Open> {
          if (read) return ToOpen(backend_, request);
          return Error{Code::kInternal, Reason::kNone, "the request could not be read"};
        },
        EncodeResponse);
  }

  const Backend& backend_;
  MessagePool<v1::ReportRequest, v1::ReportResponse> report_messages_;
};

class AccessTokens final : public v1::TokenService::CallbackService {
 public:
  explicit AccessTokens(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(access_tokens, CreateToken, v1::CreateTokenRequest, v1::CreateTokenResponse)
  METHOD(access_tokens, ListTokens, v1::ListTokensRequest, v1::ListTokensResponse)
  METHOD(access_tokens, RevokeToken, v1::RevokeTokenRequest, v1::RevokeTokenResponse)
  METHOD(access_tokens, GetCaller, v1::GetCallerRequest, v1::AccessToken)

  const Backend& backend_;
};

class Original final
    : public ::DistributedFSMRunner::WithRawCallbackMethod_Changes<
          ::DistributedFSMRunner::CallbackService> {
 public:
  explicit Original(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(original, Define, ::DefineRequest, ::DefineReply)
  METHOD(original, Start, ::TaskMessage, ::TaskMessage)
  METHOD(original, Ready, ::ReadyRequest, ::TaskMessage)
  METHOD(original, Machines, ::MachinesRequest, ::MachinesReply)
  METHOD(original, Instances, ::InstancesRequest, ::InstancesReply)
  METHOD(original, Transition, ::TransitionRequest, ::TransitionReply)
  METHOD(original, Relinquish, ::RelinquishRequest, ::RelinquishReply)
#undef METHOD

  Feed* Changes(Context* context, const grpc::ByteBuffer*) override {
    const GrpcOrigin origin(*context);
    return ChangesStream::Begin(
        backend_, context,
        Admit(original::kChanges, backend_.access, origin, ::ChangesRequest()),
        [this]() -> Result<ChangesStream::Open> { return original::OpenChanges(backend_); },
        original::EncodeLines);
  }

  const Backend& backend_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Backend& backend, bool original) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<Runner>(backend));
  services.push_back(std::make_unique<AccessTokens>(backend));
  if (original) services.push_back(std::make_unique<Original>(backend));
  return services;
}

}  // namespace dfsmr
