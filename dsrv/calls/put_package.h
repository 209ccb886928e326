// PutPackage: takes an archive as it comes. It is read and checked in passing, and its pieces are
// written one at a time, of all uploads together, so that others hardly notice.
#pragma once

#include <grpcpp/alarm.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/archive_intake.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/signatures.h"
#include "dsrv/runtime/pool.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// So many uploads at once, the others wait; and one piece at a time is on its way to the store. Any
// thread.
class Uploads {
 public:
  static constexpr size_t kAtOnce = 8;

  // Calls `enter` when there is room: at once, or later from Leave. Returns a number for GiveUp.
  uint64_t Enter(std::function<void()> enter);
  // True: it was still waiting, and `enter` will never be called.
  bool GiveUp(uint64_t number);
  void Leave();

  // Runs `take`, which reads what has come: behind all else that the server does, and not on gRPC's
  // threads, where answers to others would wait for it.
  void Take(std::function<void()> take) { pool_.Post(std::move(take)); }

  // Runs `write`, alone, which calls Written when its piece is durable. Then there is a pause.
  void Write(std::function<void()> write);
  void Written();

 private:
  void WriteNext();

  Mutex mutex_;
  size_t inside_ GUARDED(mutex_) = 0;
  uint64_t next_ GUARDED(mutex_) = 1;
  std::map<uint64_t, std::function<void()>> waiting_ GUARDED(mutex_);
  bool writing_ GUARDED(mutex_) = false;
  std::deque<std::function<void()>> writes_ GUARDED(mutex_);
  std::chrono::steady_clock::time_point began_ GUARDED(mutex_);  // the one that is written
  Pool pool_{1, 10};
};

class PutPackageStream : public Counted<grpc::ServerReadReactor<v1::PutPackageRequest>>,
                         public Revocable {
 public:
  // The stream owns itself until it is done.
  static PutPackageStream* Begin(const Backend& backend, Uploads& uploads,
                                 grpc::CallbackServerContext* context,
                                 v1::PutPackageResponse* reply, const Method& method);

 private:
  PutPackageStream(const Backend& backend, Uploads& uploads, grpc::CallbackServerContext* context,
                   v1::PutPackageResponse* reply)
      : backend_(backend), uploads_(uploads), context_(context), reply_(reply) {}

  void OnReadDone(bool ok) override;
  void OnCancel() override { End({Code::kCancelled, Reason::kNone, "the call was cancelled"}); }
  void OnDone() override;
  void Revoke(const Error& error) override { End(error); }

  // The header, then room for the upload, then the pieces, then what all of it is.
  void TakeHeader();
  Result<Ok> CheckHeader();
  void AwaitRoom();
  void Look(Engine& engine);
  // These bytes are there already: what the header brings of signatures is added.
  void SignKnown(const PackageVersionPtr& version);
  void Read();
  void TakeData();
  Result<Ok> Feed(const std::string& data);
  // Pieces while there are whole ones; then the rest.
  void WriteWhole(std::function<void()> then);
  void WritePiece(std::function<void()> then);
  void Check();
  Result<Ok> CheckWhole();
  rows::PackageVersionRow RowOf(const CheckedPackage& checked);
  void PutTexts(const std::shared_ptr<CheckedPackage>& checked);
  void FinishIn(Engine& engine, const rows::PackageVersionRow& row);
  void ShowAndEnd(const std::string& package, const std::string& version, bool created);

  // In the loop; the call ends when there is no room in the mailbox.
  void Post(size_t bytes, std::function<void(Engine&)> run);
  void EndBadPackage(const std::vector<Diagnostic>& wrong);
  void End(const Error& error);
  void Succeed();
  void Abandon();
  bool Ended();
  bool Counted();  // false: it has ended
  std::shared_ptr<PutPackageStream> self_of();

  const Backend& backend_;
  Uploads& uploads_;
  grpc::CallbackServerContext* const context_;
  v1::PutPackageResponse* const reply_;
  Caller caller_;
  bool entered_ = false;  // through the gate
  bool header_read_ = false;
  uint64_t waiting_ = 0;
  std::unique_ptr<grpc::Alarm> alarm_;
  v1::PutPackageRequest incoming_;
  v1::PutPackageRequest::Header header_;
  std::string ns_;
  GivenSignatures signatures_;
  std::unique_ptr<ArchiveIntake> archive_;
  std::string piece_;
  uint32_t pieces_ = 0;
  std::optional<rows::UploadId> upload_;
  v1::PutPackageResponse made_;

  Mutex mutex_;
  std::shared_ptr<PutPackageStream> self_ GUARDED(mutex_);  // until OnDone
  bool finished_ GUARDED(mutex_) = false;
  bool counted_ GUARDED(mutex_) = false;  // among the uploads
};

}  // namespace dfsmr
