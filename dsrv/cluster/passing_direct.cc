// A call with one request and one reply, for services of this process: past gRPC.
#include <memory>
#include <utility>

#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/passing.h"

namespace dfsmr {

// Who calls is told to the services as Describe does it.
bool Passing::SendDirectly(const Route& route) {
  if (!route.direct || facts_.many_requests || facts_.many_replies || !first_) return false;
  const Metadata& metadata = context_->client_metadata();
  auto origin = std::make_shared<const DirectOrigin>(
      DirectOrigin::Told{.peer = origin_.peer,
                         .bearer = BearerOf(metadata),
                         .certificate = origin_.certificate,
                         .door = origin_.door,
                         .request_id = origin_.request_id,
                         .besides = origin_.namespaces,
                         .traceparent = ValueOf(metadata, "traceparent")});
  direct_ = std::make_shared<PartCall>(
      front_, std::move(origin),
      PartCall::Ask{.partition = partition_,
                    .method = method_,
                    .request = ToBytes(*first_),
                    .deadline = context_->deadline()},
      [self = self_](DirectServices::Reply reply) { self->TakeDirect(std::move(reply)); });
  if (direct_->BeginDirectly()) {
    unsent_.clear();
    return true;
  }
  direct_.reset();
  return false;
}

void Passing::TakeDirect(DirectServices::Reply reply) {
  const Lock lock(mutex_);
  direct_.reset();
  if (finished_ || end_) return;
  if (!reply.let_in && !cancelled_) return AskAgain();
  PassTrailersBack(reply.trailers, context_);
  if (reply.status.ok()) {
    reply_ = ToBuffer(reply.bytes);
    have_reply_ = true;
  }
  Finish(reply.status);
}

}  // namespace dfsmr
