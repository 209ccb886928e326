// The graph of one instance, as shown: its nodes, and of a plan its steps. Reads of the store;
// they block: for the pool.
#pragma once

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

// `instance` is one that was read at the same moment.
Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out);

}  // namespace dfsmr
