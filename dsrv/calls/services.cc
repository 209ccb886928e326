#include "dsrv/calls/services.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <sstream>

#include "dsrv/calls/append_logs.h"
#include "dsrv/calls/attach_stream.h"
#include "dsrv/calls/backup.h"
#include "dsrv/calls/export_stream.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/fetch_package.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/calls/import_stream.h"
#include "dsrv/calls/methods.h"
#include "dsrv/calls/peer_stream.h"
#include "dsrv/calls/put_package.h"
#include "dsrv/calls/read_logs.h"
#include "dsrv/calls/row_service.h"
#include "dsrv/calls/watch_stream.h"
#include "dsrv/calls/work_stream.h"

namespace dfsmr {
namespace {

using Context = grpc::CallbackServerContext;
using Bytes = grpc::ByteBuffer;
using Feed = grpc::ServerWriteReactor<Bytes>;

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

// Who calls, by the row of the method.
template <typename Row, typename Request>
Result<Caller> AdmitStream(const Row& row, const Backend& backend, Context* context,
                           const Request& request) {
  const GrpcOrigin origin(*context);
  return Admit(row, backend.access, origin, request);
}

Feed* BeginChanges(const Backend& backend, Context* context, const Bytes& bytes) {
  v1::ChangesRequest request;
  Bytes copy = bytes;
  grpc::ProtoBufferReader reader(&copy);
  const bool read = request.ParseFromZeroCopyStream(&reader);
  return ChangesStream::Begin(
      backend, context, runner::kChanges.method,
      AdmitStream(runner::kChanges, backend, context, request),
      [&]() -> Result<ChangesStream::Open> {
        if (read) return ToOpen(backend, request);
        return Error{Code::kInternal, Reason::kNone, "the request could not be read"};
      },
      EncodeResponse);
}

Feed* BeginOriginalChanges(const Backend& backend, Context* context) {
  return ChangesStream::Begin(
      backend, context, original::kChanges.method,
      AdmitStream(original::kChanges, backend, context, ::ChangesRequest()),
      [&backend]() -> Result<ChangesStream::Open> { return original::OpenChanges(backend); },
      original::EncodeLines);
}

void AddRunner(const Backend& backend, RowService* service) {
  service->Add(runner::kDefine, runner::kListMachines, runner::kGetMachine, runner::kStart,
               runner::kStartBatch, runner::kListInstances, runner::kGetInstance,
               runner::kGetHistory, runner::kReady, runner::kTransition, runner::kRelinquish,
               runner::kExtend, runner::kPause, runner::kResume, runner::kSkip, runner::kCancel);
  service->AddBusy(runner::kReport);
  service->AddBoth<v1::WorkRequest, v1::WorkResponse>(
      runner::kWork.method, [&backend](Context* context) {
        return BeginStream<WorkReactor>(backend, context, runner::kWork.method);
      });
  service->AddReplies<Bytes, Bytes>(runner::kChanges.method,
                                    [&backend](Context* context, const Bytes* request) {
                                      return BeginChanges(backend, context, *request);
                                    });
}

void AddBackups(const Backend& backend, RowService* service) {
  service->AddReplies<v1::BackupRequest, v1::BackupResponse>(
      backups::kBackup.method, [&backend](Context* context, const v1::BackupRequest* request) {
        return BackupStream::Begin(backend, context, backups::kBackup.method,
                                   AdmitStream(backups::kBackup, backend, context, *request));
      });
}

// Reflection tells of the service of the last method, and not of what is for the HTTP door alone.
void AddTokens(RowService* service) {
  service->Add(doors::kReceiveWebhook, doors::kEndSession);
  service->Add(access_tokens::kCreateToken, access_tokens::kListTokens, access_tokens::kRevokeToken,
               access_tokens::kGetCaller, access_tokens::kCreateSession);
}

void AddAgents(const Backend& backend, RowService* service) {
  service->Add(agents::kListAgents, agents::kGetAgent, agents::kDrainAgent, agents::kEvictAgent,
               agents::kListOperations);
  service->AddBoth<v1::AgentMessage, v1::AgentOrder>(
      agents::kAttach.method, [&backend](Context* context) {
        // By which agents mark their processes.
        context->AddInitialMetadata("dfsmr-life", Hex(backend.life));
        return BeginStream<AttachStream>(backend, context, agents::kAttach.method);
      });
  service->AddBoth<Bytes, Bytes>(agents::kAppendLogs.method, [&backend](Context* context) {
    return AppendLogsStream::Begin(backend, context, agents::kAppendLogs.method);
  });
  service->AddReplies<v1::ReadLogsRequest, v1::ReadLogsResponse>(
      agents::kReadLogs.method, [&backend](Context* context, const v1::ReadLogsRequest* request) {
        return ReadLogsStream::Begin(backend, context, agents::kReadLogs.method,
                                     AdmitStream(agents::kReadLogs, backend, context, *request),
                                     *request);
      });
}

void AddPackages(const Backend& backend, RowService* service) {
  service->Add(packages::kListPackages, packages::kGetPackage, packages::kActivatePackage,
               packages::kDeactivatePackage, packages::kRemovePackage, packages::kSignPackage,
               packages::kAddTrustedKey, packages::kListTrustedKeys, packages::kRevokeTrustedKey);
  service->AddRequests<v1::PutPackageRequest, v1::PutPackageResponse>(
      packages::kPutPackage.method, [&backend, uploads = std::make_shared<Uploads>()](
                                        Context* context, v1::PutPackageResponse* reply) {
        return PutPackageStream::Begin(backend, *uploads, context, reply,
                                       packages::kPutPackage.method);
      });
  service->AddReplies<v1::FetchPackageRequest, v1::FetchPackageResponse>(
      packages::kFetchPackage.method,
      [&backend](Context* context, const v1::FetchPackageRequest* request) {
        return FetchPackageStream::Begin(
            backend, context, packages::kFetchPackage.method,
            AdmitStream(packages::kFetchPackage, backend, context, *request), *request);
      });
}

void AddNamespaces(const Backend& backend, RowService* service) {
  service->Add(namespaces::kCreateNamespace, namespaces::kListNamespaces, namespaces::kGetNamespace,
               namespaces::kUpdateNamespace, namespaces::kFreezeNamespace,
               namespaces::kDeleteNamespace);
  service->AddReplies<v1::ExportNamespaceRequest, v1::ExportItem>(
      namespaces::kExportNamespace.method,
      [&backend](Context* context, const v1::ExportNamespaceRequest* request) {
        return ExportStream::Begin(
            backend, context, namespaces::kExportNamespace.method,
            AdmitStream(namespaces::kExportNamespace, backend, context, *request), *request);
      });
  service->AddRequests<v1::ImportNamespaceRequest, v1::ImportNamespaceResponse>(
      namespaces::kImportNamespace.method, [&backend, uploads = std::make_shared<Uploads>()](
                                               Context* context,
                                               v1::ImportNamespaceResponse* reply) {
        return ImportStream::Begin(backend, *uploads, context, reply,
                                   namespaces::kImportNamespace.method);
      });
}

void AddViews(const Backend& backend, RowService* service) {
  service->Add(views::kGetOverview, views::kCountInstances, views::kListSteps, views::kGetStep,
               views::kGetDurations, views::kListQueues, views::kListWorkers);
  service->AddReplies<v1::WatchRequest, v1::WatchResponse>(
      views::kWatch.method, [&backend, looks = std::make_shared<Looks>(backend)](
                                Context* context, const v1::WatchRequest* request) {
        return WatchStream::Begin(backend, *looks, context, views::kWatch.method,
                                  AdmitStream(views::kWatch, backend, context, *request), *request);
      });
}

void AddPeers(const Backend& backend, RowService* service) {
  service->Add(peers::kPeek, peers::kGiveBack, peers::kReadFeed);
  service->AddBoth<peer::WorkPart, peer::WorkPartReply>(
      peers::kWork.method, [&backend](Context* context) {
        return BeginStream<PeerStream>(backend, context, peers::kWork.method);
      });
}

void AddOriginal(const Backend& backend, RowService* service) {
  service->Add(original::kDefine, original::kStart, original::kReady, original::kMachines,
               original::kInstances, original::kTransition, original::kRelinquish);
  service->AddReplies<Bytes, Bytes>(original::kChanges.method,
                                    [&backend](Context* context, const Bytes*) {
                                      return BeginOriginalChanges(backend, context);
                                    });
}

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Backend& backend, bool original,
                                                         DirectRows* direct) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  const auto make = [&] {
    auto service = std::make_unique<RowService>(backend, direct);
    RowService* const added = service.get();
    services.push_back(std::move(service));
    return added;
  };
  AddRunner(backend, make());
  AddBackups(backend, make());
  AddAgents(backend, make());
  AddPackages(backend, make());
  AddNamespaces(backend, make());
  AddViews(backend, make());
  AddTokens(make());
  make()->Add(schedules::kListSchedules, schedules::kGetSchedule, schedules::kPreviewSchedule,
              schedules::kRunSchedule, schedules::kBackfillSchedule, schedules::kListTriggers,
              schedules::kGetTrigger, schedules::kFireTrigger, schedules::kSetPaused,
              schedules::kListOccurrences, schedules::kRetryOccurrences,
              schedules::kDeleteDefinition, schedules::kGetClock, schedules::kAdvanceClock,
              schedules::kListGroups, schedules::kGetGroup, schedules::kSetGroup,
              schedules::kControlGroup, schedules::kListLimits, schedules::kGetLimit,
              schedules::kSetLimit);
  make()->Add(secrets::kPutSecret, secrets::kListSecrets, secrets::kDeleteSecret,
              secrets::kResolveSecrets);
  make()->Add(bulks::kStartBulk, bulks::kGetBulk, bulks::kListBulks, bulks::kStopBulk);
  make()->Add(clusters::kGetCluster);
  if (backend.shared) AddPeers(backend, make());
  if (original) AddOriginal(backend, make());
  return services;
}

}  // namespace dfsmr
