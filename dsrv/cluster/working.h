// A Work stream for a store of several partitions: one stream on credit of each, asked through the
// front, which share what the worker has room for. Reports go to the partition of their instance,
// and their results come back in order. A stream that ends with its owner is opened anew; the
// worker's own goes on.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/in_order.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Working final : public grpc::ServerGenericBidiReactor,
                      public std::enable_shared_from_this<Working> {
 public:
  // Whether a call is such a one: it comes from a client, and there are several partitions.
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Working(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context) {}
  void Begin();

 private:
  class Part;  // the stream of one partition
  using PartPtr = std::shared_ptr<Part>;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // The worker's messages.
  void ReadOn() REQUIRES(mutex_);
  void Take(v1::WorkRequest message) REQUIRES(mutex_);
  void Open(const v1::ReadyRequest& open) REQUIRES(mutex_);
  void Share(v1::WorkRequest message) REQUIRES(mutex_);
  PartitionId PlaceOf(const std::string& ns, const std::string& instance) const REQUIRES(mutex_);
  void OpenPart(PartitionId partition) REQUIRES(mutex_);

  // What comes from a part.
  void TakeReply(const PartPtr& from, peer::WorkPartReply reply);
  void TakeEnd(const PartPtr& from, const grpc::Status& status);
  void LosePart(Part& part) REQUIRES(mutex_);

  // Shares out the room that is left.
  size_t Room() const REQUIRES(mutex_);
  void Deal() REQUIRES(mutex_);

  void WriteOn() REQUIRES(mutex_);
  void Fail(const grpc::Status& status, const Part* of) REQUIRES(mutex_);
  void End(const grpc::Status& status) REQUIRES(mutex_);
  void GiveBack(const v1::WorkResponse& unsent, bool perhaps) REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  Mutex mutex_;
  std::shared_ptr<Working> self_ GUARDED(mutex_);
  std::optional<v1::ReadyRequest> open_ GUARDED(mutex_);
  size_t most_ GUARDED(mutex_) = 1;              // tasks in hand
  std::vector<PartPtr> parts_ GUARDED(mutex_);   // by partition; null: it is being opened anew
  std::vector<std::set<std::string>> given_ GUARDED(mutex_);  // claims of tasks, by partition
  InOrder<v1::TransitionResult> results_ GUARDED(mutex_);
  InOrder<v1::ExtendResponse::Item> extended_ GUARDED(mutex_);
  v1::WorkResponse next_ GUARDED(mutex_);     // to be written, without results and extended
  v1::WorkResponse writing_ GUARDED(mutex_);  // is being written
  bool busy_ GUARDED(mutex_) = false;         // a message is being written
  bool reading_ GUARDED(mutex_) = false;
  bool read_all_ GUARDED(mutex_) = false;  // the worker has half-closed
  bool drains_ GUARDED(mutex_) = false;
  bool full_ GUARDED(mutex_) = false;  // there was no room when levels were told last
  size_t open_parts_ GUARDED(mutex_) = 0;  // that have not ended well
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
