// dsrv or the floor in a directory and a process of its own, ready for a case: machines defined,
// instances started.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.grpc.pb.h"
#include "tests/bench/callers.h"
#include "tests/bench/case.h"
#include "tests/bench/loop.h"
#include "tests/bench/options.h"
#include "tests/bench/process.h"

namespace dfsmr::bench {

class Server {
 public:
  Server(const Options& options, Case c, bool is_floor)
      : options_(options), case_(std::move(c)), is_floor_(is_floor), folder_(options.directory) {
    Run();
    Define();
    if (case_.resident > 0 && !is_floor) {
      const int64_t half = case_.resident / 2;
      Seed("idle", "ready", half, 0);
      Seed("idle", "delayed", case_.resident - half, kYearSeconds);
    }
    if (case_.instances > 0) {
      Seed(case_.children() ? "parent" : "bench", "first", case_.instances, 0);
    } else if (case_.kind != Case::Kind::kStart && case_.stock == 0) {
      Seed("bench", "first", std::max<int64_t>(2'000, int64_t{4} * case_.callers * case_.batch),
           0);
    }
  }

  // What a turn is to use up.
  void Stock(int round) {
    if (case_.stock == 0) return;
    Seed("bench", "stock" + std::to_string(round), case_.stock / case_.steps, 0);
  }

  // Ends it as an operator would, starts it again on what it has written, and returns how many
  // seconds pass from then until it hands out a task.
  double Restart() {
    child_->Terminate();
    for (const auto patience = Clock::now() + std::chrono::seconds(60); child_->Running();) {
      if (Clock::now() > patience) GiveUp("does not stop");
      Sleep(0.01);
    }
    const auto begin = Clock::now();
    Run();
    Stub stub(Connect());
    v1::ReadyRequest request;
    request.set_machine("bench");
    request.set_max_tasks(1);
    request.mutable_wait()->set_seconds(60);
    v1::ReadyResponse response;
    Ask("Ready", [&](grpc::ClientContext* context) {
      return stub.Ready(context, request, &response);
    });
    if (response.tasks().empty()) GiveUp("has no task after its restart");
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const Case& load() const { return case_; }
  bool is_floor() const { return is_floor_; }
  const std::string& path() const { return folder_.path(); }
  Usage usage() const { return UsageOf(child_->pid()); }

  // Its own counters (dsrv/meter.h), by name.
  std::map<std::string, double> Counters() {
    const std::size_t before = child_->Output().size();
    child_->Signal(SIGUSR1);
    const auto patience = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < patience) {
      const std::string output = child_->Output();
      const auto found = output.find("meter ", before);
      const auto end = found == std::string::npos ? found : output.find('\n', found);
      if (end != std::string::npos) return Parse(output.substr(found + 6, end - found - 6));
      if (!child_->Running()) GiveUp("ended");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    GiveUp("does not tell its counters");
  }

  ChannelPtr Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetMaxReceiveMessageSize(-1);
    // A server that does not listen yet is tried again soon: its start is measured.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

  // Until nothing is left of the last turn, so that it does not disturb the other server's. What
  // ten million starts have left to compact takes a minute.
  void Settle() const {
    constexpr double kIdleUs = 20'000;
    const auto patience = Clock::now() + std::chrono::minutes(2);
    for (double before = usage().cpu_us; Clock::now() < patience;) {
      Sleep(options_.tiny ? 0.01 : 0.1);
      const double now = usage().cpu_us;
      if (now - before < kIdleUs) return;
      before = now;
    }
  }

  // Waits for loops that were told to stop; a server that does not answer them is put down.
  void Await(const std::vector<std::unique_ptr<Loop>>& loops, double patience_seconds) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(patience_seconds);
    for (const auto& loop : loops) {
      while (!loop->ended()) {
        if (interrupted || Clock::now() > deadline) {
          put_down_ = true;
          child_->Kill();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  [[noreturn]] void GiveUp(const std::string& why) const {
    const std::string which = is_floor_ ? "floor" : "dsrv";
    const std::string note = put_down_ ? " (it did not answer in time and was put down)" : "";
    throw std::runtime_error(which + ": " + why + note + "\n" + child_->Output());
  }

 private:
  static constexpr int64_t kYearSeconds = int64_t{365} * 24 * 3600;

  void Run() {
    address_ = "127.0.0.1:" + std::to_string(FreePort());
    child_.emplace(Command(), folder_.path() + "/log");
    AwaitAnswer();
  }

  std::vector<std::string> Command() const {
    std::vector<std::string> command = {is_floor_ ? options_.floor : options_.dsrv, "--addr",
                                        address_, "--data", folder_.path() + "/data"};
    if (!is_floor_) {
      command.insert(command.end(), options_.dsrv_arguments.begin(),
                     options_.dsrv_arguments.end());
      return command;
    }
    const int stop_every = case_.lifecycle ? case_.nodes : 0;
    const int params_bytes = static_cast<int>(ParamsOf(case_).size());
    for (const auto& [flag, value] : {std::pair{"--params-bytes", params_bytes},
                                      std::pair{"--node-params-bytes", case_.node_params_bytes},
                                      std::pair{"--stop-every", stop_every}}) {
      command.insert(command.end(), {flag, std::to_string(value)});
    }
    return command;
  }

  // It listens once it has read its store: millions of instances take their time.
  void AwaitAnswer() {
    const ChannelPtr channel = Connect();
    const auto patience = Clock::now() + std::chrono::minutes(10);
    while (Clock::now() < patience) {
      const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(100);
      if (channel->WaitForConnected(soon)) return;
      if (!child_->Running()) GiveUp("ended at once");
      if (interrupted) GiveUp("interrupted");
    }
    GiveUp("does not listen on " + address_);
  }

  template <typename Call>
  void Ask(const std::string& what, const Call& call) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(90));
    const grpc::Status status = call(&context);
    if (!status.ok()) GiveUp(what + ": " + status.error_message());
  }

  void Define() {
    Stub stub(Connect());
    v1::DefineRequest request;
    v1::DefineResponse response;
    request.set_source(Definitions(case_));
    request.set_source_name("bench.yaml");
    Ask("Define", [&](grpc::ClientContext* context) {
      return stub.Define(context, request, &response);
    });
  }

  void Seed(const std::string& machine, const std::string& name, int64_t count,
            int64_t delay_seconds) {
    constexpr int kStarters = 4;
    constexpr int kMessageBytes = 2 << 20;
    const std::string params = ParamsOf(case_);
    const int most = kMessageBytes / (static_cast<int>(params.size()) + 100);
    std::vector<std::unique_ptr<Loop>> loops;
    loops.push_back(std::make_unique<Loop>());
    for (int i = 0; i < kStarters; ++i) {
      Starter::Plan plan{.machine = machine,
                         .id_prefix = name + "-" + std::to_string(i) + "-",
                         .batch = std::clamp(most, 2, 1'000),
                         .params = params,
                         .owed = (count + i) / kStarters,
                         .delay_seconds = delay_seconds};
      loops[0]->Add(std::make_unique<Starter>(loops[0].get(), Connect(), std::move(plan)));
    }
    loops[0]->Start();
    loops[0]->Stop();  // starters finish what they owe
    Await(loops, 60 + static_cast<double>(count) / 1'000);
    const Tally tally = loops[0]->Join();
    if (tally.errors > 0) GiveUp("starting instances: " + tally.first_error);
  }

  static std::map<std::string, double> Parse(const std::string& text) {
    std::map<std::string, double> counters;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) continue;
      counters[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
    }
    return counters;
  }

  const Options& options_;
  const Case case_;
  const bool is_floor_;
  const Folder folder_;
  std::string address_;
  std::optional<Child> child_;
  bool put_down_ = false;
};

}  // namespace dfsmr::bench
