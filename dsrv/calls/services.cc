#include "dsrv/calls/services.h"

#include "dsrv/calls/peer_stream.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <sstream>

#include "dfsmr.grpc.pb.h"
#include "dfsmr/peer.grpc.pb.h"
#include "dfsmr/v1/admin.grpc.pb.h"
#include "dfsmr/v1/agent.grpc.pb.h"
#include "dfsmr/v1/cluster.grpc.pb.h"
#include "dfsmr/v1/package.grpc.pb.h"
#include "dfsmr/v1/runner.grpc.pb.h"
#include "dfsmr/v1/schedule.grpc.pb.h"
#include "dfsmr/v1/view.grpc.pb.h"
#include "dsrv/calls/append_logs.h"
#include "dsrv/calls/attach_stream.h"
#include "dsrv/calls/backup.h"
#include "dsrv/calls/export_stream.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/fetch_package.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/calls/import_stream.h"
#include "dsrv/calls/message_pool.h"
#include "dsrv/calls/methods.h"
#include "dsrv/calls/put_package.h"
#include "dsrv/calls/read_logs.h"
#include "dsrv/calls/watch_stream.h"
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

std::string Hex(uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  return text.str();
}

// A stream of a worker, which owns itself.
template <typename Reactor>
Reactor* BeginStream(const Backend& backend, Context* context, const Method& method) {
  auto stream = std::make_shared<Reactor>(backend, context);
  Reactor* const raw = stream.get();
  raw->Counts(backend, *context, method);
  raw->Begin(std::move(stream), method);
  return raw;
}

class Runner final
    : public v1::RunnerService::WithRawCallbackMethod_Changes<v1::RunnerService::CallbackService> {
 public:
  explicit Runner(const Backend& backend) : backend_(backend) {
    SetMessageAllocatorFor_Report(&report_messages_);
  }

 private:
#define METHOD(ROWS, NAME)                                                     \
  Unary* NAME(Context* context, const decltype(ROWS::k##NAME)::Takes* request, \
              decltype(ROWS::k##NAME)::Gives* reply) override {                \
    return By(ROWS::k##NAME, backend_, context, request, reply);               \
  }
  METHOD(runner, Define)
  METHOD(runner, ListMachines)
  METHOD(runner, GetMachine)
  METHOD(runner, Start)
  METHOD(runner, StartBatch)
  METHOD(runner, ListInstances)
  METHOD(runner, GetInstance)
  METHOD(runner, GetHistory)
  METHOD(runner, Ready)
  METHOD(runner, Transition)
  METHOD(runner, Report)
  METHOD(runner, Relinquish)
  METHOD(runner, Extend)
  METHOD(runner, Pause)
  METHOD(runner, Resume)
  METHOD(runner, Skip)
  METHOD(runner, Cancel)

  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(Context* context) override {
    return BeginStream<WorkReactor>(backend_, context, runner::kWork.method);
  }

  Feed* Changes(Context* context, const grpc::ByteBuffer* buffer) override {
    v1::ChangesRequest request;
    grpc::ByteBuffer copy(*buffer);
    grpc::ProtoBufferReader reader(&copy);
    const bool read = request.ParseFromZeroCopyStream(&reader);
    return ChangesStream::Begin(
        backend_, context, runner::kChanges.method,
        Admit(runner::kChanges, backend_.access, GrpcOrigin(*context), request),
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
  METHOD(access_tokens, CreateToken)
  METHOD(access_tokens, ListTokens)
  METHOD(access_tokens, RevokeToken)
  METHOD(access_tokens, GetCaller)
  METHOD(access_tokens, CreateSession)

  const Backend& backend_;
};

class BackupCalls final : public v1::BackupService::CallbackService {
 public:
  explicit BackupCalls(const Backend& backend) : backend_(backend) {}

 private:
  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(Context* context,
                                                       const v1::BackupRequest* request) override {
    const GrpcOrigin origin(*context);
    return BackupStream::Begin(backend_, context, backups::kBackup.method,
                               Admit(backups::kBackup, backend_.access, origin, *request));
  }

  const Backend& backend_;
};

class ScheduleCalls final : public v1::ScheduleService::CallbackService {
 public:
  explicit ScheduleCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(schedules, ListSchedules)
  METHOD(schedules, GetSchedule)
  METHOD(schedules, PreviewSchedule)
  METHOD(schedules, RunSchedule)
  METHOD(schedules, BackfillSchedule)
  METHOD(schedules, ListTriggers)
  METHOD(schedules, GetTrigger)
  METHOD(schedules, FireTrigger)
  METHOD(schedules, SetPaused)
  METHOD(schedules, ListOccurrences)
  METHOD(schedules, RetryOccurrences)
  METHOD(schedules, DeleteDefinition)
  METHOD(schedules, GetClock)
  METHOD(schedules, AdvanceClock)
  METHOD(schedules, ListGroups)
  METHOD(schedules, GetGroup)
  METHOD(schedules, SetGroup)
  METHOD(schedules, ControlGroup)
  METHOD(schedules, ListLimits)
  METHOD(schedules, GetLimit)
  METHOD(schedules, SetLimit)

  const Backend& backend_;
};

// AgentService::CallbackService, but for AppendLogs, which reads bytes: gRPC cannot override that
// method of it, because both kinds of the method take the same arguments.
template <typename Service>
using RawAgentService = v1::AgentService::WithRawCallbackMethod_AppendLogs<
    v1::AgentService::WithCallbackMethod_Attach<v1::AgentService::WithCallbackMethod_ReadLogs<
        v1::AgentService::WithCallbackMethod_ListAgents<
            v1::AgentService::WithCallbackMethod_GetAgent<
                v1::AgentService::WithCallbackMethod_DrainAgent<
                    v1::AgentService::WithCallbackMethod_EvictAgent<
                        v1::AgentService::WithCallbackMethod_ListOperations<Service>>>>>>>>;

class AgentCalls final : public RawAgentService<v1::AgentService::Service> {
 public:
  explicit AgentCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(agents, ListAgents)
  METHOD(agents, GetAgent)
  METHOD(agents, DrainAgent)
  METHOD(agents, EvictAgent)
  METHOD(agents, ListOperations)

  grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder>* Attach(Context* context) override {
    // By which agents mark their processes.
    context->AddInitialMetadata("dfsmr-life", Hex(backend_.life));
    return BeginStream<AttachStream>(backend_, context, agents::kAttach.method);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AppendLogs(
      Context* context) override {
    return AppendLogsStream::Begin(backend_, context, agents::kAppendLogs.method);
  }
  grpc::ServerWriteReactor<v1::ReadLogsResponse>* ReadLogs(
      Context* context, const v1::ReadLogsRequest* request) override {
    const GrpcOrigin origin(*context);
    return ReadLogsStream::Begin(backend_, context, agents::kReadLogs.method,
                                 Admit(agents::kReadLogs, backend_.access, origin, *request),
                                 *request);
  }

  const Backend& backend_;
};

class PackageCalls final : public v1::PackageService::CallbackService {
 public:
  explicit PackageCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(packages, ListPackages)
  METHOD(packages, GetPackage)
  METHOD(packages, ActivatePackage)
  METHOD(packages, DeactivatePackage)
  METHOD(packages, RemovePackage)
  METHOD(packages, SignPackage)
  METHOD(packages, AddTrustedKey)
  METHOD(packages, ListTrustedKeys)
  METHOD(packages, RevokeTrustedKey)

  grpc::ServerReadReactor<v1::PutPackageRequest>* PutPackage(
      Context* context, v1::PutPackageResponse* reply) override {
    return PutPackageStream::Begin(backend_, uploads_, context, reply,
                                   packages::kPutPackage.method);
  }
  grpc::ServerWriteReactor<v1::FetchPackageResponse>* FetchPackage(
      Context* context, const v1::FetchPackageRequest* request) override {
    const GrpcOrigin origin(*context);
    return FetchPackageStream::Begin(
        backend_, context, packages::kFetchPackage.method,
        Admit(packages::kFetchPackage, backend_.access, origin, *request), *request);
  }

  const Backend& backend_;
  Uploads uploads_;
};

class SecretCalls final : public v1::SecretService::CallbackService {
 public:
  explicit SecretCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(secrets, PutSecret)
  METHOD(secrets, ListSecrets)
  METHOD(secrets, DeleteSecret)
  METHOD(secrets, ResolveSecrets)

  const Backend& backend_;
};

class NamespaceCalls final : public v1::NamespaceService::CallbackService {
 public:
  explicit NamespaceCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(namespaces, CreateNamespace)
  METHOD(namespaces, ListNamespaces)
  METHOD(namespaces, GetNamespace)
  METHOD(namespaces, UpdateNamespace)
  METHOD(namespaces, FreezeNamespace)
  METHOD(namespaces, DeleteNamespace)

  grpc::ServerWriteReactor<v1::ExportItem>* ExportNamespace(
      Context* context, const v1::ExportNamespaceRequest* request) override {
    const GrpcOrigin origin(*context);
    return ExportStream::Begin(
        backend_, context, namespaces::kExportNamespace.method,
        Admit(namespaces::kExportNamespace, backend_.access, origin, *request), *request);
  }
  grpc::ServerReadReactor<v1::ImportNamespaceRequest>* ImportNamespace(
      Context* context, v1::ImportNamespaceResponse* reply) override {
    return ImportStream::Begin(backend_, uploads_, context, reply,
                               namespaces::kImportNamespace.method);
  }

  const Backend& backend_;
  Uploads uploads_;
};

class ViewCalls final : public v1::ViewService::CallbackService {
 public:
  explicit ViewCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(views, GetOverview)
  METHOD(views, CountInstances)
  METHOD(views, ListSteps)
  METHOD(views, GetStep)
  METHOD(views, GetDurations)
  METHOD(views, ListQueues)
  METHOD(views, ListWorkers)

  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(Context* context,
                                                     const v1::WatchRequest* request) override {
    const GrpcOrigin origin(*context);
    return WatchStream::Begin(backend_, looks_, context, views::kWatch.method,
                              Admit(views::kWatch, backend_.access, origin, *request), *request);
  }

  const Backend& backend_;
  Looks looks_{backend_};
};

class ClusterCalls final : public v1::ClusterService::CallbackService {
 public:
  explicit ClusterCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(clusters, GetCluster)

  const Backend& backend_;
};

class PeerCalls final : public peer::PeerService::CallbackService {
 public:
  explicit PeerCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(peers, Peek)
  METHOD(peers, GiveBack)
  grpc::ServerBidiReactor<peer::WorkPart, peer::WorkPartReply>* Work(Context* context) override {
    return BeginStream<PeerStream>(backend_, context, peers::kWork.method);
  }

  const Backend& backend_;
};

class BulkCalls final : public v1::BulkService::CallbackService {
 public:
  explicit BulkCalls(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(bulks, StartBulk)
  METHOD(bulks, GetBulk)
  METHOD(bulks, ListBulks)
  METHOD(bulks, StopBulk)

  const Backend& backend_;
};

class Original final : public ::DistributedFSMRunner::WithRawCallbackMethod_Changes<
                           ::DistributedFSMRunner::CallbackService> {
 public:
  explicit Original(const Backend& backend) : backend_(backend) {}

 private:
  METHOD(original, Define)
  METHOD(original, Start)
  METHOD(original, Ready)
  METHOD(original, Machines)
  METHOD(original, Instances)
  METHOD(original, Transition)
  METHOD(original, Relinquish)
#undef METHOD

  Feed* Changes(Context* context, const grpc::ByteBuffer*) override {
    const GrpcOrigin origin(*context);
    return ChangesStream::Begin(
        backend_, context, original::kChanges.method,
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
  services.push_back(std::make_unique<BackupCalls>(backend));
  services.push_back(std::make_unique<ScheduleCalls>(backend));
  services.push_back(std::make_unique<AgentCalls>(backend));
  services.push_back(std::make_unique<PackageCalls>(backend));
  services.push_back(std::make_unique<NamespaceCalls>(backend));
  services.push_back(std::make_unique<SecretCalls>(backend));
  services.push_back(std::make_unique<ViewCalls>(backend));
  services.push_back(std::make_unique<BulkCalls>(backend));
  services.push_back(std::make_unique<ClusterCalls>(backend));
  if (backend.parted) services.push_back(std::make_unique<PeerCalls>(backend));
  if (original) services.push_back(std::make_unique<Original>(backend));
  return services;
}

}  // namespace dfsmr
