// Load that does not wait for answers, and load that does: what overload and soak measure with.
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/server.h"

namespace dfsmr::chaos {

// What has become of the calls of a load.
struct Outcomes {
  uint64_t offered = 0;
  uint64_t items = 0;     // of the accepted: instances started, transitions
  uint64_t accepted = 0;  // calls
  uint64_t overloaded = 0;  // refused with reason OVERLOADED
  uint64_t late = 0;        // DEADLINE_EXCEEDED
  uint64_t other = 0;
  uint64_t unsent = 0;      // not made at all: too many were under way already
  std::string first_other;
  std::string refusal;      // the text of one
  std::vector<float> latency_ms;  // of the accepted
};

// The latency that `share` of the calls did not exceed, in milliseconds.
double Percentile(std::vector<float> latency_ms, double share);

// Batches of starts on many connections, at a fixed rate whatever the answers (open), or each
// client's next one when its last was answered (closed: rate 0).
class StartLoad {
 public:
  struct Plan {
    std::string prefix;           // of the ids, unlike any other's
    double batches_per_s = 0;     // 0: closed loop
    int clients = 16;             // of the closed loop
    int batch = 100;
    uint64_t under_way_most = 20'000;  // of the open loop
    double deadline_seconds = 30;
  };
  StartLoad(const Dsrv& server, Plan plan);
  StartLoad(const StartLoad&) = delete;
  StartLoad& operator=(const StartLoad&) = delete;
  ~StartLoad();
  // Offers nothing more, waits for what is under way, and tells what was. Once.
  Outcomes Stop();

 private:
  struct Call;
  void Offer();
  void Drain();
  void Issue();
  grpc::ByteBuffer Batch();
  void Finish(Call* call);

  const Plan plan_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue queue_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> under_way_ = 0;
  std::atomic<uint64_t> serial_ = 0;
  std::atomic<uint64_t> unsent_ = 0;
  std::atomic<uint64_t> offered_ = 0;
  std::mutex mutex_;  // of the outcomes
  Outcomes outcomes_;
  std::thread drain_;
  std::thread offer_;
};

// What the kernel knows of a process.
struct Vitals {
  double rss_mib = 0;
  int files = 0;
  int sockets = 0;  // of the files
  int threads = 0;
};
Vitals VitalsOf(pid_t pid);
double DiskMib(const std::string& path);

// Starts instances of "load", each of so many callers one at a time, and prints how many were
// accepted and refused, and the 99th percentile of the accepted in milliseconds. For a process of
// its own: in that of an abuser calls wait for the abuser's own.
void Beside(const std::string& address, int callers, double seconds);

// The highest resident memory of a process while it lives.
class PeakMemory {
 public:
  explicit PeakMemory(pid_t pid);
  ~PeakMemory();
  double mib() const { return peak_; }

 private:
  std::atomic<bool> stopping_ = false;
  std::atomic<double> peak_ = 0;
  std::thread thread_;
};

}  // namespace dfsmr::chaos
