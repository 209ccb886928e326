// The partitions of a shared store that this server serves: for each what decides for it, and its
// services in a gRPC server within the process, which the front passes calls on to.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dsrv/runtime/pool.h"
#include "dsrv/served.h"
#include "fsm/base/mutex.h"
#include "storage/roster.h"

namespace dfsmr {

// Any thread.
class Partitions {
 public:
  // Of one that is served.
  struct Part {
    PartitionId id = kHome;
    std::shared_ptr<Served> served;
    std::shared_ptr<grpc::GenericStub> inside;  // the way to its services
  };
  struct Outside {
    // Reads what is in the partition. Several threads at a time.
    std::function<Result<std::unique_ptr<Served>>(const PartRow& mine)> open;
    // It is served from now on.
    std::function<void(const Part& part)> serves;
    // It could not be read.
    std::function<void(const Error& error)> fail;
  };
  explicit Partitions(Outside outside) : outside_(std::move(outside)) {}

  // This server owns the partition: it is opened, some at a time, and then served. Does not wait.
  void Take(const PartRow& mine);
  // Has those that are served adopt what home, which is served here or elsewhere, has changed. What
  // is being opened adopts it before it is served.
  void Adopt(const std::string& ns, std::function<void(bool done)> done);
  // From now on what is being opened is forgotten.
  void Close();
  // Waits while the partition is being opened, and may be written; but not longer than `until`.
  void AwaitOpening(PartitionId id, std::chrono::steady_clock::time_point until);

  // Null: it is not served, or not yet.
  std::shared_ptr<Served> Find(PartitionId id) const;
  std::vector<Part> All() const;
  // Lets go of one that has stopped. Does not wait for who still looks at it.
  void Drop(PartitionId id);

 private:
  struct Entry {
    Part part;
    std::unique_ptr<grpc::Server> server;
  };
  void Open(const PartRow& mine);
  void AdoptFirst(const Part& part);

  const Outside outside_;
  mutable Mutex mutex_;
  std::map<PartitionId, Entry> entries_ GUARDED(mutex_);
  uint64_t adoptions_ GUARDED(mutex_) = 0;  // that were asked for
  bool closed_ GUARDED(mutex_) = false;
  std::multiset<PartitionId> opening_ GUARDED(mutex_);
  ConditionVariable opened_;
  Pool openers_{2};
};

}  // namespace dfsmr
