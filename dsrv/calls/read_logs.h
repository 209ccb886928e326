// ReadLogs: sends what a reading of logs gives.
#pragma once

#include <memory>
#include <optional>

#include "dsrv/calls/counted.h"
#include "dsrv/logs/reading.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class ReadLogsStream : public Counted<grpc::ServerWriteReactor<v1::ReadLogsResponse>>,
                       public LogReading::Sink,
                       public Logs::Call,
                       public Revocable {
 public:
  // The stream owns itself until it is done. `caller` is the caller who was admitted, or the
  // refusal.
  static ReadLogsStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                               const Method& method, const Result<Caller>& caller,
                               const v1::ReadLogsRequest& request);

 private:
  ReadLogsStream(const Backend& backend, grpc::CallbackServerContext* context)
      : backend_(backend), context_(context) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override { EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")); }
  void OnDone() override;
  void Send(const v1::ReadLogsResponse& response) override;
  void End(const std::optional<Error>& error) override;
  void Revoke(const Error& error) override { End(error); }
  void Stop() override;

  void EndWith(grpc::Status status);

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  bool entered_ = false;  // through the gate
  std::shared_ptr<LogReading> reading_;
  v1::ReadLogsResponse outgoing_;  // while it is written

  Mutex mutex_;
  std::shared_ptr<ReadLogsStream> self_ GUARDED(mutex_);  // until OnDone
  bool writing_ GUARDED(mutex_) = false;
  bool finished_ GUARDED(mutex_) = false;
  std::optional<grpc::Status> end_ GUARDED(mutex_);
};

}  // namespace dfsmr
