#include "storage/rocks/reclaimer.h"

#include <rocksdb/db.h>

namespace dfsmr {
namespace {

constexpr uint64_t kWorthwhile = 1 << 20;  // bytes, that a merge of tables is worth
constexpr size_t kWaiting = 10'000;        // ranges; what is more than that waits for merges

}  // namespace

Reclaimer::Reclaimer(rocksdb::DB& db) : db_(db), thread_([this] { Run(); }) {}

Reclaimer::~Reclaimer() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void Reclaimer::Add(std::string begin, std::string end) {
  {
    const Lock lock(mutex_);
    if (deleted_.size() == kWaiting) return;
    deleted_.emplace_back(std::move(begin), std::move(end));
  }
  changed_.NotifyOne();
}

void Reclaimer::Run() {
  Lock lock(mutex_);
  while (true) {
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !deleted_.empty(); });
    if (ended_) return;
    const Keys keys = std::move(deleted_.front());
    deleted_.pop_front();
    lock.Unlock();
    Reclaim(keys);
    lock.Relock();
  }
}

// Rows that are in memory only are in the log, too, which goes when they are written to tables.
void Reclaimer::Reclaim(const Keys& keys) {
  rocksdb::SizeApproximationOptions sizes;
  sizes.include_memtables = true;
  const rocksdb::Range range(keys.first, keys.second);
  uint64_t bytes = 0;
  const auto known =
      db_.GetApproximateSizes(sizes, db_.DefaultColumnFamily(), &range, 1, &bytes);
  if (!known.ok() || bytes < kWorthwhile) return;
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;  // other merges go on
  options.canceled = &ended_;
  const rocksdb::Slice begin(keys.first);
  const rocksdb::Slice end(keys.second);
  // When it fails the disk has a problem that the next write meets, too.
  (void)db_.CompactRange(options, &begin, &end);
}

}  // namespace dfsmr
