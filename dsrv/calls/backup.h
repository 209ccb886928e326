// Backup: takes a copy of the store and sends it as one stream.
#pragma once

#include <memory>
#include <string>

#include "dfsmr/v1/admin.pb.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/method.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class BackupStream : public Counted<grpc::ServerWriteReactor<v1::BackupResponse>>,
                     public Revocable {
 public:
  // The stream owns itself until it is done. `caller` is the caller who was admitted, or the
  // refusal.
  static BackupStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                             const Method& method, const Result<Caller>& caller);

 private:
  BackupStream(const Backend& backend, grpc::CallbackServerContext* context)
      : backend_(backend), context_(context) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override { End({Code::kCancelled, Reason::kNone, "the call was cancelled"}); }
  void OnDone() override;
  void Revoke(const Error& error) override { End(error); }

  // In a thread of its own.
  void Run();
  Result<Ok> SendAll();
  Result<Ok> Send(std::string_view bytes, uint64_t size);
  void End(const Error& error);
  bool Over();

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;
  bool entered_ = false;
  v1::BackupResponse outgoing_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<BackupStream> self_ GUARDED(mutex_);
  bool writing_ GUARDED(mutex_) = false;
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
