// Attach: the stream of a worker that the server knows by name. It is Work with a name in front,
// orders that are told when they are done, and a sign of life from both sides.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <optional>

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/calls/attaching.h"
#include "dsrv/calls/work_stream.h"
#include "dsrv/engine/agents.h"

namespace dfsmr {

class AttachStream final
    : public Counted<grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder>>,
      public WorkStream {
 public:
  using WorkStream::WorkStream;

 private:
  using Clock = std::chrono::steady_clock;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { Cancelled(); }
  void OnDone() override;
  void ReadNext() override { StartRead(&message_); }
  void WriteNext(const v1::WorkResponse& message) override;
  void EndCall(const grpc::Status& status) override { Finish(status); }
  Result<std::function<void(Engine&)>> TakeRest() override;
  Result<SessionId> OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                           SessionSink sink) override;
  bool MayWrite() override REQUIRES(mutex_) { return welcomed_; }
  void Heeded(const SessionUpdate& update) override REQUIRES(mutex_);

  void Welcome(const Agents::Attached& attached);
  // Every few seconds: gives a sign of life, or ends a stream that has given none.
  void Tick();
  void Arm();

  v1::AgentMessage message_;
  Attaching attaching_;

  // Guarded by mutex_.
  bool welcomed_ = false;
  bool drained_ = false;
  bool over_ = false;
  std::optional<v1::Welcome> welcome_;
  Clock::time_point heard_ = Clock::now();
  v1::AgentOrder order_;
  grpc::Alarm alarm_;
};

}  // namespace dfsmr
