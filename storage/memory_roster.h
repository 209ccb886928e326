// The roster without a database: for tests and the simulator. Servers that share one object share a
// cluster. It keeps the whole contract of roster.h; its clock stands until it is set.
#pragma once

#include <map>
#include <string>

#include "fsm/base/mutex.h"
#include "storage/roster.h"

namespace dfsmr {

// Any thread.
class MemoryRoster : public Roster {
 public:
  explicit MemoryRoster(Timestamp now = FromMicros(1'000'000'000'000'000)) : now_(now) {}

  Result<ClusterRow> Open(uint16_t partitions) override;
  StoreFacts Facts() const override { return {"memory", "", "single"}; }
  Result<Ok> Join(const ServerRow& self, const std::vector<std::string>& before) override;
  Result<Seen> Renew(const std::string& self, bool reached, bool leaving) override;
  Result<bool> Bury(const std::string& server) override;
  Result<std::optional<Holding>> Take(const PartRow& seen, const std::string& self) override;
  Result<bool> Give(PartitionId partition, Epoch epoch, const std::string& self,
                    const std::string& server) override;
  Result<Ok> Leave(const std::string& self) override;
  Result<Ok> Raise(uint32_t level) override;

  // What a store with a fence does first in each commit: `held` is as before the commit, and `feed`
  // as after it. kAborted: the partition has another epoch, and nothing was changed. Another seq
  // under the same epoch breaks an invariant.
  Result<Ok> Commit(PartitionId partition, const Holding& held, uint64_t feed);

  // The clock of the store. It may go backwards, too.
  void SetClock(Timestamp now);
  Timestamp clock() const;

 private:
  ServerRow* Alive(const std::string& id) REQUIRES(mutex_);
  // Null: there is none.
  PartRow* Part(PartitionId partition) REQUIRES(mutex_);

  mutable Mutex mutex_;
  Timestamp now_ GUARDED(mutex_);
  std::optional<ClusterRow> cluster_ GUARDED(mutex_);
  std::map<std::string, ServerRow> servers_ GUARDED(mutex_);
  std::vector<PartRow> parts_ GUARDED(mutex_);
};

}  // namespace dfsmr
