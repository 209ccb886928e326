// Ctrl-C and SIGTERM.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace dfsmr::cli {

// For commands that have nothing to tidy up: SIGINT ends the process with status 130.
void ExitOnInterrupt();

// For the others: while it lives, SIGINT and SIGTERM are taken from all threads that are started
// after it, and told to `on_signal` (from a thread of its own) with 1 for the first, 2 for the
// second, …
class Interrupts {
 public:
  explicit Interrupts(std::function<void(int)> on_signal);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  sigset_t before_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace dfsmr::cli
