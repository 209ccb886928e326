// Drives servers that are there already: cluster.py and partitions.py start them. Machine "bench"
// must lead from each node to the next by "ok", and have enough instances.
//
//   build/bin/load report16x10|unary64 HOST:PORT,… [--seconds 5]
//
// report16x10: 16 workers that report 10 tasks with each call and get the next 10. unary64: 64
// callers of Transition, each of an instance of its own, "u-0" to "u-63". Prints transitions per
// second; exits with 1 when a call failed.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/callers.h"
#include "tests/bench/loop.h"

namespace dfsmr::bench {
namespace {

// Moves one instance, again and again, as what comes from outside does.
class Mover final : public ClosedLoop, public Event {
 public:
  Mover(Loop* loop, const ChannelPtr& channel, const std::string& instance)
      : ClosedLoop(loop, channel) {
    request_.set_instance(instance);
    request_.set_transition("ok");
  }
  void Begin() override { call_.Issue(&loop_, &stub_, &Stub::AsyncTransition, request_, this); }

 private:
  void Done(bool) override {
    if (!call_.status.ok()) {
      if (Failed(call_.status)) Begin();
      return;
    }
    if (loop_.recording()) ++loop_.tally().transitions;
    if (!loop_.stopping()) Begin();
  }

  v1::TransitionRequest request_;
  Call<v1::TransitionResponse> call_;
};

int Drive(const std::string& load, const std::vector<std::string>& servers, double seconds) {
  constexpr auto kWarmUp = std::chrono::milliseconds(500);
  const bool reports = load == "report16x10";
  std::vector<ChannelPtr> channels;
  for (const std::string& address : servers) {
    channels.push_back(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }
  Loop loop;
  for (int i = 0; i < (reports ? 16 : 64); ++i) {
    const ChannelPtr& channel = channels[static_cast<size_t>(i) % channels.size()];
    const std::string number = std::to_string(i);
    if (reports) {
      loop.Add(std::make_unique<ReportWorker>(
          &loop, channel, Worker::Plan{.name = "worker-" + number, .batch = 10}));
    } else {
      loop.Add(std::make_unique<Mover>(&loop, channel, "u-" + number));
    }
  }
  loop.Start();
  std::this_thread::sleep_for(kWarmUp);
  loop.SetRecording(true);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  loop.SetRecording(false);
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  loop.Stop();
  const Tally tally = loop.Join();
  std::printf("%.0f\n", static_cast<double>(tally.transitions) / took);
  if (tally.errors == 0) return 0;
  std::fprintf(stderr, "load: %lld calls failed, first: %s\n",
               static_cast<long long>(tally.errors), tally.first_error.c_str());
  return 1;
}

}  // namespace
}  // namespace dfsmr::bench

int main(int argc, char** argv) {
  std::string load;
  std::vector<std::string> servers;
  double seconds = 5;
  CLI::App app("Drives servers that are there, and prints transitions per second.");
  app.add_option("load", load, "report16x10 or unary64")
      ->required()
      ->check(CLI::IsMember({"report16x10", "unary64"}));
  app.add_option("servers", servers, "HOST:PORT, …")->required()->delimiter(',');
  app.add_option("--seconds", seconds)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return dfsmr::bench::Drive(load, servers, seconds);
}
