// Serves the feed to its watchers: in order, without gaps, each watcher at its own pace. Recent
// changes come from memory: each is serialised once, and each message is made once for all watchers
// that have the same filter and keep up. Older changes come from the store. A watcher that does not
// read holds one message and costs nothing else.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dsrv/feed/cursor.h"
#include "dsrv/runtime/pool.h"
#include "fsm/base/mutex.h"
#include "fsm/rules/instance.h"
#include "storage/rows/feed.h"
#include "storage/store.h"

namespace dfsmr {

// Where the feed of a partition ends.
struct FeedEnd {
  PartitionId partition = 0;
  uint64_t seq = 0;   // its last record
  uint64_t life = 0;  // of the store, as a Cursor has it
};

struct ChangeFilter {
  std::string ns;  // empty: all
  std::string machine;
  std::string instance;
  std::set<ChangeKind> kinds;  // empty: all
  bool dry_run = false;        // with those of dry runs
  bool Matches(const Event& event) const;
  friend bool operator==(const ChangeFilter&, const ChangeFilter&) = default;
};

// How much a portion takes, and how much of the feed is kept in memory.
struct ChangesSizes {
  size_t portion_bytes = 64 << 10;
  size_t portion_scanned = 10'000;
  size_t recent_bytes = 32 << 20;
};

class Changes {
 public:
  using Serialise = std::function<std::string(const Event&, PartitionId)>;
  // One message's worth: serialised changes, and where to go on.
  struct Portion {
    std::vector<std::shared_ptr<const std::string>> changes;
    uint64_t up_to = 0;  // includes all matching records up to this one
    bool at_head = false;

    // What `make` returned for the first caller; `make` is called once for all. Any thread.
    template <typename Make>
    const std::string& Message(Make make) const {
      std::call_once(made_, [&] { message_ = make(); });
      return message_;
    }

   private:
    mutable std::once_flag made_;
    mutable std::string message_;
  };
  using PortionPtr = std::shared_ptr<const Portion>;

  class Watcher {
   public:
    virtual ~Watcher() = default;
    // Something new has been published, or 5 s have passed. Must not block.
    virtual void Wake() = 0;
  };

  // `start` is where the feed ends now. `pool` and `store` must outlive it.
  Changes(const Store& store, FeedEnd start, Pool& pool, Serialise serialise,
          const ChangesSizes& sizes = {});
  ~Changes();

  // One commit's records, in order.
  void Publish(std::shared_ptr<const std::vector<rows::FeedPage>> pages);
  // Retention has dropped the records before `first`.
  void Trim(uint64_t first);
  // For how long there has been a record after `after`, to a tenth of a second, and at least ten
  // minutes back; zero: there is none. Any thread.
  std::chrono::steady_clock::duration LagOf(uint64_t after) const;
  uint64_t head() const { return head_.load(std::memory_order_acquire); }
  PartitionId partition() const { return partition_; }
  // Of a store that has one partition.
  Cursor CursorAt(uint64_t seq) const { return {life_, {seq}}; }

  // The matching changes after `after`, from memory. Null: memory does not hold all of them any
  // more. With `until` UINT64_MAX the watcher follows the feed, and sees it as it was at the last
  // round of wakes, so that many watchers get the same message.
  PortionPtr Read(uint64_t after, uint64_t until, const ChangeFilter& filter);
  // The same from the store. Blocks. OUT_OF_RANGE CURSOR_EXPIRED: retention has dropped some of
  // them; with `from_first` it begins after those.
  Result<PortionPtr> ReadStore(uint64_t after, uint64_t until, const ChangeFilter& filter,
                               bool from_first = false) const;
  // The same of another partition of the store, whose owner cannot be asked: up to where the store
  // has it. Blocks.
  Result<PortionPtr> ReadOther(PartitionId partition, uint64_t after,
                               const ChangeFilter& filter) const;
  Pool& pool() { return pool_; }

  // Wakes `watcher`, which has read up to `after`, once: when there is more to read, or within 5 s.
  // The watcher may be deleted before.
  void WakeLater(std::weak_ptr<Watcher> watcher, uint64_t after);

 private:
  struct Record {
    Event event;
    std::shared_ptr<const std::string> wire;  // made when it is first asked for
  };
  struct Page {
    std::shared_ptr<const rows::FeedPage> encoded;
    std::vector<Record> records;  // decoded when they are first asked for
    size_t bytes = 0;
  };

  struct Shared {
    uint64_t after;
    ChangeFilter filter;
    PortionPtr portion;
  };

  Result<PortionPtr> ReadRows(PartitionId partition, uint64_t first, uint64_t after,
                              uint64_t until, const ChangeFilter& filter) const;
  void Decode(Page* page) REQUIRES(mutex_);
  void DropPage() REQUIRES(mutex_);  // the oldest
  void Pump();

  const ChangesSizes sizes_;
  const Store& store_;
  const PartitionId partition_;
  const uint64_t life_;
  Pool& pool_;
  const Serialise serialise_;
  std::atomic<uint64_t> head_;

  // When records were published, now and then: the first of them, and when that was.
  struct Mark {
    uint64_t first;
    std::chrono::steady_clock::time_point time;
  };
  void SetMark(uint64_t first) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<Mark> marks_ GUARDED(mutex_);
  ConditionVariable published_;
  std::deque<Page> recent_ GUARDED(mutex_);  // consecutive; the last one ends at the head
  size_t recent_bytes_ GUARDED(mutex_) = 0;
  uint64_t shown_ GUARDED(mutex_);             // the end of the feed for watchers that follow it
  std::deque<Shared> shared_ GUARDED(mutex_);  // what was read last
  std::vector<std::weak_ptr<Watcher>> waiting_ GUARDED(mutex_);
  bool news_ GUARDED(mutex_) = false;     // a watcher that waits has not read the head
  bool resting_ GUARDED(mutex_) = false;  // the next round is not due yet
  bool stopped_ GUARDED(mutex_) = false;
  std::thread pump_;
};

}  // namespace dfsmr
