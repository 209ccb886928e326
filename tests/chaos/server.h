// A dsrv that is killed and started again on one directory and one port, and what every test of it
// says when a promise is broken.
#pragma once

#include <fcntl.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dfsmr/v1/runner.grpc.pb.h"
#include "fsm/base/mutex.h"
#include "tests/bench/process.h"

namespace dfsmr::chaos {

using Clock = std::chrono::steady_clock;
using Stub = v1::RunnerService::Stub;
using std::chrono::milliseconds;

struct Options {
  std::string dsrv;
  std::string directory;
  uint64_t seed = 0;
};

inline double SecondsSince(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// A promise was broken: what, and where to look.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Broken promises that threads have found. Any thread.
class Findings {
 public:
  void Add(const std::string& what) {
    const Lock lock(mutex_);
    if (found_.size() < 20) found_.push_back(what);
    any_ = true;
  }
  bool any() const { return any_; }
  void Throw() const {
    const Lock lock(mutex_);
    if (found_.empty()) return;
    std::string all;
    for (const std::string& one : found_) all += (all.empty() ? "" : "\n  ") + one;
    throw Broken(all);
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> found_ GUARDED(mutex_);
  std::atomic<bool> any_ = false;
};

// The reason that the server gave for a refusal; empty: none of the server's.
inline std::string ReasonOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("dfsmr-reason");
  return found == trailers.end() ? "" : std::string(found->second.data(), found->second.size());
}

// Whether it says nothing about what has become of the call.
inline bool OutcomeUnknown(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED: return true;
    default: return false;
  }
}

class Dsrv {
 public:
  // `before` is what runs it, if not the shell's way: a program and its arguments.
  explicit Dsrv(const Options& options, std::vector<std::string> flags = {},
                std::vector<std::string> before = {})
      : dsrv_(options.dsrv),
        folder_(std::make_unique<bench::Folder>(options.directory)),
        flags_(std::move(flags)),
        before_(std::move(before)),
        port_(bench::FreePort()) {}

  const std::string& path() const { return folder_->path(); }
  std::string data() const { return path() + "/data"; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  pid_t pid() const { return child_->pid(); }
  std::string log() const { return child_->Output(); }
  bool Running() { return child_ && child_->Running(); }

  // Until it answers. The thread that calls it must outlive the server: the kernel kills a child
  // with the thread that made it.
  void Start() {
    std::vector<std::string> command = before_;
    command.insert(command.end(), {dsrv_, "--addr", address(), "--data", data()});
    command.insert(command.end(), flags_.begin(), flags_.end());
    child_ = std::make_unique<bench::Child>(command, path() + "/log");
    const auto channel = Connect();
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (!channel->WaitForConnected(std::chrono::system_clock::now() + milliseconds(50))) {
      if (!child_->Running()) throw Broken("dsrv ended at its start:\n" + log());
      if (Clock::now() > deadline) throw Broken("dsrv does not listen after 60 s:\n" + log());
    }
  }
  void Kill() { child_.reset(); }

  // A connection of its own, which comes back soon after a restart.
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
  }

  void Define(const std::string& source, const std::string& ns = "") const {
    Stub stub(Connect());
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::DefineRequest request;
    v1::DefineResponse response;
    request.set_namespace_(ns);
    request.set_source(source);
    request.set_source_name("chaos.yaml");
    const grpc::Status status = stub.Define(&context, request, &response);
    if (!status.ok()) throw std::runtime_error("Define: " + status.error_message());
  }

 private:
  const std::string dsrv_;
  std::unique_ptr<bench::Folder> folder_;
  const std::vector<std::string> flags_;
  const std::vector<std::string> before_;
  const int port_;
  std::unique_ptr<bench::Child> child_;
};

}  // namespace dfsmr::chaos
