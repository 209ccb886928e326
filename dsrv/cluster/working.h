// A Work or Attach stream for a store of several partitions: one stream on credit of each, asked
// through the front, which share what the worker has room for (sharing.h). A stream that ends
// because its partition changes hands is opened anew; the worker's own goes on.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/part_stream.h"
#include "dsrv/cluster/sharing.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Working final : public grpc::ServerGenericBidiReactor,
                      public PartStream::Whole,
                      public Stoppable,
                      public std::enable_shared_from_this<Working> {
 public:
  // Whether a call is such a one: it comes from a client, and is asked in parts (Front::Parts).
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Working(Front& front, grpc::GenericCallbackServerContext* context);
  void Begin();
  // It ends if the worker has nothing in hand.
  void Stop() override;

 private:
  using PartPtr = PartStream::Ptr;
  using Time = Sharing::Time;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // From the worker.
  bool MayEnd() const REQUIRES(mutex_);  // when the server stops
  void ReadOn() REQUIRES(mutex_);
  Result<Ok> Take() REQUIRES(mutex_);  // what was read
  void OpenSome() REQUIRES(mutex_);
  // Of an agent, every few seconds: gives a sign of life, or ends a stream that has given none.
  void Tick();

  // The partitions' streams.
  void Open(PartitionId partition) REQUIRES(mutex_);
  void OpenLater(PartitionId partition) REQUIRES(mutex_);
  Mutex& mutex() override { return mutex_; }
  static void Say(PartStream& part, const peer::WorkPart& message);
  void TakeReply(const PartPtr& from, const std::string& bytes) override;
  void TakeEnd(const PartPtr& from, const grpc::Status& status) override;
  void GoOn(const PartPtr& from, const grpc::Status& status) REQUIRES(mutex_);

  // Tells everybody what there is to tell. Call it when anything has changed.
  void TellAll() REQUIRES(mutex_);
  void DealAt(Time time) REQUIRES(mutex_);
  void WriteOn() REQUIRES(mutex_);
  // What the worker is told next; nullopt: nothing.
  std::optional<std::string> NextMessage() REQUIRES(mutex_);

  // How it ends.
  void Refuse(const Error& error) REQUIRES(mutex_);
  void Fail(const grpc::Status& status, const PartStream& of) REQUIRES(mutex_);
  // `of`: as the partitions are told; GOES_ON: nothing, and what the worker has it keeps.
  void End(const grpc::Status& status, peer::WorkPart::End of) REQUIRES(mutex_);
  void GiveBack(PartitionId partition, const peer::WorkPart& last) REQUIRES(mutex_);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const bool of_agent_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;

  Mutex mutex_;
  std::shared_ptr<Working> self_ GUARDED(mutex_);
  Sharing sharing_ GUARDED(mutex_);
  // By partition; null: it is not open yet or for a moment, or has ended.
  std::vector<PartPtr> parts_ GUARDED(mutex_);
  bool opened_ GUARDED(mutex_) = false;  // all
  size_t left_ GUARDED(mutex_) = 0;             // partitions whose stream has not ended well
  std::optional<Time> deals_at_ GUARDED(mutex_);
  v1::WorkResponse writing_ GUARDED(mutex_);
  bool busy_ GUARDED(mutex_) = false;  // a message is being written
  bool reading_ GUARDED(mutex_) = false;
  bool read_all_ GUARDED(mutex_) = false;
  Time heard_ GUARDED(mutex_);          // a message of the worker
  bool touched_ GUARDED(mutex_) = false;  // an agent is to be told something
  bool gone_ GUARDED(mutex_) = false;     // the worker is: it is told nothing more
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
  bool done_ GUARDED(mutex_) = false;  // gRPC is, with the call: `context_` is gone
};

}  // namespace dfsmr
