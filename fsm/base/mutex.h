// Mutexes that name what they guard. clang checks it (-Wthread-safety, an error wherever clang
// compiles; `make tidy` does): data marked GUARDED(mutex_) is touched only while mutex_ is held,
// and a function marked REQUIRES(mutex_) is called only then. gcc sees no more than the standard's
// mutexes, and so does ThreadSanitizer, which knows those and not absl's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#ifdef __clang__
#define DFSMR_THREADS(attribute) __attribute__((attribute))
#else
#define DFSMR_THREADS(attribute)
#endif
#define GUARDED(mutex) DFSMR_THREADS(guarded_by(mutex))
#define REQUIRES(mutex) DFSMR_THREADS(requires_capability(mutex))  // also for a lambda that waits
#define REQUIRES_SHARED(mutex) DFSMR_THREADS(requires_shared_capability(mutex))

namespace dfsmr {

class DFSMR_THREADS(capability("mutex")) Mutex {
 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds a mutex until its end, or until Unlock.
class DFSMR_THREADS(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) DFSMR_THREADS(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~Lock() DFSMR_THREADS(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  void Unlock() DFSMR_THREADS(release_capability()) { lock_.unlock(); }
  void Relock() DFSMR_THREADS(acquire_capability()) { lock_.lock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

// What threads that hold a lock wait for. `holds` is called with the lock held, here only; if it
// reads guarded data, it is marked REQUIRES.
class ConditionVariable {
 public:
  template <typename Holds>
  void Wait(Lock& lock, Holds holds) {
    changed_.wait(lock.lock_, std::move(holds));
  }
  // False: it does not hold, and the time is over.
  template <typename Time, typename Holds>
  bool WaitUntil(Lock& lock, Time until, Holds holds) {
    return changed_.wait_until(lock.lock_, until, std::move(holds));
  }
  template <typename Time, typename Holds>
  bool WaitFor(Lock& lock, Time time, Holds holds) {
    return changed_.wait_for(lock.lock_, time, std::move(holds));
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

// Many readers or one writer.
class DFSMR_THREADS(capability("mutex")) SharedMutex {
 private:
  friend class ReadLock;
  friend class WriteLock;
  std::shared_mutex mutex_;
};

class DFSMR_THREADS(scoped_lockable) ReadLock {
 public:
  explicit ReadLock(SharedMutex& mutex) DFSMR_THREADS(acquire_shared_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~ReadLock() DFSMR_THREADS(release_capability()) {}

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

class DFSMR_THREADS(scoped_lockable) WriteLock {
 public:
  explicit WriteLock(SharedMutex& mutex) DFSMR_THREADS(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~WriteLock() DFSMR_THREADS(release_capability()) {}

 private:
  std::unique_lock<std::shared_mutex> lock_;
};

}  // namespace dfsmr
