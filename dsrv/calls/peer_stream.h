// PeerService.Work: Work on credit, for a front that shares out what a worker has room for among the
// streams of several partitions.
#pragma once

#include "dfsmr/peer.pb.h"
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

  peer::WorkPart part_;
  peer::WorkPartReply reply_;  // that is being written

  // Guarded by mutex_.
  peer::WorkPartReply next_;  // without its work
};

}  // namespace dfsmr
