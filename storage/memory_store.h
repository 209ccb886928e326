// The store without a disk: for tests, the simulator, and servers that may lose everything when
// they stop. It keeps the whole contract of store.h; "durable" means until the object dies.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "storage/store.h"

namespace dfsmr {

// A scan makes all other threads wait until it ends. Its `visit` may Get and Scan, but not Write.
// A snapshot costs nothing by itself, but the next write while it lives copies all rows.
class MemoryStore : public Store {
 public:
  std::unique_ptr<const View> Snapshot() const override;
  Result<Epoch> Acquire(PartitionId partition) override;
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override;

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;
  class Moment;

  void Apply(const Batch::Operation& operation);

  mutable std::recursive_mutex mutex_;  // recursive: a scan's visitor may read
  mutable int scans_ = 0;               // under way, nested ones included
  // Shared with snapshots, which take and drop their reference under the mutex. A write copies the
  // rows first when they are shared, so a snapshot's rows do not change.
  std::shared_ptr<Rows> rows_ = std::make_shared<Rows>();
  std::map<PartitionId, Epoch> epochs_;
};

}  // namespace dfsmr
