// A server of which each answer is scripted: what dcli does when things go wrong can be tested
// without making them go wrong.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.grpc.pb.h"

namespace dfsmr::cli {

inline grpc::Status Refusal(grpc::ServerContext* context, grpc::StatusCode code,
                            const std::string& reason, const std::string& message) {
  if (!reason.empty()) context->AddTrailingMetadata("dfsmr-reason", reason);
  return {code, message};
}

class FakeServer final : public v1::RunnerService::Service {
 public:
  struct Stream {
    std::vector<v1::ChangesResponse> messages;
    grpc::Status end;
    std::string reason;
  };

  FakeServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  ~FakeServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // Scripts: set before the call.
  std::string address;
  std::deque<v1::Task> tasks;
  std::vector<std::string> legal = {"ok", "error"};  // the transitions of every node
  int absent = 0;                                    // so many reports find nobody
  bool refuses_starts = false;                       // of reports
  std::function<v1::ExtendResponse::Item(int)> on_extend = [](int) {
    return v1::ExtendResponse::Item();
  };
  std::deque<std::string> start_refusals;  // reasons for which starts are UNAVAILABLE
  std::deque<Stream> streams;
  v1::Instance instance;  // what Start and GetInstance answer with
  v1::Machine machine;
  v1::DefineResponse definitions;

  // What was asked.
  std::vector<v1::ReadyRequest> polls;
  std::vector<v1::TransitionRequest> reports;
  std::vector<v1::RelinquishRequest> given_back;
  std::vector<v1::ChangesRequest> watched;
  std::vector<v1::StartRequest> started;
  std::vector<v1::ResumeRequest> resumed;
  std::vector<v1::SkipRequest> skipped;
  std::vector<v1::ListInstancesRequest> listed;
  std::vector<v1::GetInstanceRequest> looked;
  int extends = 0;

  grpc::Status Ready(grpc::ServerContext*, const v1::ReadyRequest* request,
                     v1::ReadyResponse* reply) override {
    const std::lock_guard lock(mutex_);
    polls.push_back(*request);
    if (tasks.empty()) return grpc::Status::OK;
    *reply->add_tasks() = tasks.front();
    tasks.pop_front();
    return grpc::Status::OK;
  }

  grpc::Status Transition(grpc::ServerContext* context, const v1::TransitionRequest* request,
                          v1::TransitionResponse* reply) override {
    const std::lock_guard lock(mutex_);
    if (absent-- > 0) return {grpc::StatusCode::UNAVAILABLE, "gone"};
    if (refuses_starts && request->starts_size() > 0) {
      return Refusal(context, grpc::StatusCode::ALREADY_EXISTS, "INSTANCE_EXISTS",
                     "starts[0]: exists already");
    }
    for (const std::string& name : legal) {
      if (name != request->transition()) continue;
      reports.push_back(*request);
      reply->set_instance(request->instance());
      reply->set_prev_node("crawl");
      reply->set_node("success");
      return grpc::Status::OK;
    }
    return Refusal(context, grpc::StatusCode::FAILED_PRECONDITION, "ILLEGAL_TRANSITION", "no way");
  }

  grpc::Status Relinquish(grpc::ServerContext*, const v1::RelinquishRequest* request,
                          v1::RelinquishResponse*) override {
    const std::lock_guard lock(mutex_);
    given_back.push_back(*request);
    return grpc::Status::OK;
  }

  grpc::Status Extend(grpc::ServerContext*, const v1::ExtendRequest*,
                      v1::ExtendResponse* reply) override {
    const std::lock_guard lock(mutex_);
    *reply->add_items() = on_extend(++extends);
    return grpc::Status::OK;
  }

  grpc::Status Start(grpc::ServerContext* context, const v1::StartRequest* request,
                     v1::StartResponse* reply) override {
    const std::lock_guard lock(mutex_);
    started.push_back(*request);
    if (!start_refusals.empty()) {
      const std::string reason = start_refusals.front();
      start_refusals.pop_front();
      return Refusal(context, grpc::StatusCode::UNAVAILABLE, reason, "not now");
    }
    reply->set_created(true);
    reply->mutable_instance()->set_id(instance.id());
    return grpc::Status::OK;
  }

  grpc::Status StartBatch(grpc::ServerContext*, const v1::StartBatchRequest* request,
                          v1::StartBatchResponse* reply) override {
    const std::lock_guard lock(mutex_);
    for (const v1::StartRequest& start : request->starts()) {
      started.push_back(start);
      auto* result = reply->add_results();
      result->mutable_started()->mutable_instance()->set_id("i" + std::to_string(started.size()));
    }
    return grpc::Status::OK;
  }

  grpc::Status GetInstance(grpc::ServerContext*, const v1::GetInstanceRequest* request,
                           v1::Instance* reply) override {
    const std::lock_guard lock(mutex_);
    looked.push_back(*request);
    *reply = instance;
    if (!request->with_nodes()) reply->clear_steps();
    if (request->with_nodes() && reply->steps_size() == 0) AddNode(reply->add_nodes());
    return grpc::Status::OK;
  }

  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeRequest* request,
                      v1::Instance* reply) override {
    const std::lock_guard lock(mutex_);
    resumed.push_back(*request);
    *reply = instance;
    return grpc::Status::OK;
  }

  grpc::Status Skip(grpc::ServerContext*, const v1::SkipRequest* request,
                    v1::Instance* reply) override {
    const std::lock_guard lock(mutex_);
    skipped.push_back(*request);
    *reply = instance;
    return grpc::Status::OK;
  }

  grpc::Status Define(grpc::ServerContext*, const v1::DefineRequest*,
                      v1::DefineResponse* reply) override {
    *reply = definitions;
    return grpc::Status::OK;
  }

  grpc::Status ListMachines(grpc::ServerContext*, const v1::ListMachinesRequest*,
                            v1::ListMachinesResponse* reply) override {
    *reply->add_machines() = machine;
    return grpc::Status::OK;
  }

  grpc::Status GetMachine(grpc::ServerContext* context, const v1::GetMachineRequest* request,
                          v1::Machine* reply) override {
    if (request->id() != machine.id()) {
      return Refusal(context, grpc::StatusCode::NOT_FOUND, "NO_SUCH_MACHINE", "no such machine");
    }
    *reply = machine;
    return grpc::Status::OK;
  }

  grpc::Status ListInstances(grpc::ServerContext*, const v1::ListInstancesRequest* request,
                             v1::ListInstancesResponse* reply) override {
    {
      const std::lock_guard lock(mutex_);
      listed.push_back(*request);
    }
    // Two thousand of them, in pages.
    const int first = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    const int last = std::min(first + request->page_size(), 2'000);
    for (int i = first; i < last; ++i) reply->add_instances()->set_id("i" + std::to_string(i));
    if (last < 2'000) reply->set_next_page_token(std::to_string(last));
    return grpc::Status::OK;
  }

  grpc::Status Changes(grpc::ServerContext* context, const v1::ChangesRequest* request,
                       grpc::ServerWriter<v1::ChangesResponse>* writer) override {
    Stream stream;
    {
      const std::lock_guard lock(mutex_);
      watched.push_back(*request);
      if (!streams.empty()) {
        stream = streams.front();
        streams.pop_front();
      }
    }
    for (const v1::ChangesResponse& message : stream.messages) writer->Write(message);
    if (!stream.reason.empty()) context->AddTrailingMetadata("dfsmr-reason", stream.reason);
    return stream.end;
  }

 private:
  void AddNode(v1::Node* node) {
    node->set_id("crawl");
    for (const std::string& name : legal) node->add_transitions()->set_transition(name);
  }

  std::mutex mutex_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dfsmr::cli
