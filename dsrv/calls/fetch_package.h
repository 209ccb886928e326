// FetchPackage: sends an archive, or a file of it, piece by piece from one moment of the store.
#pragma once

#include <memory>
#include <string>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/method.h"
#include "dsrv/engine/package_views.h"
#include "fsm/base/mutex.h"
#include "storage/rows/package.h"

namespace dfsmr {

class FetchPackageStream : public Counted<grpc::ServerWriteReactor<v1::FetchPackageResponse>>,
                           public Revocable {
 public:
  // The stream owns itself until it is done. `caller` is the caller who was admitted, or the
  // refusal.
  static FetchPackageStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                   const Method& method, const Result<Caller>& caller,
                                   const v1::FetchPackageRequest& request);

 private:
  FetchPackageStream(const Backend& backend, grpc::CallbackServerContext* context,
                     const v1::FetchPackageRequest& request)
      : backend_(backend), context_(context), request_(request) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override { End({Code::kCancelled, Reason::kNone, "the call was cancelled"}); }
  void OnDone() override;
  void Revoke(const Error& error) override { End(error); }

  void Find(Engine& engine);
  // In the pool.
  void Open();
  Result<Ok> Place();
  Result<std::string> PieceOf(uint32_t number);
  Result<std::string> PieceAt();  // where it is now
  void SendNext();
  void End(const Error& error);
  void EndWith(grpc::Status status);
  bool Ended();
  std::shared_ptr<FetchPackageStream> self_of();

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  const v1::FetchPackageRequest request_;
  std::string ns_;
  Caller caller_;
  bool entered_ = false;
  std::string package_;
  std::string version_;
  PackageStanding standing_;
  rows::PackageVersionRow row_;
  uint64_t at_ = 0;   // in the archive
  uint64_t end_ = 0;  // of what is asked for
  uint64_t piece_bytes_ = 0;  // of each piece but the last; 0: not known yet
  bool first_ = true;
  v1::FetchPackageResponse outgoing_;

  Mutex mutex_;
  std::shared_ptr<FetchPackageStream> self_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
