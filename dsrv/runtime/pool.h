// A few threads for jobs that may block, such as reads of the store: neither the loop nor gRPC's
// own threads may wait for these.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "fsm/base/mutex.h"

namespace dfsmr {

class Pool {
 public:
  // With a `niceness` above 0 its threads get what the others leave of the processors, as nice(1).
  explicit Pool(size_t threads, int niceness = 0) {
    for (size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, niceness] {
        // Of this thread alone. Without the right to it the jobs run as all others do.
        if (niceness > 0) (void)setpriority(PRIO_PROCESS, 0, niceness);
        Run();
      });
    }
  }
  ~Pool() { Stop(); }

  // Whether many jobs wait, the first of them longer than `patience`.
  bool Behind(std::chrono::steady_clock::duration patience) {
    constexpr size_t kCrowd = 100;
    const Lock lock(mutex_);
    return jobs_.size() > kCrowd &&
           std::chrono::steady_clock::now() - jobs_.front().posted > patience;
  }

  // Any thread. After Stop the job is dropped.
  void Post(std::function<void()> job) {
    {
      const Lock lock(mutex_);
      if (stopped_) return;
      jobs_.push_back({std::move(job), std::chrono::steady_clock::now()});
    }
    posted_.NotifyOne();
  }

  // Finishes the jobs that were posted. Call it once.
  void Stop() {
    {
      const Lock lock(mutex_);
      stopped_ = true;
    }
    posted_.NotifyAll();
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
      Lock lock(mutex_);
      posted_.Wait(lock, [this]() REQUIRES(mutex_) { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front().run);
      jobs_.pop_front();
      lock.Unlock();
      job();
    }
  }

  Mutex mutex_;
  ConditionVariable posted_;
  std::deque<Job> jobs_ GUARDED(mutex_);
  bool stopped_ GUARDED(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dfsmr
