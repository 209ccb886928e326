// A few threads for what may block: reads of the store that neither the loop nor gRPC's own threads
// may wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dfsmr {

class Pool {
 public:
  explicit Pool(size_t threads) {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Pool() { Stop(); }

  // Whether a crowd waits, and the first of it for longer than `patience`.
  bool Behind(std::chrono::steady_clock::duration patience) {
    constexpr size_t kCrowd = 100;
    std::lock_guard lock(mutex_);
    return jobs_.size() > kCrowd &&
           std::chrono::steady_clock::now() - jobs_.front().posted > patience;
  }

  // Any thread. After Stop the job is dropped.
  void Post(std::function<void()> job) {
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return;
      jobs_.push_back({std::move(job), std::chrono::steady_clock::now()});
    }
    posted_.notify_one();
  }

  // Finishes what was posted. Once.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    posted_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  struct Job {
    std::function<void()> run;
    std::chrono::steady_clock::time_point posted;
  };

  void Run() {
    while (true) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front().run);
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Job> jobs_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dfsmr
