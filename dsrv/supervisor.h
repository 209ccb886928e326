// What the server tells systemd, when systemd has started it: that it serves, that it stops, and
// that the deciding thread still turns. Does nothing under another supervisor, or none.
#pragma once

#include <string>
#include <thread>

#include "dsrv/loop/loop.h"
#include "fsm/base/mutex.h"
#include "fsm/base/time.h"

namespace dfsmr {

class Supervisor {
 public:
  // Tells that the server serves. With a watchdog (WatchdogSec= in the unit) it then tells, three
  // times in that period, that the engine has run a piece of mail: an engine that is stuck is
  // silent, and systemd starts the server again. `loop` must outlive it.
  explicit Supervisor(Loop& loop);
  // Tells that the server stops. The watchdog is fed no more; a stop has a limit of its own.
  ~Supervisor();

 private:
  void Watch(Duration every);

  Loop& loop_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
