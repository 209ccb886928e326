// Prints the output of `dcli work` in a thread of its own: a reader that is slow, or does not read
// at all, holds up the commands that write, but not the heartbeats of their claims.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// Any thread.
class Printer {
 public:
  // Prints what was added and is not printed yet.
  ~Printer();

  // Runs `print`, which writes so many bytes, in the order of the calls, one at a time. The first
  // call starts the thread; signals that are not for the thread must be blocked by then.
  void Add(size_t bytes, std::function<void()> print);
  // True when so much waits to be printed that commands should wait, too.
  bool Full() const;
  // Waits until everything is printed. REQUIRES: nothing is added after it. False when something is
  // still not printed a second after HurryUp was called: then the streams are stuck, and the
  // process should end.
  bool Finish();
  void HurryUp();

 private:
  struct Job {
    size_t bytes;
    std::function<void()> print;
  };
  void Run();

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Job> jobs_ GUARDED(mutex_);
  size_t bytes_ GUARDED(mutex_) = 0;
  bool busy_ GUARDED(mutex_) = false;
  bool hurry_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr::cli
