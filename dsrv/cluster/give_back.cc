#include "dsrv/cluster/give_back.h"

#include <chrono>
#include <map>
#include <utility>

#include "dsrv/cluster/front.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr const char* kGiveBack = "/dfsmr.peer.PeerService/GiveBack";
constexpr std::chrono::seconds kGivesBackWithin{5};

}  // namespace

void AskGiveBack(Front& front, std::shared_ptr<const DirectOrigin> origin, PartitionId partition,
                 const peer::GiveBackRequest& request) {
  const auto call = std::make_shared<PartCall>(
      front, std::move(origin),
      PartCall::Ask{.partition = partition,
                    .method = kGiveBack,
                    .request = request.SerializeAsString(),
                    .deadline = std::chrono::system_clock::now() + kGivesBackWithin},
      [](const DirectServices::Reply&) {});
  call->Begin();
}

void AskGiveBack(Front& front, const std::shared_ptr<const DirectOrigin>& origin,
                 const google::protobuf::RepeatedPtrField<v1::Task>& tasks, bool perhaps) {
  std::map<PartitionId, peer::GiveBackRequest> requests;
  for (const v1::Task& task : tasks) {
    const PartitionId of =
        PartitionOf(task.namespace_(), task.instance(), front.outside().partitions);
    peer::GiveBackRequest& request = requests[of];
    request.set_namespace_(task.namespace_());
    request.set_perhaps(perhaps);
    peer::Claim& claim = *request.add_tasks();
    claim.set_instance(task.instance());
    claim.set_claim(task.claim());
  }
  for (const auto& [of, request] : requests) AskGiveBack(front, origin, of, request);
}

}  // namespace dfsmr
