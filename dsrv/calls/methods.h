// All methods of all services of this server in one table: name, roles, the namespaces of a
// request, and the functions that parse it, do the work and make the reply. A new method is a row
// here.
#pragma once

#include <array>

#include "dsrv/access/roles.h"
#include "dsrv/calls/access_tokens.h"
#include "dsrv/calls/agents.h"
#include "dsrv/calls/backfills.h"
#include "dsrv/calls/bulks.h"
#include "dsrv/calls/clock.h"
#include "dsrv/calls/cluster.h"
#include "dsrv/calls/count_instances.h"
#include "dsrv/calls/definitions.h"
#include "dsrv/calls/groups.h"
#include "dsrv/calls/instances.h"
#include "dsrv/calls/items.h"
#include "dsrv/calls/limits.h"
#include "dsrv/calls/list_instances.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/namespaces.h"
#include "dsrv/calls/occurrences.h"
#include "dsrv/calls/original.h"
#include "dsrv/calls/overview.h"
#include "dsrv/calls/packages.h"
#include "dsrv/calls/peers.h"
#include "dsrv/calls/schedules.h"
#include "dsrv/calls/secrets.h"
#include "dsrv/calls/tasks.h"
#include "dsrv/calls/triggers.h"
#include "dsrv/calls/trust.h"
#include "dsrv/calls/views.h"
#include "dsrv/calls/webhooks.h"

namespace dfsmr {

inline constexpr bool kChange = true;      // goes into the audit trail, see Method
inline constexpr bool kAlwaysAsks = true;  // for an access token, see Method
inline constexpr bool kTakesCodes = true;  // see Method
inline constexpr bool kTold = true;        // each call is in the audit trail, see Method

// clang-format off
// Served by the HTTP door itself: there is no such method of a service. It shows the series of the
// namespaces that the caller may enter.
inline constexpr StreamRow kMetrics({"GET /metrics", kReaders}, Anywhere());

namespace runner {
inline constexpr Method kDefinePreview = {"dfsmr.v1.RunnerService/Define", kReaders};
inline constexpr OwnRow kDefine(  // with preview: a viewer
    {"dfsmr.v1.RunnerService/Define", kChangers, kChange, !kAlwaysAsks, !kTold,
     !kTakesCodes, &kDefinePreview},
    Its(), ServeDefine);
inline constexpr DecideRow kListMachines(
    {"dfsmr.v1.RunnerService/ListMachines", kReaders},
    Its(), ParseListMachines, RunListMachines, ReplyListMachines);
inline constexpr DecideRow kGetMachine(
    {"dfsmr.v1.RunnerService/GetMachine", kReaders},
    Its(), ParseGetMachine, RunGetMachine, ReplyGetMachine);

inline constexpr DecideRow kStart(  // a worker: of its machines
    {"dfsmr.v1.RunnerService/Start", kWorkers, kChange},
    OfBegins<Its>(), ParseStart, RunStart, ReplyStart);
inline constexpr DecideRow kStartBatch(  // the same
    {"dfsmr.v1.RunnerService/StartBatch", kWorkers, kChange},
    OfBegins<OfStarts>(), ParseStartBatch, RunStartBatch, ReplyStartBatch);
inline constexpr OwnRow kListInstances(
    {"dfsmr.v1.RunnerService/ListInstances", kReaders},
    Its(), ServeListInstances);
inline constexpr ReadRow kGetInstance(  // a worker: of its machines and queues
    {"dfsmr.v1.RunnerService/GetInstance", kAnybody},
    Its(), ParseGetInstance, SettleGetInstance, ReadGetInstance);
inline constexpr ReadRow kGetHistory(
    {"dfsmr.v1.RunnerService/GetHistory", kReaders},
    Its(), ParseGetHistory, SettleGetHistory, ReadGetHistory);

// A worker: of its machines and queues; what it starts with a report, as with Start. A report
// without a claim comes from outside, see kOutsiders.
inline constexpr PollRow kReady(
    {"dfsmr.v1.RunnerService/Ready", kWorkers},
    Its(), ParseReady, NoReports<v1::ReadyResponse>, HandReady);
inline constexpr DecideRow kTransition(
    {"dfsmr.v1.RunnerService/Transition", kWorkers},
    OfReport(), ParseTransition, ReportAs, ReplyTransition);
inline constexpr PollRow kReport(
    {"dfsmr.v1.RunnerService/Report", kWorkers},
    OfReports(), ParseReport, AnswerReport, HandReport, AnswerStarts);
inline constexpr DecideRow kRelinquish(
    {"dfsmr.v1.RunnerService/Relinquish", kWorkers},
    Its(), ParseRelinquish, RelinquishAs, ReplyRelinquish);
inline constexpr DecideRow kExtend(
    {"dfsmr.v1.RunnerService/Extend", kWorkers},
    Its(), ParseExtend, RunExtend, ReplyExtend);
inline constexpr StreamRow kWork{
    {"dfsmr.v1.RunnerService/Work", kWorkers},
    Anywhere()};

inline constexpr ReadRow kPause(
    {"dfsmr.v1.RunnerService/Pause", kChangers, kChange},
    Its(), ParsePause, SettlePause, ReadControlled);
inline constexpr ReadRow kResume(
    {"dfsmr.v1.RunnerService/Resume", kChangers, kChange},
    Its(), ParseResume, SettleResume, ReadControlled);
inline constexpr ReadRow kSkip(
    {"dfsmr.v1.RunnerService/Skip", kChangers, kChange},
    Its(), ParseSkip, SettleSkip, ReadControlled);
inline constexpr ReadRow kCancel(
    {"dfsmr.v1.RunnerService/Cancel", kChangers, kChange},
    Its(), ParseCancel, SettleCancel, ReadControlled);
inline constexpr StreamRow kChanges{
    {"dfsmr.v1.RunnerService/Changes", kReaders},
    Its()};
}  // namespace runner

namespace access_tokens {
inline constexpr DecideRow kCreateToken(
    {"dfsmr.v1.TokenService/CreateToken", kAdmins, kChange, kAlwaysAsks},
    Its(), ParseCreateToken, RunCreateToken, ReplyCreateToken);
inline constexpr OwnRow kListTokens(
    {"dfsmr.v1.TokenService/ListTokens", kAdmins, !kChange, kAlwaysAsks},
    ItsIfGiven(), ServeListTokens);
inline constexpr DecideRow kRevokeToken(
    {"dfsmr.v1.TokenService/RevokeToken", kAdmins, kChange, kAlwaysAsks},
    Anywhere(), ParseRevokeToken, RunRevokeToken, ReplyRevokeToken);
inline constexpr DecideRow kCreateSession(
    {"dfsmr.v1.TokenService/CreateSession", kAnybody, kChange, kAlwaysAsks, kTold, kTakesCodes},
    Anywhere(), ParseCreateSession, RunCreateSession, ReplyCreateToken);
inline constexpr OwnRow kGetCaller(
    {"dfsmr.v1.TokenService/GetCaller", kAnybody, !kChange, kAlwaysAsks},
    Anywhere(), ServeGetCaller);
}  // namespace access_tokens

namespace backups {
inline constexpr StreamRow kBackup{
    {"dfsmr.v1.BackupService/Backup", kAdmins, kChange},
    Everywhere()};
}  // namespace backups

namespace schedules {
inline constexpr ReadRow kListSchedules(
    {"dfsmr.v1.ScheduleService/ListSchedules", kReaders},
    WithCounts<Its, Counting::kShown>(),
    ParseListSchedules, SettleListSchedules, ReadListSchedules);
inline constexpr ReadRow kGetSchedule(
    {"dfsmr.v1.ScheduleService/GetSchedule", kReaders},
    WithCounts<Its, Counting::kShown>(), ParseGetSchedule, SettleGetSchedule, ReadGetSchedule);
inline constexpr OwnRow kPreviewSchedule(
    {"dfsmr.v1.ScheduleService/PreviewSchedule", kReaders},
    Its(), ServePreviewSchedule);
inline constexpr DecideRow kRunSchedule(
    {"dfsmr.v1.ScheduleService/RunSchedule", kChangers, kChange},
    Its(), ParseRunSchedule, RunRunSchedule, ReplyRunSchedule);

inline constexpr OwnRow kBackfillSchedule(
    {"dfsmr.v1.ScheduleService/BackfillSchedule", kChangers, kChange},
    Its(), ServeBackfillSchedule);
inline constexpr ReadRow kListTriggers(
    {"dfsmr.v1.ScheduleService/ListTriggers", kReaders},
    WithCounts<Its, Counting::kShown>(), ParseListTriggers, SettleListTriggers, ReadListTriggers);
inline constexpr ReadRow kGetTrigger(
    {"dfsmr.v1.ScheduleService/GetTrigger", kReaders},
    WithCounts<Its, Counting::kShown>(), ParseGetTrigger, SettleGetTrigger, ReadGetTrigger);
inline constexpr DecideRow kFireTrigger(
    {"dfsmr.v1.ScheduleService/FireTrigger", kChangers, kChange},
    Its(), ParseFireTrigger, RunFireTrigger, ReplyFireTrigger);

inline constexpr ReadRow kSetPaused(
    {"dfsmr.v1.ScheduleService/SetPaused", kChangers, kChange},
    WithCounts<Its, Counting::kShown>(), ParseSetPaused, SettleSetPaused, ReadSetPaused);
inline constexpr ReadRow kListOccurrences(
    {"dfsmr.v1.ScheduleService/ListOccurrences", kReaders},
    Its(), ParseListOccurrences, SettleListOccurrences, ReadListOccurrences);
inline constexpr DecideRow kRetryOccurrences(
    {"dfsmr.v1.ScheduleService/RetryOccurrences", kChangers, kChange},
    Its(), ParseRetryOccurrences, RunRetryOccurrences, ReplyRetryOccurrences);
inline constexpr DecideRow kDeleteDefinition(
    {"dfsmr.v1.ScheduleService/DeleteDefinition", kChangers, kChange},
    Its(), ParseDeleteDefinition, RunDeleteDefinition, ReplyDeleteDefinition);

inline constexpr DecideRow kGetClock(
    {"dfsmr.v1.ScheduleService/GetClock", kReaders},
    Anywhere(), ParseGetClock, RunGetClock, ReplyGetClock);
inline constexpr OwnRow kAdvanceClock(
    {"dfsmr.v1.ScheduleService/AdvanceClock", kAdmins, kChange},
    Everywhere(), ServeAdvanceClock);
inline constexpr DecideRow kListGroups(
    {"dfsmr.v1.ScheduleService/ListGroups", kReaders},
    Its(), ParseListGroups, RunListGroups, ReplyListGroups);
inline constexpr DecideRow kGetGroup(
    {"dfsmr.v1.ScheduleService/GetGroup", kReaders},
    Its(), ParseGetGroup, RunGetGroup, ReplyGetGroup);
inline constexpr DecideRow kSetGroup(
    {"dfsmr.v1.ScheduleService/SetGroup", kChangers, kChange},
    Its(), ParseSetGroup, RunSetGroup, ReplySetGroup);
inline constexpr DecideRow kControlGroup(
    {"dfsmr.v1.ScheduleService/ControlGroup", kChangers, kChange},
    Its(), ParseControlGroup, RunControlGroup, ReplyControlGroup);
inline constexpr DecideRow kListLimits(
    {"dfsmr.v1.ScheduleService/ListLimits", kReaders},
    Its(), ParseListLimits, RunListLimits, ReplyListLimits);
inline constexpr DecideRow kGetLimit(
    {"dfsmr.v1.ScheduleService/GetLimit", kReaders},
    Its(), ParseGetLimit, RunGetLimit, ReplyGetLimit);
inline constexpr DecideRow kSetLimit(
    {"dfsmr.v1.ScheduleService/SetLimit", kChangers, kChange},
    OfLimit(), ParseSetLimit, RunSetLimit, ReplySetLimit);
}  // namespace schedules

namespace agents {
inline constexpr StreamRow kAttach{
    {"dfsmr.v1.AgentService/Attach", kWorkers},
    Anywhere()};
inline constexpr DecideRow kListAgents(
    {"dfsmr.v1.AgentService/ListAgents", kReaders},
    Its(), ParseListAgents, RunListAgents, ReplyListAgents);
inline constexpr DecideRow kGetAgent(
    {"dfsmr.v1.AgentService/GetAgent", kReaders},
    Its(), ParseGetAgent, RunGetAgent, ReplyGetAgent);
inline constexpr DecideRow kDrainAgent(
    {"dfsmr.v1.AgentService/DrainAgent", kChangers, kChange},
    Its(), ParseDrainAgent, RunDrainAgent, ReplyDrainAgent);
inline constexpr DecideRow kEvictAgent(
    {"dfsmr.v1.AgentService/EvictAgent", kChangers, kChange},
    Its(), ParseEvictAgent, RunEvictAgent, ReplyEvictAgent);
inline constexpr DecideRow kListOperations(
    {"dfsmr.v1.AgentService/ListOperations", kReaders},
    Its(), ParseListOperations, RunListOperations, ReplyListOperations);
inline constexpr StreamRow kAppendLogs{
    {"dfsmr.v1.AgentService/AppendLogs", kWorkers},
    Anywhere()};
inline constexpr StreamRow kReadLogs{
    {"dfsmr.v1.AgentService/ReadLogs", kReaders},
    Its()};
}  // namespace agents

namespace namespaces {
inline constexpr DecideRow kCreateNamespace(
    {"dfsmr.v1.NamespaceService/CreateNamespace", kAdmins, kChange},
    Everywhere(), ParseCreateNamespace, RunCreateNamespace, ReplyNamespace);
inline constexpr DecideRow kListNamespaces(  // those that the caller may see
    {"dfsmr.v1.NamespaceService/ListNamespaces", kReaders},
    Anywhere(), ParseListNamespaces, RunListNamespaces, ReplyListNamespaces);
inline constexpr DecideRow kGetNamespace(
    {"dfsmr.v1.NamespaceService/GetNamespace", kReaders},
    ByName(), ParseGetNamespace, RunGetNamespace, ReplyNamespace);
inline constexpr DecideRow kUpdateNamespace(  // quotas: an admin of all
    {"dfsmr.v1.NamespaceService/UpdateNamespace", kAdmins, kChange},
    WithCounts<ByName, Counting::kDecides>(),
    ParseUpdateNamespace, RunUpdateNamespace, ReplyNamespace);
inline constexpr DecideRow kFreezeNamespace(
    {"dfsmr.v1.NamespaceService/FreezeNamespace", kChangers, kChange},
    ByName(), ParseFreezeNamespace, RunFreezeNamespace, ReplyFreezeNamespace);
inline constexpr DecideRow kDeleteNamespace(
    {"dfsmr.v1.NamespaceService/DeleteNamespace", kAdmins, kChange},
    Everywhere(), ParseDeleteNamespace, RunDeleteNamespace, ReplyDeleteNamespace);
inline constexpr StreamRow kExportNamespace{
    {"dfsmr.v1.NamespaceService/ExportNamespace", kAdmins},
    ByName()};
inline constexpr StreamRow kImportNamespace{
    {"dfsmr.v1.NamespaceService/ImportNamespace", kAdmins, kChange},
    Anywhere()};
}  // namespace namespaces

// The original service, in namespace "default". Its calls carry no claims.
namespace packages {
inline constexpr StreamRow kPutPackage{
    {"dfsmr.v1.PackageService/PutPackage", kChangers, kChange},
    Anywhere()};
inline constexpr StreamRow kFetchPackage{  // a worker: of its machines' packages
    {"dfsmr.v1.PackageService/FetchPackage", kAnybody},
    Its()};
inline constexpr ReadRow kListPackages(
    {"dfsmr.v1.PackageService/ListPackages", kReaders},
    WithCounts<Its, Counting::kShown>(), ParseListPackages, SettleListPackages, ReadListPackages);
inline constexpr ReadRow kGetPackage(  // a worker: of its machines' packages
    {"dfsmr.v1.PackageService/GetPackage", kAnybody},
    WithCounts<Its, Counting::kShown>(), ParseGetPackage, SettleGetPackage, ReadGetPackage);
inline constexpr OwnRow kActivatePackage(
    {"dfsmr.v1.PackageService/ActivatePackage", kChangers, kChange},
    Its(), ServeActivatePackage);
inline constexpr DecideRow kDeactivatePackage(
    {"dfsmr.v1.PackageService/DeactivatePackage", kChangers, kChange},
    WithCounts<Its, Counting::kDecides>(),
    ParseDeactivatePackage, RunDeactivatePackage, ReplyDeactivatePackage);
inline constexpr DecideRow kRemovePackage(
    {"dfsmr.v1.PackageService/RemovePackage", kChangers, kChange},
    WithCounts<Its, Counting::kDecides>(),
    ParseRemovePackage, RunRemovePackage, ReplyRemovePackage);
inline constexpr OwnRow kSignPackage(
    {"dfsmr.v1.PackageService/SignPackage", kChangers, kChange},
    Its(), ServeSignPackage);
inline constexpr DecideRow kAddTrustedKey(
    {"dfsmr.v1.PackageService/AddTrustedKey", kAdmins, kChange},
    Its(), ParseAddTrustedKey, RunAddTrustedKey, ReplyAddTrustedKey);
inline constexpr DecideRow kListTrustedKeys(
    {"dfsmr.v1.PackageService/ListTrustedKeys", kReaders},
    Its(), ParseListTrustedKeys, RunListTrustedKeys, ReplyListTrustedKeys);
inline constexpr ReadRow kRevokeTrustedKey(
    {"dfsmr.v1.PackageService/RevokeTrustedKey", kAdmins, kChange},
    WithCounts<Its, Counting::kShown>(),
    ParseRevokeTrustedKey, SettleRevokeTrustedKey, ReadRevokeTrustedKey);
}  // namespace packages

namespace secrets {
inline constexpr DecideRow kPutSecret(
    {"dfsmr.v1.SecretService/PutSecret", kChangers, kChange},
    Its(), ParsePutSecret, RunPutSecret, ReplyPutSecret);
inline constexpr ReadRow kListSecrets(
    {"dfsmr.v1.SecretService/ListSecrets", kChangers},
    Its(), ParseListSecrets, SettleListSecrets, ReadListSecrets);
inline constexpr DecideRow kDeleteSecret(
    {"dfsmr.v1.SecretService/DeleteSecret", kChangers, kChange},
    Its(), ParseDeleteSecret, RunDeleteSecret, ReplyDeleteSecret);
inline constexpr ReadRow kResolveSecrets(  // of its machines and queues, what its token is made for
    {"dfsmr.v1.SecretService/ResolveSecrets", Only(v1::AccessToken::WORKER), !kChange, kAlwaysAsks,
     kTold},
    Its(), ParseResolveSecrets, SettleResolveSecrets, ReadResolveSecrets);
}  // namespace secrets

namespace views {
inline constexpr OwnRow kGetOverview(  // of all namespaces: of those that the caller may enter
    {"dfsmr.v1.ViewService/GetOverview", kReaders},
    ItsOrAll(), ServeGetOverview);
inline constexpr OwnRow kCountInstances(
    {"dfsmr.v1.ViewService/CountInstances", kReaders},
    Its(), ServeCountInstances);
inline constexpr ReadRow kListSteps(
    {"dfsmr.v1.ViewService/ListSteps", kReaders},
    Its(), ParseListSteps, SettleListSteps, ReadListSteps);
inline constexpr ReadRow kGetStep(
    {"dfsmr.v1.ViewService/GetStep", kReaders},
    Its(), ParseGetStep, SettleGetStep, ReadGetStep);
inline constexpr DecideRow kGetDurations(
    {"dfsmr.v1.ViewService/GetDurations", kReaders},
    Its(), ParseGetDurations, RunGetDurations, ReplyGetDurations);
inline constexpr DecideRow kListQueues(
    {"dfsmr.v1.ViewService/ListQueues", kReaders},
    Its(), ParseListQueues, RunListQueues, ReplyListQueues);
inline constexpr DecideRow kListWorkers(
    {"dfsmr.v1.ViewService/ListWorkers", kReaders},
    Its(), ParseListWorkers, RunListWorkers, ReplyListWorkers);
inline constexpr StreamRow kWatch{
    {"dfsmr.v1.ViewService/Watch", kReaders},
    OfTopics()};
}  // namespace views

namespace clusters {
inline constexpr OwnRow kGetCluster(  // "dfsmr.v1.ClusterService/GetCluster"
    kGetClusterMethod,
    Anywhere(), ServeGetCluster);
}  // namespace clusters

// For the HTTP door alone.
namespace doors {
inline constexpr OwnRow kReceiveWebhook(
    {.name = "dfsmr.door.DoorService/ReceiveWebhook", .roles = kAnybody, .open = true},
    Its(), ServeWebhook);
inline constexpr DecideRow kEndSession(
    {"dfsmr.door.DoorService/EndSession", kAnybody, kChange, kAlwaysAsks, kTold},
    Anywhere(), ParseEndSession, RunEndSession, ReplyEndSession);
}  // namespace doors

// For fronts alone, in the name of a worker.
namespace peers {
inline constexpr OwnRow kPeek(
    {"dfsmr.peer.PeerService/Peek", kWorkers},
    Its(), ServePeek);
inline constexpr DecideRow kGiveBack(
    {"dfsmr.peer.PeerService/GiveBack", kWorkers},
    Its(), ParseGiveBack, RunGiveBack, ReplyGiveBack);
inline constexpr StreamRow kWork{
    {"dfsmr.peer.PeerService/Work", kWorkers},
    Anywhere()};
inline constexpr OwnRow kReadFeed(  // of a watcher
    {"dfsmr.peer.PeerService/ReadFeed", kReaders},
    Its(), ServeReadFeed);
}  // namespace peers

namespace bulks {
inline constexpr Method kPreview = {"dfsmr.v1.BulkService/StartBulk", kReaders};
inline constexpr OwnRow kStartBulk(  // with validate_only: a viewer
    {"dfsmr.v1.BulkService/StartBulk", kChangers, kChange, !kAlwaysAsks, !kTold,
     !kTakesCodes, &kPreview},
    Its(), ServeStartBulk);
inline constexpr DecideRow kGetBulk(
    {"dfsmr.v1.BulkService/GetBulk", kReaders},
    Its(), ParseGetBulk, RunGetBulk, ReplyBulk);
inline constexpr DecideRow kListBulks(
    {"dfsmr.v1.BulkService/ListBulks", kReaders},
    Its(), ParseListBulks, RunListBulks, ReplyListBulks);
inline constexpr DecideRow kStopBulk(
    {"dfsmr.v1.BulkService/StopBulk", kChangers, kChange},
    Its(), ParseStopBulk, RunStopBulk, ReplyBulk);
}  // namespace bulks

namespace original {
inline constexpr DecideRow kDefine(
    {"DistributedFSMRunner/Define", kChangers, kChange},
    InDefault(), ParseDefine, RunDefine, ReplyDefine);
inline constexpr DecideRow kStart(
    {"DistributedFSMRunner/Start", kWorkers, kChange},
    OfBegins<InDefault>(), ParseStart, RunStart, ReplyStart);
inline constexpr PollRow kReady(
    {"DistributedFSMRunner/Ready", kWorkers},
    InDefault(), ParseReady, NoReports<::TaskMessage>, HandReady);
inline constexpr DecideRow kMachines(
    {"DistributedFSMRunner/Machines", kReaders},
    InDefault(), ParseMachines, RunMachines, ReplyMachines);
inline constexpr ReadRow kInstances(
    {"DistributedFSMRunner/Instances", kReaders},
    InDefault(), ParseInstances, SettleInstances, ReadInstances);
inline constexpr DecideRow kTransition(
    {"DistributedFSMRunner/Transition", kChangers, kChange},
    InDefault(), ParseTransition, RunTransition, ReplyTransition);
inline constexpr ReadRow kRelinquish(
    {"DistributedFSMRunner/Relinquish", kChangers, kChange},
    InDefault(), ParseRelinquish, SettleRelinquish, ReadRelinquished);
inline constexpr StreamRow kChanges{
    {"DistributedFSMRunner/Changes", kReaders},
    InDefault()};
}  // namespace original
// clang-format on

// Calls `visit`, which takes any kind of row, with each row.
template <typename Visit>
constexpr void ForEachMethod(Visit visit) {
  using namespace runner;  // NOLINT: here every row is named
  (visit(kDefine), visit(kListMachines), visit(kGetMachine), visit(kStart), visit(kStartBatch),
   visit(kListInstances), visit(kGetInstance), visit(kGetHistory), visit(kReady),
   visit(kTransition), visit(kReport), visit(kRelinquish), visit(kExtend), visit(kWork),
   visit(kPause), visit(kResume), visit(kSkip), visit(kCancel), visit(kChanges));
  (visit(access_tokens::kCreateToken), visit(access_tokens::kListTokens),
   visit(access_tokens::kRevokeToken), visit(access_tokens::kGetCaller),
   visit(access_tokens::kCreateSession), visit(backups::kBackup));
  (visit(schedules::kListSchedules), visit(schedules::kGetSchedule),
   visit(schedules::kPreviewSchedule), visit(schedules::kRunSchedule),
   visit(schedules::kBackfillSchedule));
  (visit(schedules::kListTriggers), visit(schedules::kGetTrigger),
   visit(schedules::kFireTrigger));
  (visit(schedules::kSetPaused), visit(schedules::kListOccurrences),
   visit(schedules::kRetryOccurrences), visit(schedules::kDeleteDefinition));
  (visit(schedules::kGetClock), visit(schedules::kAdvanceClock));
  (visit(schedules::kListLimits), visit(schedules::kGetLimit), visit(schedules::kSetLimit));
  (visit(schedules::kListGroups), visit(schedules::kGetGroup), visit(schedules::kSetGroup),
   visit(schedules::kControlGroup));
  (visit(agents::kAttach), visit(agents::kListAgents), visit(agents::kGetAgent),
   visit(agents::kDrainAgent), visit(agents::kEvictAgent), visit(agents::kListOperations));
  (visit(agents::kAppendLogs), visit(agents::kReadLogs));
  (visit(packages::kPutPackage), visit(packages::kFetchPackage), visit(packages::kListPackages),
   visit(packages::kGetPackage), visit(packages::kActivatePackage),
   visit(packages::kDeactivatePackage), visit(packages::kRemovePackage));
  (visit(packages::kSignPackage), visit(packages::kAddTrustedKey),
   visit(packages::kListTrustedKeys), visit(packages::kRevokeTrustedKey));
  (visit(secrets::kPutSecret), visit(secrets::kListSecrets), visit(secrets::kDeleteSecret),
   visit(secrets::kResolveSecrets));
  (visit(namespaces::kCreateNamespace), visit(namespaces::kListNamespaces),
   visit(namespaces::kGetNamespace), visit(namespaces::kUpdateNamespace),
   visit(namespaces::kFreezeNamespace), visit(namespaces::kDeleteNamespace),
   visit(namespaces::kExportNamespace), visit(namespaces::kImportNamespace));
  (visit(views::kGetOverview), visit(views::kCountInstances), visit(views::kListSteps),
   visit(views::kGetStep), visit(views::kGetDurations), visit(views::kListQueues),
   visit(views::kListWorkers), visit(views::kWatch));
  visit(clusters::kGetCluster);
  (visit(bulks::kStartBulk), visit(bulks::kGetBulk), visit(bulks::kListBulks),
   visit(bulks::kStopBulk));
  (visit(original::kDefine), visit(original::kStart), visit(original::kReady),
   visit(original::kMachines), visit(original::kInstances), visit(original::kTransition),
   visit(original::kRelinquish), visit(original::kChanges));
}

}  // namespace dfsmr
