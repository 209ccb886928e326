// Triggers as messages. What the engine knows of them is a value by then; the rest is read from one
// moment of the store. The reads block: for the pool.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/wire/moment.h"
#include "storage/rows/trigger.h"

namespace dfsmr {

// `cursor` makes the text of a place in the feed, of these places in those of the partitions.
using CursorOf = std::function<std::string(const std::vector<uint64_t>& seqs)>;
// ENDED: it is retired.
v1::Schedule::State StateOf(const rows::TriggerRow& row);
Result<Ok> ShowTrigger(const Moment& moment, const TriggerView& view, const CursorOf& cursor,
                       v1::Trigger* out);

}  // namespace dfsmr
