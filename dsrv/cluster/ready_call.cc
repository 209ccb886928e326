#include "dsrv/cluster/ready_call.h"

#include <utility>

#include "dsrv/cluster/give_back.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/wire/checks.h"
#include "fsm/base/limits.h"
#include "fsm/base/reason.h"

namespace dfsmr {

bool ReadyCall::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  return front.Parts() && context.method() == kReadyMethod && !IsInner(context);
}

void ReadyCall::Begin() {
  {
    const Lock lock(mutex_);
    self_ = shared_from_this();
  }
  StartRead(&request_);
}

void ReadyCall::OnReadDone(bool ok) {
  v1::ReadyRequest asked;
  if (!ok || !asked.ParseFromString(ToBytes(request_))) {
    return Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  if (const auto wait = ToDuration("wait", asked.wait(), limits::kWait); !wait) {
    return Finish(Refused(wait.error(), context_));
  }
  origin_ = OriginOf(*context_);
  auto taking = std::make_shared<Taking>(
      front_, origin_, std::move(asked), context_->deadline(),
      [self = shared_from_this()](const Taking::Reply& reply, v1::ReadyResponse taken) {
        self->Take(reply, std::move(taken));
      });
  bool gone = false;
  {
    const Lock lock(mutex_);
    taking_ = taking;
    gone = cancelled_;
  }
  if (gone) taking->Cancel();
  taking->Begin();
}

void ReadyCall::Take(const Taking::Reply& reply, v1::ReadyResponse taken) {
  if (!reply.status.ok()) {
    PassTrailersBack(reply.trailers, context_);
    return Finish(reply.status);
  }
  reply_ = ToBuffer(taken.SerializeAsString());
  {
    const Lock lock(mutex_);
    taken_ = std::move(taken);
  }
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void ReadyCall::OnCancel() {
  std::shared_ptr<Taking> taking;
  {
    const Lock lock(mutex_);
    cancelled_ = true;
    taking = taking_;
  }
  if (taking) taking->Cancel();
}

void ReadyCall::OnDone() {
  std::shared_ptr<ReadyCall> self;  // perhaps the last one
  const Lock lock(mutex_);
  if (context_->IsCancelled()) AskGiveBack(front_, origin_, taken_.tasks(), /*perhaps=*/true);
  self.swap(self_);
}

}  // namespace dfsmr
