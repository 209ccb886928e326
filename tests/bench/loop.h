// One thread with one completion queue, and what its callers have counted. Everything that a caller
// does happens on this thread, so that callers need no locks and cost little.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/histogram.h"

namespace dfsmr::bench {

using Clock = std::chrono::steady_clock;

// Counted while recording, but for the errors, which always count.
struct Tally {
  uint64_t transitions = 0;  // acknowledged
  uint64_t finished = 0;     // instances that reached their end
  uint64_t started = 0;
  uint64_t empty = 0;        // replies without a task
  uint64_t fed = 0;          // messages of the feed
  uint64_t errors = 0;
  std::string first_error;
  Histogram latencies;  // one for each transition, or each start
  Histogram gaps;       // of a hand-over: from the acknowledgement on
};

// Something that waits in the queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Done(bool ok) = 0;
};

class Caller {
 public:
  virtual ~Caller() = default;
  virtual void Begin() = 0;
  virtual void Stop() {}  // for those who would otherwise wait on
};

class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Before Start.
  void Add(std::unique_ptr<Caller> caller) { callers_.push_back(std::move(caller)); }
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }

  // The owner's thread.
  void SetRecording(bool recording) { recording_.store(recording, std::memory_order_relaxed); }
  void Stop() {
    stopping_.store(true, std::memory_order_relaxed);
    alarm_.Set(&queue_, std::chrono::system_clock::now(), &stop_);
  }
  bool ended() const { return ended_.load(); }
  Tally Join() {
    thread_.join();
    return std::move(tally_);
  }

  // For callers, on the loop's thread.
  grpc::CompletionQueue* queue() { return &queue_; }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  Tally& tally() { return tally_; }
  void Expect() { ++expected_; }  // one more event will come
  void CountLatency(Clock::time_point since, Clock::time_point now, std::size_t times) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now - since).count();
    tally_.latencies.Add(static_cast<uint64_t>(std::max<int64_t>(us, 0)), times);
  }
  void CountGap(Clock::time_point since, Clock::time_point now) {
    tally_.gaps.Add(static_cast<uint64_t>((now - since) / std::chrono::microseconds(1)));
  }
  void CountError(const std::string& message) {
    if (tally_.errors++ == 0) tally_.first_error = message;
  }

 private:
  struct StopEvent final : Event {
    explicit StopEvent(Loop* owner) : loop(*owner) {}
    void Done(bool) override {
      for (const auto& caller : loop.callers_) caller->Stop();
    }
    Loop& loop;
  };

  void Run() {
    for (const auto& caller : callers_) caller->Begin();
    void* tag = nullptr;
    bool ok = false;
    while (expected_ > 0 && queue_.Next(&tag, &ok)) {
      static_cast<Event*>(tag)->Done(ok);
      --expected_;
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) continue;
    ended_ = true;
  }

  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;
  StopEvent stop_{this};
  int64_t expected_ = 1;  // the stop
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> recording_ = false;
  std::atomic<bool> ended_ = false;
  Tally tally_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::thread thread_;
};

// One unary call at a time; its parts are used again for the next.
template <typename Response>
struct Call {
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  Response response;
  grpc::Status status;

  template <typename Stub, typename Method, typename Request>
  void Issue(Loop* loop, Stub* stub, Method method, const Request& request, Event* event) {
    reader.reset();
    context.emplace();
    reader = (stub->*method)(&*context, request, loop->queue());
    reader->Finish(&response, &status, event);
    loop->Expect();
  }
};

}  // namespace dfsmr::bench
