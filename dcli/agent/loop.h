// The agent's loop: one thread that waits for descriptors, times and what other threads post, and
// does one thing after the other. Another thread may do its own thing in the loop's place while the
// loop waits: then nobody has to be woken.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "dcli/system/process.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

using SteadyTime = std::chrono::steady_clock::time_point;

// Post, Do: any thread. All else: what the loop does, by whichever thread.
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

  // Done by the loop's thread, unless another one is doing something and goes on with this.
  void Post(Action action);
  // The same, but done at once, before it returns, where the loop waits. REQUIRES: the caller holds
  // no lock that an action takes, and may wait for whatever else is posted.
  void Do(Action action);
  // Called after each round of events, before the loop waits again.
  void OnRest(Action action) { rest_ = std::move(action); }

  void Run();  // until Stop
  void Stop() { stopped_ = true; }

 private:
  struct Watched {
    uint64_t serial;
    Action ready;
  };
  void RunEvents(std::span<const epoll_event> events, uint64_t before);
  void RunTimers();
  void RunPosted();
  // The loop is one thread's at a time: of the one that has taken it.
  void Take();
  bool Leave();  // false: something is posted, and it is not left
  void Wake();
  SteadyTime WaitsUntil() const;

  Descriptor epoll_;
  Descriptor wake_;
  bool stopped_ = false;
  SteadyTime waits_until_{};  // at the latest, when its thread last began to wait
  uint64_t next_ = 1;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::map<TimerId, Action> timers_;
  Action rest_;
  Mutex mutex_;
  ConditionVariable left_;
  bool taken_ GUARDED(mutex_) = true;
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
