// PeerService.Work: Work or Attach on credit, for a front that shares out what a worker has room
// for among the streams of several partitions.
#pragma once

#include <atomic>

#include "dfsmr/peer.pb.h"
#include "dsrv/calls/attaching.h"
#include "dsrv/calls/work_stream.h"

namespace dfsmr {

class PeerStream final
    : public Counted<grpc::ServerBidiReactor<peer::WorkPart, peer::WorkPartReply>>,
      public WorkStream {
 public:
  using WorkStream::WorkStream;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }
  void ReadNext() override { StartRead(&part_); }
  void WriteNext(const v1::WorkResponse& message) override;
  void EndCall(const grpc::Status& status) override { Finish(status); }
  Result<std::function<void(Engine&)>> TakeRest() override;
  Result<SessionId> OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                           SessionSink sink) override;
  void Heeded(const SessionUpdate& update) override REQUIRES(mutex_);
  StreamEnd EndOf(bool half_closed) const override;
  bool MayWrite() override REQUIRES(mutex_) { return !greets_ || welcomed_; }
  void Welcome(const Agents::Attached& attached);

  peer::WorkPart part_;
  std::atomic<StreamEnd> end_ = StreamEnd::kUnknown;  // as the front has said
  peer::WorkPartReply reply_;  // that is being written

  Attaching attaching_;  // of an agent

  // Guarded by mutex_.
  peer::WorkPartReply next_;  // without its work
  bool greets_ = false;       // it is of an agent
  bool welcomed_ = false;
};

}  // namespace dfsmr
