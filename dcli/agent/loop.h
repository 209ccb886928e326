// The agent's loop: one thread that waits for descriptors, times and what other threads post, and
// does one thing after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dcli/system/process.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

using SteadyTime = std::chrono::steady_clock::time_point;

// Post: any thread. All else: the thread that runs it.
class Loop {
 public:
  using Action = std::function<void()>;
  using TimerId = std::pair<SteadyTime, uint64_t>;

  Loop();

  // Calls `ready` whenever the descriptor can be read, or is at its end; with `writes` whenever it
  // can be written. One of them for each descriptor, until Unwatch.
  void Watch(int fd, bool writes, Action ready);
  void Unwatch(int fd);

  // Calls `action` once, then.
  TimerId At(SteadyTime time, Action action);
  TimerId After(std::chrono::milliseconds wait, Action action);
  void Drop(const TimerId& timer);

  void Post(Action action);
  // Called after each round of events, before the loop waits again.
  void OnRest(Action action) { rest_ = std::move(action); }

  void Run();  // until Stop
  void Stop() { stopped_ = true; }

 private:
  struct Watched {
    uint64_t serial;
    Action ready;
  };
  void RunTimers();
  void RunPosted();
  int Patience() const;

  Descriptor epoll_;
  Descriptor wake_;
  bool stopped_ = false;
  uint64_t next_ = 1;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::map<TimerId, Action> timers_;
  Action rest_;
  Mutex mutex_;
  std::vector<Action> posted_ GUARDED(mutex_);
};

// One timer that can be set anew; goes with its owner.
class Timer {
 public:
  explicit Timer(Loop& loop) : loop_(loop) {}
  ~Timer() { Clear(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void Set(SteadyTime time, Loop::Action action);
  void SetIn(std::chrono::milliseconds wait, Loop::Action action) {
    Set(std::chrono::steady_clock::now() + wait, std::move(action));
  }
  void Clear();
  bool set() const { return id_.second != 0; }

 private:
  Loop& loop_;
  Loop::TimerId id_{};
};

}  // namespace dfsmr::cli
