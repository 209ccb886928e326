// Carries messages between partitions. What a partition has for another one is fetched once it is
// durable, delivered there, and told back as applied, one portion at a time for each pair. What is
// lost on the way is sent again, from the first that is not known to be applied.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "dsrv/engine/outgoing.h"
#include "dsrv/loop/loop.h"
#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

// Any thread.
class Carrier {
 public:
  // Some messages of one partition to another, in order and without gaps.
  struct Portion {
    PartitionId from = 0;
    PartitionId to = 0;
    std::vector<Outgoing::Numbered> messages;
  };
  // All up to this number are applied, durably; nullopt: nobody knows.
  using Told = std::function<void(std::optional<uint64_t> up_to)>;
  // Has the partition apply a portion, wherever it is. `told` is called once, from any thread,
  // perhaps at once.
  using Deliver = std::function<void(Portion portion, Told told)>;

  explicit Carrier(Deliver deliver);
  // `told` is not called any more.
  ~Carrier();

  // From now on what waits in this partition is carried. Both outlive Leave.
  void Join(PartitionId from, std::shared_ptr<Outgoing> outgoing, Loop& loop);
  // From now on nobody looks at the partition, its loop or its store.
  void Leave(PartitionId from);
  // How many messages of those that have joined are not known to be applied.
  uint64_t waiting() const;
  // The same of one partition.
  uint64_t waiting(PartitionId from) const;

  // Has the loop of its partition apply a portion.
  static void Take(Loop& loop, Portion portion, Told told);

 private:
  using Moment = std::chrono::steady_clock::time_point;

  // What one partition has for another.
  struct Way {
    uint64_t applied = 0;
    bool under_way = false;  // a portion, or it is being fetched
    bool more = false;       // has come meanwhile
    std::chrono::milliseconds pause{0};  // before the next try
  };
  struct Sender {
    PartitionId from = 0;
    std::shared_ptr<Outgoing> outgoing;
    Loop& loop;
    std::map<PartitionId, Way> ways;
  };
  using SenderPtr = std::shared_ptr<Sender>;
  // Who has something for whom, when its time has come.
  struct Due {
    std::weak_ptr<Sender> sender;
    PartitionId to = 0;
  };

  void Wake(const std::weak_ptr<Sender>& sender, PartitionId to);
  void Queue(const SenderPtr& sender, PartitionId to, Moment when) REQUIRES(mutex_);
  void Work();
  void Carry(const SenderPtr& sender, PartitionId to, uint64_t after);
  void Hear(const std::weak_ptr<Sender>& sender, PartitionId to, std::optional<uint64_t> up_to);
  // The sender, while it has joined; null: it has left.
  SenderPtr Find(const std::weak_ptr<Sender>& sender) const REQUIRES(mutex_);

  const Deliver deliver_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<PartitionId, SenderPtr> senders_ GUARDED(mutex_);
  std::multimap<Moment, Due> due_ GUARDED(mutex_);
  SenderPtr read_ GUARDED(mutex_);  // whose store the thread looks at
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
