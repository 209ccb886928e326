// A call that several partitions have a share in: each is asked for its part, round by round, as
// parted.h says; what goes to the same server goes there in one call. A Report with `next` takes
// tasks beside, where a recent look has found some. Else it then asks for tasks as a Ready does.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/part_call.h"
#include "dsrv/cluster/parted.h"
#include "dsrv/cluster/taking.h"
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
    std::shared_ptr<PartCall> call;
    DirectServices::Reply reply = {};  // without its bytes, but where tasks are taken
  };
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Ask();
  // Where to take tasks beside, each partition as often as it has one to give. Empty: nowhere.
  std::vector<PartitionId> Deal(const std::vector<Question>& questions);
  void Prepare(const std::vector<Question>& questions);
  Asked ToAsked(PartitionId partition, const std::string& method, const std::string& request,
                PartCall::Deadline deadline, size_t number);
  v1::ReadyResponse Taken() REQUIRES(mutex_);
  void Answered(size_t question, DirectServices::Reply reply);
  std::string OwnerOf(PartitionId partition) const;
  void End();
  void AskNext(std::string reply, const v1::ReadyRequest& wanted);
  void TakeNext(const Taking::Reply& next, v1::ReadyResponse taken, const std::string& reply);
  void Refuse(const Error& error);
  void EndAs(const DirectServices::Reply& reply);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string method_;
  std::shared_ptr<Scatter> self_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::unique_ptr<PartedCall> call_;
  std::shared_ptr<const DirectOrigin> origin_;  // of each part
  std::atomic<size_t> left_ = 0;  // questions of the round that are not answered

  Mutex mutex_;
  bool cancelled_ GUARDED(mutex_) = false;
  std::vector<Asked> asked_ GUARDED(mutex_);      // the round
  std::vector<PartitionId> dealt_ GUARDED(mutex_);  // as Deal: then the round is let finish
  size_t questions_ GUARDED(mutex_) = 0;          // of the round; the others take tasks
  std::shared_ptr<Taking> next_ GUARDED(mutex_);  // after the last one
  v1::ReadyResponse tasks_ GUARDED(mutex_);       // that the reply has
};

}  // namespace dfsmr
