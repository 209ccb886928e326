// AppendLogs: a stream that takes lines of logs and answers each request. It reads bytes; the
// thread that writes logs makes messages of them, so that gRPC's threads do not.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "dsrv/calls/counted.h"
#include "dsrv/logs/intake.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class AppendLogsStream
    : public Counted<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>,
      public LogIntake::Sink,
      public Logs::Sender,
      public Revocable {
 public:
  // The stream owns itself until it is done.
  static AppendLogsStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                 const Method& method);

 private:
  AppendLogsStream(const Backend& backend, grpc::CallbackServerContext* context)
      : backend_(backend), context_(context) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Answer(const v1::AppendLogsResponse& response) override;
  void Refuse(const Error& error) override { EndWith(error); }
  void Revoke(const Error& error) override { EndWith(error); }
  void Resume() override;
  void Stop() override;

  void EndWith(const Error& error);
  void GoOn() REQUIRES(mutex_);  // reads, writes, or ends the stream

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  bool entered_ = false;  // through the gate
  std::shared_ptr<LogIntake> intake_;
  grpc::ByteBuffer incoming_;  // the reader's, while a read is under way

  Mutex mutex_;
  std::shared_ptr<AppendLogsStream> self_ GUARDED(mutex_);  // until OnDone
  std::deque<grpc::ByteBuffer> answers_ GUARDED(mutex_);    // the first is being written
  size_t unanswered_ GUARDED(mutex_) = 0;
  bool reading_ GUARDED(mutex_) = true;  // a read is under way, or must not begin
  bool read_all_ GUARDED(mutex_) = false;
  bool writing_ GUARDED(mutex_) = false;
  bool finished_ GUARDED(mutex_) = false;
  std::optional<grpc::Status> end_ GUARDED(mutex_);
};

}  // namespace dfsmr
