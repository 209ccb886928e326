// Ctrl-C and SIGTERM.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace dfsmr::cli {

// For commands that have nothing to tidy up: SIGINT ends the process with status 130.
void ExitOnInterrupt();

// For the other commands. While it lives, SIGINT and SIGTERM are blocked in this thread and in
// those started after it; a thread of its own calls `on_signal` with 1 for the first signal, 2 for
// the second, …
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
