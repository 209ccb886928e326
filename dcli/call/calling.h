// How calls are made, for the files that make them: client.cc and those beside it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "dcli/call/client.h"
#include "dfsmr/v1/admin.grpc.pb.h"
#include "dfsmr/v1/agent.grpc.pb.h"
#include "dfsmr/v1/cluster.grpc.pb.h"
#include "dfsmr/v1/package.grpc.pb.h"
#include "dfsmr/v1/runner.grpc.pb.h"
#include "dfsmr/v1/schedule.grpc.pb.h"
#include "dfsmr/v1/view.grpc.pb.h"

namespace dfsmr::cli {

using Stub = v1::RunnerService::Stub;
using ScheduleStub = v1::ScheduleService::Stub;
using AgentStub = v1::AgentService::Stub;
using PackageStub = v1::PackageService::Stub;
using NamespaceStub = v1::NamespaceService::Stub;
using SecretStub = v1::SecretService::Stub;
using ViewStub = v1::ViewService::Stub;
using BulkStub = v1::BulkService::Stub;
using ClusterStub = v1::ClusterService::Stub;

std::shared_ptr<grpc::Channel> Connect(const std::string& server, const Credentials& credentials);
// Adds the token to the call. Returns it; "" when its file is missing for a moment: then the server
// will refuse the call.
std::string SendToken(const Credentials& credentials, grpc::ClientContext* context);
// True when a call with the token `sent` was refused because the token has been replaced meanwhile.
bool Replaced(const Credentials& credentials, const std::string& sent, const Error& error);
Error ErrorOf(const grpc::Status& status, const grpc::ClientContext& context);
// True when the request cannot have reached the server.
bool NeverSent(const Error& error);
bool WorthRepeating(const Error& error, bool repeatable);
// True when the server has not said a word in time: another one may.
bool Hangs(const Error& error);

// While it lives, the canceller can cancel the call.
class CallUnderWay {
 public:
  CallUnderWay(Canceller* canceller, grpc::ClientContext* context) : canceller_(canceller) {
    if (canceller_ == nullptr) return;
    const Lock lock(canceller_->mutex_);
    if (canceller_->cancelled_) context->TryCancel();
    id_ = canceller_->next_++;
    canceller_->calls_[id_] = [context] { context->TryCancel(); };
  }
  ~CallUnderWay() {
    if (canceller_ == nullptr) return;
    const Lock lock(canceller_->mutex_);
    canceller_->calls_.erase(id_);
  }
  CallUnderWay(const CallUnderWay&) = delete;
  CallUnderWay& operator=(const CallUnderWay&) = delete;

 private:
  Canceller* canceller_;
  int id_ = 0;
};

struct Client::Connection {
  Connection(const std::string& server, const Credentials& credentials)
      : channel(Connect(server, credentials)),
        stub(v1::RunnerService::NewStub(channel)),
        tokens(v1::TokenService::NewStub(channel)),
        schedules(v1::ScheduleService::NewStub(channel)),
        agents(v1::AgentService::NewStub(channel)),
        packages(v1::PackageService::NewStub(channel)),
        namespaces(v1::NamespaceService::NewStub(channel)),
        secrets(v1::SecretService::NewStub(channel)),
        views(v1::ViewService::NewStub(channel)),
        bulks(v1::BulkService::NewStub(channel)),
        clusters(v1::ClusterService::NewStub(channel)) {}
  template <typename... Arguments>
  Stub& Of(grpc::Status (Stub::*)(Arguments...)) const {
    return *stub;
  }
  template <typename... Arguments>
  v1::TokenService::Stub& Of(grpc::Status (v1::TokenService::Stub::*)(Arguments...)) const {
    return *tokens;
  }
  template <typename... Arguments>
  ScheduleStub& Of(grpc::Status (ScheduleStub::*)(Arguments...)) const {
    return *schedules;
  }
  template <typename... Arguments>
  AgentStub& Of(grpc::Status (AgentStub::*)(Arguments...)) const {
    return *agents;
  }
  template <typename... Arguments>
  PackageStub& Of(grpc::Status (PackageStub::*)(Arguments...)) const {
    return *packages;
  }
  template <typename... Arguments>
  NamespaceStub& Of(grpc::Status (NamespaceStub::*)(Arguments...)) const {
    return *namespaces;
  }
  template <typename... Arguments>
  SecretStub& Of(grpc::Status (SecretStub::*)(Arguments...)) const {
    return *secrets;
  }
  template <typename... Arguments>
  ViewStub& Of(grpc::Status (ViewStub::*)(Arguments...)) const {
    return *views;
  }
  template <typename... Arguments>
  BulkStub& Of(grpc::Status (BulkStub::*)(Arguments...)) const {
    return *bulks;
  }
  template <typename... Arguments>
  ClusterStub& Of(grpc::Status (ClusterStub::*)(Arguments...)) const {
    return *clusters;
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<Stub> stub;
  std::unique_ptr<v1::TokenService::Stub> tokens;
  std::unique_ptr<ScheduleStub> schedules;
  std::unique_ptr<AgentStub> agents;
  std::unique_ptr<PackageStub> packages;
  std::unique_ptr<NamespaceStub> namespaces;
  std::unique_ptr<SecretStub> secrets;
  std::unique_ptr<ViewStub> views;
  std::unique_ptr<BulkStub> bulks;
  std::unique_ptr<ClusterStub> clusters;
};

template <typename Response, typename Request, typename Method>
Result<Response> Client::Call(Method method, const Request& request, bool repeatable, Duration wait,
                              Canceller* cancel) {
  Backoff backoff;
  constexpr int kTries = 5;
  size_t others = servers_.size() - 1;  // that were not asked yet
  for (int left = kTries;;) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_ + wait);
    const std::string sent = SendToken(credentials_, &context);
    const CallUnderWay under_way(cancel, &context);
    Response response;
    const auto connection = Connected();
    const grpc::Status status = (connection->Of(method).*method)(&context, request, &response);
    if (status.ok()) return response;
    Error error = ErrorOf(status, context);
    Lost(connection, error);
    if (others > 0 && (NeverSent(error) || (repeatable && Hangs(error)))) {
      --others;
      continue;
    }
    const bool replaced = Replaced(credentials_, sent, error);
    if (--left == 0 || !(replaced || WorthRepeating(error, repeatable))) return error;
    if (cancel != nullptr && cancel->cancelled()) return error;
    std::this_thread::sleep_for(backoff.Next());
  }
}

}  // namespace dfsmr::cli
