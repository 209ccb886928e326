// What the server tells systemd, when systemd has started it: that it serves, that it stops, and
// that the deciding thread still turns. Does nothing under another supervisor, or none.
#pragma once

#include <functional>
#include <thread>

#include "fsm/base/mutex.h"
#include "fsm/base/time.h"

namespace dfsmr {

class Supervisor {
 public:
  // Calls what it is given when the server is well: now, or as soon as it is.
  using Probe = std::function<void(std::function<void()>)>;
  // Tells that the server serves. With a watchdog (WatchdogSec= in the unit) it then probes, three
  // times in that period, and tells that the server is well: one that is stuck is silent, and
  // systemd starts the server again.
  explicit Supervisor(Probe probe);
  // Tells that the server stops. The watchdog is fed no more; a stop has a limit of its own.
  ~Supervisor();

 private:
  void Watch(Duration every);

  const Probe probe_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
