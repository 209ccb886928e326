// A call that several partitions have a share in: each is asked through the front by a call of its
// own, round by round, as parted.h says. A Report with `next` then asks for tasks as a Ready does.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/parted.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Scatter final : public grpc::ServerGenericBidiReactor,
                      public std::enable_shared_from_this<Scatter> {
 public:
  // Whether a call is to be scattered: it comes from a client, and there are several partitions.
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Scatter(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context), method_(context->method()) {
    front_.EnterParted();
  }
  ~Scatter() override { front_.LeaveParted(); }
  void Begin();

 private:
  struct Asked {
    PartitionId partition = 0;
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Ask();
  std::vector<Asked*> Prepare(const std::vector<Question>& questions);
  void Describe(const Question& question, grpc::ClientContext* context) const;
  void Answered(size_t question, Asked* asked, const grpc::Status& status);
  std::string OwnerOf(PartitionId partition) const;
  void End();
  void AskNext(std::string reply, const std::string& next);
  void TakeNext(const Asked& asked, const std::string& reply);
  void Refuse(const Error& error);
  void EndAs(const Asked& asked);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string method_;
  std::shared_ptr<Scatter> self_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::unique_ptr<PartedCall> call_;
  std::string namespaces_;        // that each part enters, too
  std::atomic<size_t> left_ = 0;  // questions of the round that are not answered

  Mutex mutex_;
  bool cancelled_ GUARDED(mutex_) = false;
  std::vector<std::unique_ptr<Asked>> asked_ GUARDED(mutex_);  // the round
  v1::ReadyResponse tasks_ GUARDED(mutex_);                    // that the reply has
};

}  // namespace dfsmr
