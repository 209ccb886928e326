#include "dsrv/supervisor.h"

#include <systemd/sd-daemon.h>

#include <utility>

namespace dfsmr {

Supervisor::Supervisor(Probe probe) : probe_(std::move(probe)) {
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
    probe_([] { sd_notify(0, "WATCHDOG=1"); });
  } while (!changed_.WaitFor(lock, every, [this]() REQUIRES(mutex_) { return ended_; }));
}

}  // namespace dfsmr
