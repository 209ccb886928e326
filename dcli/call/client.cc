#include "dcli/call/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "dcli/call/calling.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSilence{20'000};
constexpr int kLargestReply = 64 << 20;
constexpr int kLargestMetadata = 4 << 20;  // the diagnostics of a bad definition are in a trailer
constexpr milliseconds kForConnection{3'000};  // to one of several servers

bool IsLoopback(const std::string& server) {
  return server.starts_with("localhost") || server.starts_with("127.") ||
         server.starts_with("[::1]") || server.starts_with("unix:");
}

// True when what is sent to that address stays on this machine, whatever a resolver says.
bool StaysHere(const std::string& server) {
  if (server.starts_with("unix:")) return true;
  const std::string host = server.substr(0, server.rfind(':'));
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

Result<std::string> ReadFile(const std::string& what, const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (file && !text.str().empty()) return text.str();
  return Error{Code::kInvalidArgument, Reason::kNone,
               what + " \"" + path + "\" cannot be read, or is empty"};
}

Result<std::string> TokenOf(const Credentials& credentials) {
  if (credentials.token_file.empty()) return credentials.token;
  auto token = ReadFile("the token file", credentials.token_file);
  if (token) token->erase(token->find_last_not_of(" \t\r\n") + 1);
  const bool good = token && std::ranges::all_of(*token, [](char c) { return c > ' ' && c < 127; });
  if (!token || good) return token;
  return Error{Code::kInvalidArgument, Reason::kNone,
               "the token file \"" + credentials.token_file + "\" must hold one word"};
}

Result<grpc::SslCredentialsOptions> ReadTls(const Credentials& credentials) {
  grpc::SslCredentialsOptions options;
  auto read = [](const char* what, const std::string& path, std::string* to) -> Result<Ok> {
    if (path.empty()) return Ok{};
    auto text = ReadFile(what, path);
    if (!text) return text.error();
    *to = *std::move(text);
    return Ok{};
  };
  const std::string ca = credentials.ca == "system" ? "" : credentials.ca;
  auto done = read("--tls-ca", ca, &options.pem_root_certs);
  if (done) done = read("--tls-cert", credentials.cert, &options.pem_cert_chain);
  if (done) done = read("--tls-key", credentials.key, &options.pem_private_key);
  if (!done) return done.error();
  return options;
}

std::shared_ptr<grpc::ChannelCredentials> ChannelOf(const Credentials& credentials) {
  if (!credentials.tls()) return grpc::InsecureChannelCredentials();
  const auto options = ReadTls(credentials);  // gone for a moment: the handshake will say so
  return grpc::SslCredentials(options ? *options : grpc::SslCredentialsOptions());
}

// A reason that only a newer server knows stays readable: it is put into the message.
void SetReason(std::string_view word, Error* error) {
  error->reason = ReasonNamed(word);
  if (error->reason == Reason::kOther) error->message += " (" + std::string(word) + ")";
}

// Cancels a stream that has been silent for too long.
class Watchdog {
 public:
  explicit Watchdog(grpc::ClientContext* context) : thread_([this, context] { Watch(context); }) {}
  ~Watchdog() {
    {
      const Lock lock(mutex_);
      over_ = true;
    }
    changed_.NotifyOne();
    thread_.join();
  }
  // Silence is counted only while we wait for the server, not while our own reader is slow.
  void Listening(bool listening) {
    const Lock lock(mutex_);
    listening_ = listening;
    last_ = std::chrono::steady_clock::now();
  }
  bool fired() const {
    const Lock lock(mutex_);
    return fired_;
  }

 private:
  void Watch(grpc::ClientContext* context) {
    Lock lock(mutex_);
    while (!over_) {
      const auto now = std::chrono::steady_clock::now();
      if (listening_ && now >= last_ + kSilence) {
        fired_ = true;
        context->TryCancel();
        return;
      }
      const auto silence = (listening_ ? last_ : now) + kSilence;
      changed_.WaitUntil(lock, silence, [this]() REQUIRES(mutex_) { return over_; });
    }
  }

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool over_ GUARDED(mutex_) = false;
  bool fired_ GUARDED(mutex_) = false;
  bool listening_ GUARDED(mutex_) = true;
  std::chrono::steady_clock::time_point last_ GUARDED(mutex_) = std::chrono::steady_clock::now();
  std::thread thread_;  // last: it uses the others
};

}  // namespace

std::string SendToken(const Credentials& credentials, grpc::ClientContext* context) {
  auto token = TokenOf(credentials);
  if (!token || token->empty()) return "";
  context->AddMetadata("authorization", "Bearer " + *token);
  return *std::move(token);
}

bool Replaced(const Credentials& credentials, const std::string& sent, const Error& error) {
  if (error.reason != Reason::kBadToken) return false;
  const auto token = TokenOf(credentials);
  return token && *token != sent;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& server, const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestReply);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kLargestMetadata);
  // Where its machine is gone nobody says so: such a connection is lost within 15 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A lost connection is replaced, not repaired: see Client::Lost.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (IsLoopback(server)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(server, ChannelOf(credentials), arguments);
}

Error ErrorOf(const grpc::Status& status, const grpc::ClientContext& context) {
  Error error{static_cast<Code>(status.error_code()), Reason::kNone, status.error_message()};
  const auto& trailer = context.GetServerTrailingMetadata();
  const auto reason = trailer.find("dfsmr-reason");
  if (reason != trailer.end()) {
    SetReason({reason->second.data(), reason->second.size()}, &error);
  }
  return error;
}

// Whether a server is connected, or can be soon.
static bool IsThere(grpc::Channel& channel) {
  const auto until = std::chrono::system_clock::now() + kForConnection;
  for (;;) {
    const auto state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!channel.WaitForStateChange(state, until)) return false;
  }
}

bool NeverSent(const Error& error) {
  return error.code == Code::kUnavailable && error.reason == Reason::kNone &&
         (error.message.find("failed to connect") != std::string::npos ||
          error.message.find("DNS resolution failed") != std::string::npos);
}

bool WorthRepeating(const Error& error, bool repeatable) {
  if (error.code != Code::kUnavailable) return false;
  switch (error.reason) {
    // Nothing was done. The last three are of servers that share a store.
    case Reason::kNotReady:
    case Reason::kNoOwner:
    case Reason::kPeerUnreachable:
    case Reason::kStoreUnreachable:
      return true;
    case Reason::kNone:
    case Reason::kOutcomeUnknown:
      return repeatable && !NeverSent(error);
    default:
      return false;
  }
}

bool Hangs(const Error& error) {
  return error.code == Code::kDeadlineExceeded && error.reason == Reason::kNone;
}

void Canceller::Cancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  for (const auto& [id, cancel] : calls_) cancel();
  changed_.NotifyAll();
}

bool Canceller::cancelled() const {
  const Lock lock(mutex_);
  return cancelled_;
}

bool Canceller::SleepFor(milliseconds time) const {
  Lock lock(mutex_);
  return changed_.WaitFor(lock, time, [this]() REQUIRES(mutex_) { return cancelled_; });
}

milliseconds Backoff::Next() {
  const milliseconds wait = wait_;
  wait_ = std::min(wait_ * 2, kLongest);
  const std::uniform_int_distribution<int64_t>::param_type range(wait.count() / 2, wait.count());
  return milliseconds(std::uniform_int_distribution<int64_t>(range)(random_));
}

Error FromProto(const v1::Error& error) {
  Error made{static_cast<Code>(error.code()), Reason::kNone, error.message()};
  SetReason(error.reason(), &made);
  return made;
}

bool Unreached(const Error& error) {
  return error.reason == Reason::kNone &&
         (error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded);
}

bool Passing(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kCancelled || error.reason == Reason::kOverloaded ||
         error.reason == Reason::kDiskFull;
}

bool Deferred(const Error& error) {
  return error.reason == Reason::kNamespaceFrozen || error.reason == Reason::kQuotaExceeded;
}

// gRPC wraps the cause in layers of its own; the innermost one matters.
std::string Cause(const Error& error) {
  if (error.code == Code::kDeadlineExceeded) return "no answer in time";
  const size_t last = error.message.rfind(": ");
  const bool wrapped = error.message.find("failed to connect") != std::string::npos;
  return wrapped && last != std::string::npos ? error.message.substr(last + 2) : error.message;
}

std::string ServerAddress(const std::string& server) {
  if (server.find(':') == std::string::npos) return server + ":3004";
  return server.starts_with(':') ? "localhost" + server : server;
}

std::vector<std::string> ServerAddresses(const std::string& servers) {
  std::vector<std::string> all;
  for (const std::string& one : Split(servers, ',')) {
    if (!one.empty()) all.push_back(ServerAddress(one));
  }
  if (all.empty()) all.push_back(ServerAddress(servers));
  return all;
}

Credentials CredentialsFromEnvironment() {
  auto value = [](const char* name) -> std::string {
    const char* set = std::getenv(name);
    return set != nullptr ? set : "";
  };
  return {.token = value("DFSMR_TOKEN"),
          .token_file = value("DFSMR_TOKEN_FILE"),
          .ca = value("DFSMR_TLS_CA"),
          .cert = value("DFSMR_TLS_CERT"),
          .key = value("DFSMR_TLS_KEY")};
}

Result<Ok> CheckCredentials(const Credentials& credentials, const std::string& server) {
  const auto token = TokenOf(credentials);
  if (!token) return token.error();
  const auto tls = ReadTls(credentials);
  if (!tls) return tls.error();
  if (credentials.cert.empty() != credentials.key.empty()) {
    return Error{Code::kInvalidArgument, Reason::kNone, "--tls-cert and --tls-key belong together"};
  }
  if (token->empty() || credentials.tls() || credentials.insecure ||
      std::ranges::all_of(ServerAddresses(server), StaysHere)) {
    return Ok{};
  }
  return Error{Code::kInvalidArgument, Reason::kNone,
               "the token would be sent to " + server +
                   " in the clear: give --tls-ca FILE (or --tls-ca system), or say --insecure"};
}

Client::Client(const std::string& servers, Duration timeout, Credentials credentials)
    : servers_(ServerAddresses(servers)),
      server_(Join(servers_, ",")),
      timeout_(timeout),
      credentials_(std::move(credentials)) {}
Client::~Client() = default;

std::shared_ptr<Client::Connection> Client::Connected() {
  const Lock lock(mutex_);
  if (connection_ == nullptr) {
    connection_ = std::make_shared<Connection>(servers_[at_], credentials_);
  }
  return connection_;
}

std::shared_ptr<Client::Connection> Client::Reached() {
  for (size_t others = servers_.size() - 1; others > 0; --others) {
    const auto connection = Connected();
    if (IsThere(*connection->channel)) return connection;
    Lost(connection, {Code::kUnavailable, Reason::kNone, "it cannot be reached"});
  }
  return Connected();
}

// gRPC's own way back to a server that was away goes through backoffs and a resolver that together
// take up to ten seconds after the server's return. A new channel tries at once; our
// callers decide how often. Of several servers the next one is as good.
void Client::Lost(const std::shared_ptr<Connection>& connection, const Error& error) {
  if (error.code != Code::kUnavailable && !(servers_.size() > 1 && Hangs(error))) return;
  const Lock lock(mutex_);
  if (connection_ != connection) return;
  connection_ = nullptr;
  at_ = (at_ + 1) % servers_.size();
}

Result<v1::DefineResponse> Client::Define(const v1::DefineRequest& request) {
  return Call<v1::DefineResponse>(&Stub::Define, request, false);
}
Result<v1::ListMachinesResponse> Client::ListMachines(const v1::ListMachinesRequest& request) {
  return Call<v1::ListMachinesResponse>(&Stub::ListMachines, request, true);
}
Result<v1::Machine> Client::GetMachine(const v1::GetMachineRequest& request) {
  return Call<v1::Machine>(&Stub::GetMachine, request, true);
}
Result<v1::StartResponse> Client::Start(const v1::StartRequest& request) {
  return Call<v1::StartResponse>(&Stub::Start, request, !request.id().empty());
}
Result<v1::StartBatchResponse> Client::StartBatch(const v1::StartBatchRequest& request) {
  return Call<v1::StartBatchResponse>(&Stub::StartBatch, request, false);
}
Result<v1::ListInstancesResponse> Client::ListInstances(const v1::ListInstancesRequest& request) {
  return Call<v1::ListInstancesResponse>(&Stub::ListInstances, request, true);
}
Result<v1::Instance> Client::GetInstance(const v1::GetInstanceRequest& request, Canceller* cancel) {
  return Call<v1::Instance>(&Stub::GetInstance, request, true, Duration::zero(), cancel);
}
Result<v1::GetHistoryResponse> Client::GetHistory(const v1::GetHistoryRequest& request) {
  return Call<v1::GetHistoryResponse>(&Stub::GetHistory, request, true);
}
Result<v1::ReadyResponse> Client::Ready(const v1::ReadyRequest& request, Canceller* cancel) {
  return Call<v1::ReadyResponse>(&Stub::Ready, request, false, FromProto(request.wait()), cancel);
}
Result<v1::TransitionResponse> Client::Transition(const v1::TransitionRequest& request,
                                                  Canceller* cancel) {
  return Call<v1::TransitionResponse>(&Stub::Transition, request, !request.claim().empty(),
                                      Duration::zero(), cancel);
}
Result<v1::RelinquishResponse> Client::Relinquish(const v1::RelinquishRequest& request) {
  return Call<v1::RelinquishResponse>(&Stub::Relinquish, request, false);
}
Result<v1::ExtendResponse> Client::Extend(const v1::ExtendRequest& request, Canceller* cancel) {
  return Call<v1::ExtendResponse>(&Stub::Extend, request, true, Duration::zero(), cancel);
}
Result<v1::Instance> Client::Pause(const v1::PauseRequest& request) {
  return Call<v1::Instance>(&Stub::Pause, request, true);
}
Result<v1::Instance> Client::Resume(const v1::ResumeRequest& request) {
  return Call<v1::Instance>(&Stub::Resume, request, false);
}
Result<v1::Instance> Client::Skip(const v1::SkipRequest& request) {
  return Call<v1::Instance>(&Stub::Skip, request, false);
}
Result<v1::Instance> Client::Cancel(const v1::CancelRequest& request) {
  return Call<v1::Instance>(&Stub::Cancel, request, true);
}

Result<v1::CreateTokenResponse> Client::CreateToken(const v1::CreateTokenRequest& request) {
  return Call<v1::CreateTokenResponse>(&v1::TokenService::Stub::CreateToken, request, false);
}
Result<v1::ListTokensResponse> Client::ListTokens(const v1::ListTokensRequest& request) {
  return Call<v1::ListTokensResponse>(&v1::TokenService::Stub::ListTokens, request, true);
}
Result<v1::RevokeTokenResponse> Client::RevokeToken(const v1::RevokeTokenRequest& request) {
  return Call<v1::RevokeTokenResponse>(&v1::TokenService::Stub::RevokeToken, request, false);
}
Result<v1::AccessToken> Client::GetCaller() {
  return Call<v1::AccessToken>(&v1::TokenService::Stub::GetCaller, v1::GetCallerRequest(), true);
}

Result<v1::CreateTokenResponse> Client::CreateSession(const v1::CreateSessionRequest& request) {
  return Call<v1::CreateTokenResponse>(&v1::TokenService::Stub::CreateSession, request, false);
}

ScheduleCalls Client::schedules() { return ScheduleCalls(*this); }

Result<v1::ListSchedulesResponse> ScheduleCalls::ListSchedules(
    const v1::ListSchedulesRequest& request) {
  return client_.Call<v1::ListSchedulesResponse>(&ScheduleStub::ListSchedules, request, true);
}
Result<v1::Schedule> ScheduleCalls::GetSchedule(const v1::GetScheduleRequest& request) {
  return client_.Call<v1::Schedule>(&ScheduleStub::GetSchedule, request, true);
}
Result<v1::PreviewScheduleResponse> ScheduleCalls::PreviewSchedule(
    const v1::PreviewScheduleRequest& request) {
  return client_.Call<v1::PreviewScheduleResponse>(&ScheduleStub::PreviewSchedule, request, true);
}
Result<v1::Occurrence> ScheduleCalls::RunSchedule(const v1::RunScheduleRequest& request) {
  return client_.Call<v1::Occurrence>(&ScheduleStub::RunSchedule, request, false);
}
Result<v1::BackfillScheduleResponse> ScheduleCalls::BackfillSchedule(
    const v1::BackfillScheduleRequest& request) {
  return client_.Call<v1::BackfillScheduleResponse>(&ScheduleStub::BackfillSchedule, request,
                                                    false);
}
Result<v1::ListTriggersResponse> ScheduleCalls::ListTriggers(
    const v1::ListTriggersRequest& request) {
  return client_.Call<v1::ListTriggersResponse>(&ScheduleStub::ListTriggers, request, true);
}
Result<v1::Trigger> ScheduleCalls::GetTrigger(const v1::GetTriggerRequest& request) {
  return client_.Call<v1::Trigger>(&ScheduleStub::GetTrigger, request, true);
}
Result<v1::Occurrence> ScheduleCalls::FireTrigger(const v1::FireTriggerRequest& request) {
  return client_.Call<v1::Occurrence>(&ScheduleStub::FireTrigger, request, false);
}
Result<v1::SetPausedResponse> ScheduleCalls::SetPaused(const v1::SetPausedRequest& request) {
  return client_.Call<v1::SetPausedResponse>(&ScheduleStub::SetPaused, request, true);
}
Result<v1::ListOccurrencesResponse> ScheduleCalls::ListOccurrences(
    const v1::ListOccurrencesRequest& request) {
  return client_.Call<v1::ListOccurrencesResponse>(&ScheduleStub::ListOccurrences, request, true);
}
Result<v1::RetryOccurrencesResponse> ScheduleCalls::RetryOccurrences(
    const v1::RetryOccurrencesRequest& request) {
  return client_.Call<v1::RetryOccurrencesResponse>(&ScheduleStub::RetryOccurrences, request,
                                                    false);
}
Result<v1::DeleteDefinitionResponse> ScheduleCalls::DeleteDefinition(
    const v1::DeleteDefinitionRequest& request) {
  return client_.Call<v1::DeleteDefinitionResponse>(&ScheduleStub::DeleteDefinition, request,
                                                    false);
}
Result<v1::ListLimitsResponse> ScheduleCalls::ListLimits(const v1::ListLimitsRequest& request) {
  return client_.Call<v1::ListLimitsResponse>(&ScheduleStub::ListLimits, request, true);
}
Result<v1::Limit> ScheduleCalls::GetLimit(const v1::GetLimitRequest& request) {
  return client_.Call<v1::Limit>(&ScheduleStub::GetLimit, request, true);
}
Result<v1::Limit> ScheduleCalls::SetLimit(const v1::SetLimitRequest& request) {
  return client_.Call<v1::Limit>(&ScheduleStub::SetLimit, request, true);
}
Result<v1::ListGroupsResponse> ScheduleCalls::ListGroups(const v1::ListGroupsRequest& request) {
  return client_.Call<v1::ListGroupsResponse>(&ScheduleStub::ListGroups, request, true);
}
Result<v1::Group> ScheduleCalls::GetGroup(const v1::GetGroupRequest& request) {
  return client_.Call<v1::Group>(&ScheduleStub::GetGroup, request, true);
}
Result<v1::Group> ScheduleCalls::SetGroup(const v1::SetGroupRequest& request) {
  return client_.Call<v1::Group>(&ScheduleStub::SetGroup, request, true);
}
Result<v1::Group> ScheduleCalls::ControlGroup(const v1::ControlGroupRequest& request) {
  return client_.Call<v1::Group>(&ScheduleStub::ControlGroup, request, false);
}
Result<v1::Clock> ScheduleCalls::GetClock(const v1::GetClockRequest& request) {
  return client_.Call<v1::Clock>(&ScheduleStub::GetClock, request, true);
}
Result<v1::Clock> ScheduleCalls::AdvanceClock(const v1::AdvanceClockRequest& request) {
  // A year takes as long as it takes.
  return client_.Call<v1::Clock>(&ScheduleStub::AdvanceClock, request, false,
                                 std::chrono::hours(1));
}

// Hands each message of the stream that `open` begins to `visit`.
template <typename Response, typename Open>
Result<Ok> Client::Listen(Canceller* cancel, const std::function<bool(const Response&)>& visit,
                          Open open) {
  grpc::ClientContext context;
  SendToken(credentials_, &context);
  const CallUnderWay under_way(cancel, &context);
  const auto connection = Reached();
  const auto stream = open(*connection, &context);
  Watchdog watchdog(&context);
  Response response;
  bool enough = false;
  while (!enough && stream->Read(&response)) {
    watchdog.Listening(false);
    enough = !visit(response);
    watchdog.Listening(true);
  }
  if (enough) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (enough || status.ok()) return Ok{};
  const Error silent{Code::kUnavailable, Reason::kNone, "the server has gone silent"};
  const Error error = watchdog.fired() ? silent : ErrorOf(status, context);
  Lost(connection, error);
  return error;
}

Result<Ok> Client::Changes(const v1::ChangesRequest& request, Canceller* cancel,
                           const std::function<bool(const v1::ChangesResponse&)>& visit) {
  return Listen(cancel, visit, [&](const Connection& connection, grpc::ClientContext* context) {
    return connection.stub->Changes(context, request);
  });
}

Result<Ok> Client::ReadLogs(const v1::ReadLogsRequest& request, Canceller* cancel,
                            const std::function<bool(const v1::ReadLogsResponse&)>& visit) {
  return Listen(cancel, visit, [&](const Connection& connection, grpc::ClientContext* context) {
    return connection.agents->ReadLogs(context, request);
  });
}

}  // namespace dfsmr::cli
