// What the process does for itself, whatever it serves: its clock, its log, its signals.
#pragma once

#include <csignal>
#include <functional>

#include "dsrv/flags.h"
#include "dsrv/loop/meter.h"
#include "fsm/base/mutex.h"
#include "storage/secrets/seal.h"

namespace dfsmr {

// The wall clock, or the one that it is told to follow; but never backwards: when that is set back,
// time goes on at its own pace until it has caught up. Any thread.
class ServerClock {
 public:
  Timestamp operator()() {
    const auto wall = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    const Lock lock(mutex_);
    if (!follows_) ahead_ = std::max(ahead_, wall - Steady());
    return ahead_ + Steady();
  }
  // Another clock, which shows `now`, counts from now on in place of the wall clock.
  void Follow(Timestamp now) {
    const Lock lock(mutex_);
    const Timestamp ahead = now - Steady();
    ahead_ = follows_ ? std::max(ahead_, ahead) : ahead;
    follows_ = true;
  }

 private:
  static Duration Steady() {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }

  Mutex mutex_;
  bool follows_ GUARDED(mutex_) = false;
  // The clock that counts when the steady one was at zero, as last reckoned.
  Timestamp ahead_ GUARDED(mutex_);
};

using ReadFlags = std::function<Result<Flags>()>;

// Says what is wrong, and with which status the process ends.
int Fail(const Error& error);

// The process's own logger, and the log of gRPC into it.
Result<Ok> StartLogs(const Flags& flags);

// Each connection is an open file, and shells allow few of them.
void RaiseFileLimit();

// These signals are waited for, not handled: nothing runs in a signal handler.
sigset_t BlockSignals();

// Returns the signal that stops the server. SIGUSR1 calls `tell`, SIGHUP reads again what can
// change while it serves. `wait` returns the next of the signals.
int AwaitStop(const std::function<int()>& wait, const std::function<void()>& tell,
              const ReadFlags& read);

// Null where there is no file of keys: then nothing can be sealed.
Result<SecretKeysPtr> ReadSecretKeys(const Flags& flags);

}  // namespace dfsmr
