// Gives back to the disk what deleted ranges took. RocksDB only marks them, and their bytes go when
// their tables happen to be merged: of a range that nobody writes in again, perhaps never.
#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "fsm/base/mutex.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace dfsmr {

class Reclaimer {
 public:
  explicit Reclaimer(rocksdb::DB& db);
  // Leaves what it has not come to.
  ~Reclaimer();

  // The keys from `begin` to before `end` were deleted. Any thread; in the background what there is
  // of them is merged away, where it is worth that.
  void Add(std::string begin, std::string end);

 private:
  using Keys = std::pair<std::string, std::string>;  // the first one, and the first one after them

  void Run();
  void Reclaim(const Keys& keys);

  rocksdb::DB& db_;
  std::atomic<bool> ended_ = false;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Keys> deleted_ GUARDED(mutex_);
  std::thread thread_;
};

}  // namespace dfsmr
