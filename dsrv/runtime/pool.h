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
  // Its threads begin with the first job. With a `niceness` above 0 they get what the others leave
  // of the processors, as nice(1).
  explicit Pool(size_t threads, int niceness = 0) : most_(threads), niceness_(niceness) {}
  // Has no threads of its own: its jobs run in those of `lender`, which outlives it and is stopped
  // after it.
  explicit Pool(Pool& lender) : lender_(&lender) {}
  ~Pool() { Stop(); }

  // Whether many jobs wait, the first of them longer than `patience`; of a lender all that it has.
  bool Behind(std::chrono::steady_clock::duration patience) {
    constexpr size_t kCrowd = 100;
    if (lender_) return lender_->Behind(patience);
    const Lock lock(mutex_);
    return jobs_.size() > kCrowd &&
           std::chrono::steady_clock::now() - jobs_.front().posted > patience;
  }

  // Any thread. After Stop the job is dropped.
  void Post(std::function<void()> job) {
    {
      const Lock lock(mutex_);
      if (stopped_) return;
      if (lender_) {
        ++lent_;
      } else {
        jobs_.push_back({std::move(job), std::chrono::steady_clock::now()});
        while (threads_.size() < most_) threads_.emplace_back([this] { Begin(); });
      }
    }
    if (!lender_) return posted_.NotifyOne();
    lender_->Post([this, job = std::move(job)]() mutable {
      job();
      job = nullptr;  // what it holds goes before Stop returns
      const Lock lock(mutex_);
      if (--lent_ == 0) posted_.NotifyAll();
    });
  }

  // Finishes the jobs that were posted. Call it once.
  void Stop() {
    {
      Lock lock(mutex_);
      stopped_ = true;
      posted_.Wait(lock, [this]() REQUIRES(mutex_) { return lent_ == 0; });
    }
    posted_.NotifyAll();
    for (std::thread& thread : threads_) {  // no more of them begin
      if (thread.joinable()) thread.join();
    }
  }

 private:
  struct Job {
    std::function<void()> run;
    std::chrono::steady_clock::time_point posted;
  };

  void Begin() {
    // Of this thread alone. Without the right to it the jobs run as all others do.
    if (niceness_ > 0) (void)setpriority(PRIO_PROCESS, 0, niceness_);
    Run();
  }

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

  Pool* const lender_ = nullptr;  // null: its threads are its own
  const size_t most_ = 0;
  const int niceness_ = 0;
  Mutex mutex_;
  ConditionVariable posted_;
  std::deque<Job> jobs_ GUARDED(mutex_);
  size_t lent_ GUARDED(mutex_) = 0;  // jobs that the lender has
  bool stopped_ GUARDED(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dfsmr
