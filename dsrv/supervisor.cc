#include "dsrv/supervisor.h"

#include <systemd/sd-daemon.h>

namespace dfsmr {

Supervisor::Supervisor(Loop& loop) : loop_(loop) {
  sd_notify(0, "READY=1");
  uint64_t period = 0;  // µs
  if (sd_watchdog_enabled(0, &period) <= 0) return;
  thread_ = std::thread([this, period] { Watch(Duration(static_cast<int64_t>(period / 3))); });
}

Supervisor::~Supervisor() {
  sd_notify(0, "STOPPING=1");
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Supervisor::Watch(Duration every) {
  Lock lock(mutex_);
  do {
    loop_.Post({.run = [](Engine&) { sd_notify(0, "WATCHDOG=1"); }, .drop = [] {}, .owed = true});
  } while (!changed_.WaitFor(lock, every, [this]() REQUIRES(mutex_) { return ended_; }));
}

}  // namespace dfsmr
