// The logs of operations: takes lines from workers, keeps them, and gives them to readers.
//
// It stands beside the engine and has threads of its own, which give way to all others: one that
// takes lines and alone writes the store of logs, and one that reads it. The deciding thread is
// asked which node a claim is of once in a minute for a claim that has lines, and once in a second
// for each reader that follows; it waits for nobody, and nothing of a log goes through its turns.
//
// Where lines are kept in a database they are written some at once, at most ten times a second but
// for each MiB of them, and a request is answered once its lines are there. While the database is
// away they wait, up to what may wait of requests.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dsrv/engine/reader.h"
#include "dsrv/loop/loop.h"
#include "fsm/base/mutex.h"
#include "storage/logs/log_reader.h"
#include "storage/logs/log_store.h"

namespace dfsmr {

class Logs {
 public:
  struct Options {
    std::filesystem::path path;        // of a table of its own, where no other is given
    uint64_t bytes = 0;                // kept of the server; 0: nothing is kept
    std::function<Timestamp()> clock;  // real time
    // Whether the disk is so full that logs have to go before anything is refused. Null: never.
    std::function<bool()> scarce;
  };

  // What is done when the server stops, or when there is news.
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Stop() = 0;  // any thread
  };
  class Follower : public Call {
   public:
    // New lines are there (`news`), or some time has passed. Any thread; must not block.
    virtual void Wake(bool news) = 0;
  };
  class Sender : public Call {
   public:
    // There is room for more lines. Must not block.
    virtual void Resume() = 0;
  };

  // A table of its own that cannot be read is put away, and a new one is begun: the server runs
  // without its old logs rather than not at all. Without a path and a table none are kept.
  explicit Logs(Options options, std::unique_ptr<LogTable> table = nullptr);
  ~Logs();

  // Begins to work. `loop` and what `reader` shows must outlive Stop.
  void Start(const Reader& reader, Loop& loop);
  // Ends the calls that are open, and takes no new ones.
  void EndAll();
  // Puts what was taken on disk, and ends the threads. Call it once.
  void Stop();

  bool keeps() const { return store_ != nullptr; }
  // The engine has removed an instance. Any thread.
  void Removed(const std::string& ns, const std::string& id);
  // The disk is nearly full. True: logs hold space that they give back now, so nothing is to be
  // refused for a moment. Any thread.
  bool GiveWay();

  // For the counters of metrics. Any thread.
  uint64_t lines() const { return store_ ? store_->lines() : 0; }
  uint64_t left_out() const { return (store_ ? store_->left_out() : 0) + dropped_.load(); }
  uint64_t bytes() const { return store_ ? store_->bytes() : 0; }

  // The parts that calls need. ----------------------------------------------------------------

  // False: there are too many calls, or the server stops.
  bool Enter(const std::shared_ptr<Call>& call);
  void Leave(Call* call);

  // Runs a job on the thread that writes, or on the one that reads.
  void Post(std::function<void()> job);
  void PostLater(std::chrono::milliseconds delay, std::function<void()> job);
  void PostRead(std::function<void()> job);

  // Bytes of requests that wait for the thread that writes. False: there are too many, and `sender`
  // is told when it may go on.
  bool MayRead(const std::shared_ptr<Sender>& sender);
  void Queued(int64_t bytes) { queued_.fetch_add(bytes, std::memory_order_relaxed); }

  // On the thread that writes. What is known of a claim; null: nothing, or not any more.
  struct Known {
    LogOwner owner;
    LogClaim claim;
    Timestamp until;  // by the server's clock: then it is to be asked for again
  };
  const Known* Find(const std::string& claim);
  void Learn(Known known);
  // Writes the lines of a request of so many bytes, unless there is no room, wakes their readers,
  // and calls `done`: in the order of the requests. Where another server has the store by now it
  // does not, so that they are sent to that one.
  void Append(std::vector<LogStore::Piece> pieces, size_t bytes, std::function<void()> done);

  // Wakes `follower` when the instance has new lines, and four times a second.
  void Follow(const std::string& ns, const std::string& instance,
              const std::shared_ptr<Follower>& follower);
  void Unfollow(const std::string& ns, const std::string& instance, Follower* follower);

  Loop& loop() const { return *loop_; }
  const Reader& reader() const { return *reader_; }
  const LogStore& store() const { return *store_; }
  const LogStore* kept() const { return store_.get(); }  // null: none are kept

 private:
  using Clock = std::chrono::steady_clock;
  struct Removal {
    std::string ns;
    std::string id;
    Clock::time_point due;
  };

  // A request whose lines wait to be written.
  struct Gathered {
    size_t pieces = 0;
    size_t bytes = 0;
    std::function<void()> done;
  };

  void Write();  // the thread that writes
  void Read();
  bool RunOne();  // false: nothing waits
  Clock::time_point NextDue() const;
  bool BeReady();
  Result<Ok> AppendNow(std::span<const LogStore::Piece> pieces);
  void Flush();
  bool FlushSome();
  bool AtRest();
  void Tend();
  void TendStore(Clock::time_point now);
  void TendRoom();
  void Discard();
  bool DropRemoved();
  void WakeFollowers();
  void ResumeSenders();
  std::vector<LogStore::Standing> StandingsOf(std::span<const LogOwner> owners) const;
  // Only whether they are gone: a read for each.
  std::vector<LogStore::Standing> GoneOf(std::span<const LogOwner> owners) const;
  void Settle(std::string_view doing, const Result<Ok>& done);
  void Note(std::string_view doing, const Error& error);

  const Options options_;
  std::unique_ptr<LogStore> store_;
  std::optional<Reader> reader_;
  Loop* loop_ = nullptr;

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ GUARDED(mutex_);
  std::multimap<Clock::time_point, std::function<void()>> later_ GUARDED(mutex_);
  std::deque<Removal> removed_ GUARDED(mutex_);
  bool stopped_ GUARDED(mutex_) = false;

  Mutex read_mutex_;
  ConditionVariable read_changed_;
  std::deque<std::function<void()>> reads_ GUARDED(read_mutex_);
  bool read_stopped_ GUARDED(read_mutex_) = false;
  std::thread reading_;  // begins with the first job; Stop comes after all of them

  Mutex calls_mutex_;
  std::map<Call*, std::weak_ptr<Call>> calls_ GUARDED(calls_mutex_);
  std::vector<std::weak_ptr<Sender>> paused_ GUARDED(calls_mutex_);
  bool ended_ GUARDED(calls_mutex_) = false;

  Mutex followers_mutex_;
  std::map<std::string, std::map<Follower*, std::weak_ptr<Follower>>> followers_
      GUARDED(followers_mutex_);  // by ResidentKey

  std::atomic<int64_t> queued_ = 0;
  std::atomic<uint64_t> dropped_ = 0;         // lines for which there was no room
  std::atomic<int64_t> gives_way_until_ = 0;  // steady time, in its own ticks; 0: it need not
  std::atomic<bool> pressed_ = false;         // GiveWay was called

  // The writing thread's.
  absl::flat_hash_map<std::string, Known> known_;
  std::unique_ptr<LogTable> discarded_;  // its rows are to go
  bool loaded_ = false;                  // the store
  bool superseded_ = false;              // another server writes it
  Clock::time_point again_{};            // before that it is not tried
  std::vector<LogStore::Piece> pieces_;  // of those that are gathered
  std::deque<Gathered> gathered_;
  size_t gathered_bytes_ = 0;
  Clock::time_point flush_due_{};
  bool scarce_ = false;
  bool warned_ = false;  // that it is
  bool sweeping_ = true;
  Clock::time_point sweep_due_{};
  Clock::time_point sync_due_{};
  Clock::time_point room_due_{};
  Clock::time_point wake_due_{};
  Clock::time_point noted_{};
  std::thread writer_;
};

}  // namespace dfsmr
