// Prints what the lanes of `dcli work` have to say, in a thread of its own: whoever reads it
// slowly, or not at all, holds up the commands that write it, not the claims.
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
  // What Finish has not seen printed is printed first.
  ~Printer();

  // `print` writes so many bytes. In the order of the calls, one at a time. The first call starts
  // the thread: by then the signals are blocked that are not for it.
  void Add(size_t bytes, std::function<void()> print);
  // So much waits that commands had better wait, too.
  bool Full() const;
  // All that was added is printed. Nothing may be added after it. False when it is not, a second
  // after HurryUp was called: then the streams are stuck, and the process had better end.
  bool Finish();
  void HurryUp();

 private:
  struct Job {
    size_t bytes;
    std::function<void()> print;
  };
  void Run();

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Job> jobs_ GUARDED(mutex_);
  size_t bytes_ GUARDED(mutex_) = 0;
  bool busy_ GUARDED(mutex_) = false;
  bool hurry_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr::cli
