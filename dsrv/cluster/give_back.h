// Tasks that were handed out, and did not reach their worker: they go back, and others get them.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <memory>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/part_call.h"
#include "storage/store.h"

namespace dfsmr {

// Has a partition take them back. Nobody waits for it.
void AskGiveBack(Front& front, std::shared_ptr<const DirectOrigin> origin, PartitionId partition,
                 const peer::GiveBackRequest& request);
// The same of tasks of all partitions. `perhaps`: they may have reached it.
void AskGiveBack(Front& front, const std::shared_ptr<const DirectOrigin>& origin,
                 const google::protobuf::RepeatedPtrField<v1::Task>& tasks, bool perhaps);

}  // namespace dfsmr
