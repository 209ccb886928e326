// Copies of the store while it serves: one for each call of Backup, and those of --backup-every.
//
// A copy is of one moment: RocksDB flushes what is in memory and links its tables, which never
// change, into a folder beside them. So taking one costs the writing thread next to nothing, and
// what is read afterwards, at leisure and by threads that give way to all others, are files that
// nobody changes. The logs of operations are copied first: then no log is in a copy whose instance
// is not.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "dsrv/loop/loop.h"
#include "fsm/base/mutex.h"
#include "storage/backup/manifest.h"
#include "storage/logs/log_store.h"
#include "storage/rocks/rocks_store.h"

namespace dfsmr {

// What --backup-every has done, for those who watch the server.
struct BackupStatus {
  bool asked = false;   // the server was told to
  Timestamp last_time;  // as of which the last good one is; Timestamp(): there is none
  uint64_t last_bytes = 0;
  std::string error;      // of the last try; empty: it was good
  uint64_t failures = 0;  // since the server was started
};

class Backups {
 public:
  struct Options {
    std::filesystem::path data;  // of the store
    std::string version;
    std::function<Timestamp()> clock;  // real time
    PartitionId partition = 0;
    uint64_t life = 0;  // of the store, as in cursors
    Duration every{};   // zero: only who calls gets one
    std::filesystem::path to;
    size_t keep = 24;
  };

  // A copy of the store, in a folder that goes with the object.
  class Copy {
   public:
    explicit Copy(std::filesystem::path folder) : folder_(std::move(folder)) {}
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    const std::filesystem::path& folder() const { return folder_; }
    BackupManifest manifest;  // without files

   private:
    const std::filesystem::path folder_;
  };

  // Deletes copies that a crash has left. `store` is null where the store is not embedded: then
  // there are none. `logs` is null where none are kept.
  Backups(Options options, const RocksStore* store, const LogStore* logs);
  ~Backups();

  // Begins with --backup-every. `loop` must outlive Stop.
  void Start(Loop& loop);
  // Ends what is under way soon, and takes nothing new. Any thread.
  void EndAll();
  // Waits for the end of all. Call it once, after EndAll and before the loop stops.
  void Stop();

  // Runs a job in a thread of its own, which gives way to all others. False: enough are under way,
  // or the server stops. Any thread.
  bool Run(std::function<void()> job);

  // For jobs, which may wait. ----------------------------------------------------------------

  // All that was answered before it was called is in it.
  Result<std::unique_ptr<Copy>> Take();
  // Waits, so that so many bytes are read at a bounded rate. kUnavailable: the server stops.
  class Pacer {
   public:
    explicit Pacer(Backups& backups);
    Result<Ok> operator()(size_t bytes);

   private:
    Backups& backups_;
    const std::chrono::steady_clock::time_point begin_;
    uint64_t bytes_ = 0;
  };

  BackupStatus status() const;  // any thread

 private:
  struct Job {
    std::thread thread;
    bool over = false;
  };

  Result<Ok> Settle();
  Result<Ok> Link(Copy* copy);
  Result<std::string> CursorOf(const std::filesystem::path& folder) const;
  bool Ended() const;
  // False: the server stops.
  bool WaitUntil(Timestamp time);
  void ReadStatus();
  void Keep();  // the thread of --backup-every
  void SaveOne();

  const Options options_;
  const RocksStore* const store_;
  const LogStore* const logs_;
  Loop* loop_ = nullptr;

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  bool ended_ GUARDED(mutex_) = false;
  std::list<Job> jobs_ GUARDED(mutex_);
  uint64_t next_ GUARDED(mutex_) = 1;
  BackupStatus status_ GUARDED(mutex_);
  std::thread keeper_;
};

}  // namespace dfsmr
