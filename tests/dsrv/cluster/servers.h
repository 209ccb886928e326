// Servers on ports of this machine, each a front, and in place of the services one that tells what
// it was told.
#pragma once

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/passing.h"
#include "dsrv/cluster/peers.h"
#include "storage/place.h"

namespace dfsmr {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const char* const kRead = "/dfsmr.v1.RunnerService/GetInstance";
inline const char* const kChange = "/dfsmr.v1.RunnerService/Start";
inline const char* const kStream = "/dfsmr.v1.AgentService/AppendLogs";  // is passed on whole

// The start of an instance that lives in this partition, of so many.
inline std::string StartIn(PartitionId partition, uint16_t partitions) {
  v1::StartRequest start;
  start.set_machine("m");
  for (int i = 0; start.id().empty() || PartitionOf("", start.id(), partitions) != partition; ++i) {
    start.set_id("i" + std::to_string(i));
  }
  return start.SerializeAsString();
}

inline grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}
inline std::string TextOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const auto& slice : slices) text.append(slice.begin(), slice.end());
  return text;
}

// Answers each message with the same, and the text "fail" with an error. "hang" gets no answer
// until Release.
class Echo final : public grpc::CallbackGenericService {
 public:
  std::multimap<std::string, std::string> Metadata() {
    const Lock lock(mutex_);
    return metadata_;
  }
  // Answers the call that was the last to hang; there is one, or will be.
  void Release() {
    Lock lock(mutex_);
    CHECK(changed_.WaitFor(lock, seconds(10), [&]() REQUIRES(mutex_) { return hangs_; }));
    hangs_->Answer();
  }
  int Calls() {
    const Lock lock(mutex_);
    return calls_;
  }
  void AwaitCalls(int count) {
    Lock lock(mutex_);
    CHECK(changed_.WaitFor(lock, seconds(10), [&]() REQUIRES(mutex_) { return calls_ >= count; }));
  }

  void AwaitHung(int count) {
    Lock lock(mutex_);
    CHECK(changed_.WaitFor(lock, seconds(10), [&]() REQUIRES(mutex_) { return hung_ >= count; }));
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(Echo& echo, grpc::GenericCallbackServerContext* context)
        : echo_(echo), context_(context), many_(FactsOf(context->method()).many_replies) {
      {
        const Lock lock(echo.mutex_);
        echo.metadata_.clear();
        for (const auto& [key, value] : context->client_metadata()) {
          echo.metadata_.emplace(std::string(key.data(), key.size()),
                                 std::string(value.data(), value.size()));
        }
      }
      context->AddInitialMetadata("dfsmr-life", "7");
      StartRead(&message_);
      echo.Called();
    }
    void OnReadDone(bool ok) override {
      if (!ok) return hanging_ ? void() : Finish(grpc::Status::OK);
      const std::string text = TextOf(message_);
      hanging_ = text == "hang";
      if (hanging_) return echo_.Hangs(this);
      context_->AddTrailingMetadata("dfsmr-reason", "NOT_HELD");
      if (text == "fail") return Finish(grpc::Status(grpc::StatusCode::ABORTED, "no"));
      if (!many_) return StartWriteAndFinish(&message_, {}, grpc::Status::OK);
      StartWrite(&message_);
    }
    void OnWriteDone(bool ok) override {
      if (ok && many_) StartRead(&message_);
    }
    void OnCancel() override {
      if (hanging_.exchange(false)) Finish(grpc::Status::CANCELLED);
    }
    void Answer() {
      if (hanging_.exchange(false)) StartWriteAndFinish(&message_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    Echo& echo_;
    grpc::GenericCallbackServerContext* const context_;
    const bool many_;
    grpc::ByteBuffer message_;
    std::atomic<bool> hanging_ = false;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Reactor(*this, context);
  }
  void Hangs(Reactor* reactor) {
    const Lock lock(mutex_);
    hangs_ = reactor;
    ++hung_;
    changed_.NotifyAll();
  }
  void Called() {
    const Lock lock(mutex_);
    ++calls_;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::multimap<std::string, std::string> metadata_ GUARDED(mutex_);
  int calls_ GUARDED(mutex_) = 0;
  Reactor* hangs_ GUARDED(mutex_) = nullptr;
  int hung_ GUARDED(mutex_) = 0;
};

struct CallOutcome {
  grpc::Status status;
  std::string reply;
  std::string reason;
  milliseconds took{};
};

// A server: its front on a port, and its services inside.
struct Server {
  explicit Server(const std::string& its_id, uint16_t partitions = 1)
      : id(its_id),
        front({.self = its_id,
               .secret = "secret",
               .partitions = partitions,
               .may_answer = [this] { return may_answer(); },
               .commits = [this] { return commits.load(); },
               .pinged = [this](bool look) { pinged(look); },
               .cluster = [this](const std::string& bearer) { return cluster(bearer); }}) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&front);
    server = builder.BuildAndStart();
    grpc::ServerBuilder inner;
    inner.RegisterCallbackGenericService(&echo);
    services = inner.BuildAndStart();
    inside = std::make_shared<grpc::GenericStub>(services->InProcessChannel({}));
    channel = grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials());
  }
  ~Server() { Stop(); }
  void Stop() {
    if (!services) return;
    front.EndAll();
    server->Shutdown(std::chrono::system_clock::now());
    server->Wait();
    services->Shutdown(std::chrono::system_clock::now());
    services->Wait();
    services.reset();
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port); }
  void Owns(PartitionId partition = 0) {
    front.SetRoute(partition, {.kind = Route::Kind::kHere, .inside = inside});
  }
  void Nobody() { front.ClearRoutes(); }
  void Owner(const Server& other, PartitionId partition = 0) {
    auto peer = std::make_shared<Peer>(
        other.id, other.Address(),
        grpc::CreateCustomChannel(other.Address(), grpc::InsecureChannelCredentials(), {}));
    std::promise<bool> reached;
    peer->channel->WaitForConnected(std::chrono::system_clock::now() + seconds(10));
    Ping(front, peer, false,
         [&reached](bool answers, const std::string&) { reached.set_value(answers); });
    CHECK(reached.get_future().get());
    front.SetRoute(partition, {.kind = Route::Kind::kThere, .peer = peer});
  }
  // A unary call of a client.
  CallOutcome Call(const std::string& method, const std::string& request,
               const std::map<std::string, std::string>& metadata = {}) {
    return Begin(method, request, metadata).get();
  }
  std::future<CallOutcome> Begin(const std::string& method, const std::string& request,
                             const std::map<std::string, std::string>& metadata = {}) {
    return std::async(std::launch::async, [=, this] {
      grpc::GenericStub stub(channel);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + seconds(20));
      for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
      const auto in = Bytes(request);
      grpc::ByteBuffer out;
      std::promise<grpc::Status> done;
      const auto begin = std::chrono::steady_clock::now();
      stub.UnaryCall(&context, method, {}, &in, &out,
                     [&done](const grpc::Status& status) { done.set_value(status); });
      CallOutcome outcome{.status = done.get_future().get()};
      outcome.took =
          std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
      outcome.reply = TextOf(out);
      const auto& trailers = context.GetServerTrailingMetadata();
      if (const auto found = trailers.find("dfsmr-reason"); found != trailers.end()) {
        outcome.reason = {found->second.data(), found->second.size()};
      }
      return outcome;
    });
  }

  const std::string id;
  std::atomic<bool> lease = true;
  std::atomic<bool> commits = true;
  std::function<bool()> may_answer = [this] { return lease.load(); };
  std::function<void(bool)> pinged = [](bool) {};
  std::function<std::optional<grpc::ByteBuffer>(const std::string&)> cluster =
      [](const std::string&) { return std::optional<grpc::ByteBuffer>(); };
  Front front;
  Echo echo;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::Server> services;
  std::shared_ptr<grpc::GenericStub> inside;
  std::shared_ptr<grpc::Channel> channel;
};

}  // namespace dfsmr
