// The server, as dcli sees it: one blocking call a method, with deadlines, retries and errors that
// carry their reason.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "dfsmr/v1/admin.pb.h"
#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/package.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dfsmr/v1/schedule.pb.h"
#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr::cli {

// Ends the calls that were made with it, both those under way and later ones, with kCancelled. Any
// thread.
class Canceller {
 public:
  void Cancel();
  bool cancelled() const;
  // Waits for so long. True, at once, when it is cancelled; false when the time is over.
  bool SleepFor(std::chrono::milliseconds time) const;

 private:
  friend class CallUnderWay;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  bool cancelled_ GUARDED(mutex_) = false;
  std::map<int, std::function<void()>> calls_ GUARDED(mutex_);
  int next_ GUARDED(mutex_) = 0;
};

// An error that came inside a reply.
Error FromProto(const v1::Error& error);

// The waits between tries: 100 ms, doubling to 2 s, varied at random, so that not all clients
// return at once to a server that was away.
class Backoff {
 public:
  std::chrono::milliseconds Next();
  void Reset() { wait_ = kFirst; }

 private:
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{2'000};
  std::chrono::milliseconds wait_ = kFirst;
  std::minstd_rand random_{std::random_device{}()};
};

// True for errors after which the same call may succeed: the server was not reached, dropped the
// call, or has too much to do. It is true of a call that we cancelled, too: ask the canceller
// first.
bool Passing(const Error& error);
// True of a refusal that what a report starts meets for a while: its namespace is frozen, or at one
// of its quotas. The work is done, so its report is worth repeating.
bool Deferred(const Error& error);
// True when no server was reached in time; false when a server refused the call.
bool Unreached(const Error& error);

// The innermost cause, in words that a reader can act on: "Connection refused".
std::string Cause(const Error& error);

// Where to connect for what the user wrote: ":3004" means this machine, "host" its port 3004.
std::string ServerAddress(const std::string& server);
// The same for a list, "a:3004,b:3004": servers any of which will do. At least one.
std::vector<std::string> ServerAddresses(const std::string& servers);

// How the server knows us, and how we know the server. The files are read again for each
// connection, and the token's file for each call: they may be replaced while a worker runs for
// months.
struct Credentials {
  std::string token;
  std::string token_file;  // wins over `token`
  std::string ca;    // PEM file, or "system": use TLS; one of these signs the server's certificate
  std::string cert;  // PEM, for mutual TLS
  std::string key;
  bool insecure = false;  // the token may be sent to another machine without TLS

  bool tls() const { return !ca.empty() || !cert.empty() || !key.empty(); }
};
// What DFSMR_TOKEN_FILE, DFSMR_TOKEN, DFSMR_TLS_CA, DFSMR_TLS_CERT and DFSMR_TLS_KEY say.
Credentials CredentialsFromEnvironment();
// Fails when calls to `server` must not be made with them: a file cannot be read, or the token
// would be readable on the way.
Result<Ok> CheckCredentials(const Credentials& credentials, const std::string& server);

class NamespaceCalls;
class ScheduleCalls;
class AgentCalls;
class PackageCalls;
class SecretCalls;
class BackupCalls;
class ViewCalls;

// Any thread. Connects at the first call. A call ends at its timeout; a call that was cancelled
// fails with kCancelled.
class Client {
 public:
  // `timeout` bounds each call, in addition to what a call itself waits for. Of several servers it
  // stays with one until that is not available.
  Client(const std::string& servers, Duration timeout, Credentials credentials = {});
  ~Client();

  const std::string& server() const { return server_; }  // all of them
  bool tls() const { return credentials_.tls(); }

  Result<v1::DefineResponse> Define(const v1::DefineRequest& request);
  Result<v1::ListMachinesResponse> ListMachines(const v1::ListMachinesRequest& request);
  Result<v1::Machine> GetMachine(const v1::GetMachineRequest& request);

  // Repeated when the connection breaks only if the request has an id: that makes it idempotent.
  Result<v1::StartResponse> Start(const v1::StartRequest& request);
  Result<v1::StartBatchResponse> StartBatch(const v1::StartBatchRequest& request);
  Result<v1::ListInstancesResponse> ListInstances(const v1::ListInstancesRequest& request);
  Result<v1::Instance> GetInstance(const v1::GetInstanceRequest& request,
                                   Canceller* cancel = nullptr);
  Result<v1::GetHistoryResponse> GetHistory(const v1::GetHistoryRequest& request);

  Result<v1::ReadyResponse> Ready(const v1::ReadyRequest& request, Canceller* cancel = nullptr);
  // Repeated when the connection breaks only if the request has a claim.
  Result<v1::TransitionResponse> Transition(const v1::TransitionRequest& request,
                                            Canceller* cancel = nullptr);
  Result<v1::RelinquishResponse> Relinquish(const v1::RelinquishRequest& request);
  Result<v1::ExtendResponse> Extend(const v1::ExtendRequest& request, Canceller* cancel = nullptr);

  Result<v1::Instance> Pause(const v1::PauseRequest& request);
  Result<v1::Instance> Resume(const v1::ResumeRequest& request);
  Result<v1::Instance> Skip(const v1::SkipRequest& request);
  Result<v1::Instance> Cancel(const v1::CancelRequest& request);

  Result<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  Result<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request);
  Result<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request);
  Result<v1::AccessToken> GetCaller();
  Result<v1::CreateTokenResponse> CreateSession(const v1::CreateSessionRequest& request);

  ScheduleCalls schedules();
  NamespaceCalls namespaces();
  AgentCalls agents();      // agents.h
  PackageCalls packages();  // packages.h
  SecretCalls secrets();    // secrets.h
  BackupCalls backups();    // backup.h
  ViewCalls views();        // views.h

  // Hands each message of the stream to `visit` until that returns false or the stream ends. The
  // server says something at least every 5 s; after 20 s of silence it counts as lost.
  Result<Ok> Changes(const v1::ChangesRequest& request, Canceller* cancel,
                     const std::function<bool(const v1::ChangesResponse&)>& visit);
  // The same of logs.
  Result<Ok> ReadLogs(const v1::ReadLogsRequest& request, Canceller* cancel,
                      const std::function<bool(const v1::ReadLogsResponse&)>& visit);

 private:
  friend class NamespaceCalls;
  friend class ScheduleCalls;
  friend class AgentCalls;
  friend class PackageCalls;
  friend class SecretCalls;
  friend class BackupCalls;
  friend class ViewCalls;
  struct Connection;
  std::shared_ptr<Connection> Connected();
  // The same for a stream, which is not repeated: of several servers one that is there.
  std::shared_ptr<Connection> Reached();
  void Lost(const std::shared_ptr<Connection>& connection, const Error& error);
  template <typename Response, typename Open>
  Result<Ok> Listen(Canceller* cancel, const std::function<bool(const Response&)>& visit,
                    Open open);
  template <typename Response, typename Request, typename Method>
  Result<Response> Call(Method method, const Request& request, bool repeatable,
                        Duration wait = Duration::zero(), Canceller* cancel = nullptr);

  const std::vector<std::string> servers_;
  const std::string server_;
  const Duration timeout_;
  const Credentials credentials_;
  Mutex mutex_;
  size_t at_ GUARDED(mutex_) = 0;  // of servers_
  std::shared_ptr<Connection> connection_ GUARDED(mutex_);
};

// The calls of ScheduleService. Valid as long as their client.
class ScheduleCalls {
 public:
  explicit ScheduleCalls(Client& client) : client_(client) {}

  Result<v1::ListSchedulesResponse> ListSchedules(const v1::ListSchedulesRequest& request);
  Result<v1::Schedule> GetSchedule(const v1::GetScheduleRequest& request);
  Result<v1::PreviewScheduleResponse> PreviewSchedule(const v1::PreviewScheduleRequest& request);
  Result<v1::Occurrence> RunSchedule(const v1::RunScheduleRequest& request);
  Result<v1::BackfillScheduleResponse> BackfillSchedule(const v1::BackfillScheduleRequest& request);
  Result<v1::ListTriggersResponse> ListTriggers(const v1::ListTriggersRequest& request);
  Result<v1::Trigger> GetTrigger(const v1::GetTriggerRequest& request);
  Result<v1::Occurrence> FireTrigger(const v1::FireTriggerRequest& request);
  Result<v1::SetPausedResponse> SetPaused(const v1::SetPausedRequest& request);
  Result<v1::ListOccurrencesResponse> ListOccurrences(const v1::ListOccurrencesRequest& request);
  Result<v1::RetryOccurrencesResponse> RetryOccurrences(const v1::RetryOccurrencesRequest& request);
  Result<v1::DeleteDefinitionResponse> DeleteDefinition(const v1::DeleteDefinitionRequest& request);
  Result<v1::ListLimitsResponse> ListLimits(const v1::ListLimitsRequest& request);
  Result<v1::Limit> GetLimit(const v1::GetLimitRequest& request);
  Result<v1::Limit> SetLimit(const v1::SetLimitRequest& request);
  Result<v1::ListGroupsResponse> ListGroups(const v1::ListGroupsRequest& request);
  Result<v1::Group> GetGroup(const v1::GetGroupRequest& request);
  Result<v1::Group> SetGroup(const v1::SetGroupRequest& request);
  Result<v1::Group> ControlGroup(const v1::ControlGroupRequest& request);
  Result<v1::Clock> GetClock(const v1::GetClockRequest& request);
  Result<v1::Clock> AdvanceClock(const v1::AdvanceClockRequest& request);

 private:
  Client& client_;
};

// The calls of NamespaceService. Valid as long as their client.
class NamespaceCalls {
 public:
  explicit NamespaceCalls(Client& client) : client_(client) {}

  Result<v1::Namespace> CreateNamespace(const v1::CreateNamespaceRequest& request);
  Result<v1::ListNamespacesResponse> ListNamespaces(const v1::ListNamespacesRequest& request);
  Result<v1::Namespace> GetNamespace(const v1::GetNamespaceRequest& request);
  Result<v1::Namespace> UpdateNamespace(const v1::UpdateNamespaceRequest& request);
  Result<v1::Namespace> FreezeNamespace(const v1::FreezeNamespaceRequest& request);
  Result<v1::Namespace> DeleteNamespace(const v1::DeleteNamespaceRequest& request);

  // Hands each item to `visit` until that returns false, or the last has come. An export that was
  // cut off is an error.
  Result<Ok> ExportNamespace(const v1::ExportNamespaceRequest& request,
                             const std::function<bool(const v1::ExportItem&)>& visit);
  // `next` gives the items one after the other; nullopt: that was the last.
  Result<v1::ImportNamespaceResponse> ImportNamespace(
      const v1::ImportNamespaceRequest::Header& header,
      const std::function<Result<std::optional<v1::ExportItem>>()>& next);

 private:
  Client& client_;
};

}  // namespace dfsmr::cli
