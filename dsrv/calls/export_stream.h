// ExportNamespace: sends the files of a namespace, one piece at a time.
#pragma once

#include <memory>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/export.h"
#include "dsrv/calls/method.h"
#include "dsrv/engine/live_count.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class ExportStream : public Counted<grpc::ServerWriteReactor<v1::ExportItem>>,
                     public Revocable,
                     public std::enable_shared_from_this<ExportStream> {
 public:
  // The stream owns itself until it is done. `caller` is the caller who was admitted, or the
  // refusal.
  static ExportStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                             const Method& method, const Result<Caller>& caller,
                             const v1::ExportNamespaceRequest& request);

 private:
  ExportStream(const Backend& backend, grpc::CallbackServerContext* context)
      : backend_(backend), context_(context) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override { End({Code::kCancelled, Reason::kNone, "the call was cancelled"}); }
  void OnDone() override;
  void Revoke(const Error& error) override { End(error); }

  void Begin(const LiveCounts& elsewhere);
  void Look(Engine& engine, const LiveCounts& elsewhere);
  // In the pool.
  void Open();
  void SendNext();
  void End(const Error& error);
  void EndWith(grpc::Status status);
  bool Ended();

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;
  bool entered_ = false;
  ExportArgs args_;
  ExportStanding standing_;
  std::unique_ptr<Export> export_;
  v1::ExportItem outgoing_;

  Mutex mutex_;
  std::shared_ptr<ExportStream> self_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
