// The feed of servers that share a store, also as the original service tells it, as one stream:
// one stream of each partition, asked through the front, and their messages as they come, each with
// a cursor for all. A stream that ends with its owner is opened anew where it was, so the whole
// goes on. While an owner cannot be reached from here, what it has written is read from the store,
// once a second or so.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/feed/cursor.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Feeds final : public grpc::ServerGenericBidiReactor,
                    public std::enable_shared_from_this<Feeds> {
 public:
  // Whether a call is such a one: it comes from a client, and is asked in parts (Front::Parts).
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Feeds(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context), original_(IsOriginal(*context)) {}
  void Begin();

 private:
  class Source;  // of one partition
  using SourcePtr = std::shared_ptr<Source>;

  static bool IsOriginal(const grpc::GenericCallbackServerContext& context);
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Where it goes on, by its request; an error: there is no such place.
  Result<Ok> FindPlace() REQUIRES(mutex_);
  void Open(PartitionId partition) REQUIRES(mutex_);
  void OpenLater(PartitionId partition) REQUIRES(mutex_);
  void ReadStored(PartitionId partition) REQUIRES(mutex_);
  // What comes from a source.
  void Take(const SourcePtr& from, grpc::ByteBuffer message);
  void TakeEnd(const SourcePtr& from, const grpc::Status& status);
  void TakeStored(const SourcePtr& from, const grpc::Status& status, const std::string& reply);
  void GoOn(const SourcePtr& from) REQUIRES(mutex_);

  Result<Ok> ReadRequest() REQUIRES(mutex_);
  void TakePlace(const Source& from) REQUIRES(mutex_);
  // What the message says goes into `out_`.
  void Tell(std::string message) REQUIRES(mutex_);
  void Step() REQUIRES(mutex_);
  bool Placed() const REQUIRES(mutex_);
  void End(const grpc::Status& status) REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const bool original_;
  grpc::ByteBuffer request_;
  v1::ChangesRequest asked_;

  Mutex mutex_;
  std::shared_ptr<Feeds> self_ GUARDED(mutex_);
  Cursor at_ GUARDED(mutex_);                    // what has been told
  std::vector<bool> known_ GUARDED(mutex_);      // of it, by partition
  std::vector<SourcePtr> sources_ GUARDED(mutex_);  // by partition; null: it is not read, or done
  std::deque<SourcePtr> ready_ GUARDED(mutex_);     // have a message
  // Of an instance: home's part of what is told of it comes first, then this partition's.
  std::optional<PartitionId> then_ GUARDED(mutex_);
  size_t left_ GUARDED(mutex_) = 0;                 // partitions that have not ended
  std::deque<std::string> out_ GUARDED(mutex_);     // to be written
  grpc::ByteBuffer reply_;
  bool writing_ GUARDED(mutex_) = false;
  bool told_ GUARDED(mutex_) = false;  // any message
  std::chrono::steady_clock::time_point last_told_ GUARDED(mutex_);
  bool cancelled_ GUARDED(mutex_) = false;
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
