#include "dcli/system/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace dfsmr::cli {
namespace {

sigset_t Awaited() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void ExitOnInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(130); };
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::Interrupts(std::function<void(int)> on_signal) {
  const sigset_t set = Awaited();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = std::thread([this, set, on_signal = std::move(on_signal)] {
    for (int count = 1;; ++count) {
      int signal = 0;
      sigwait(&set, &signal);
      if (over_) return;
      on_signal(count);
    }
  });
}

Interrupts::~Interrupts() {
  over_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // blocked there: it ends the wait, no more
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace dfsmr::cli
