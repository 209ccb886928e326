// An AppendLogs stream for a store of several partitions: a stream of each that has some of its
// instances, asked through the front, by what log_shares.h says. One that ends because its partition
// changes hands is opened anew, and told again what it has not answered; the agent's own goes on.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/log_shares.h"
#include "dsrv/cluster/part_stream.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Appending final : public grpc::ServerGenericBidiReactor,
                        public PartStream::Whole,
                        public std::enable_shared_from_this<Appending> {
 public:
  // Whether a call is such a one: it comes from a client, and there are several partitions.
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Appending(Front& front, grpc::GenericCallbackServerContext* context);
  void Begin();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  Mutex& mutex() override { return mutex_; }
  void TakeReply(const PartStream::Ptr& from, const std::string& bytes) override;
  void TakeEnd(const PartStream::Ptr& from, const grpc::Status& status) override;

  // Says and reads what there is to say and to read, or ends. Call it when anything has changed.
  void GoOn() REQUIRES(mutex_);
  void SayTo(PartitionId partition) REQUIRES(mutex_);
  void Open(PartitionId partition) REQUIRES(mutex_);
  void SayLater(PartitionId partition) REQUIRES(mutex_);
  void End(const grpc::Status& status) REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  Mutex mutex_;
  std::shared_ptr<Appending> self_ GUARDED(mutex_);
  LogShares shares_ GUARDED(mutex_);
  // By partition; null: there is nothing to say, or not for a moment.
  std::vector<PartStream::Ptr> parts_ GUARDED(mutex_);
  std::vector<bool> rests_ GUARDED(mutex_);  // by partition: its stream is opened anew in a moment
  bool reading_ GUARDED(mutex_) = false;
  bool read_all_ GUARDED(mutex_) = false;
  bool writing_ GUARDED(mutex_) = false;
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
