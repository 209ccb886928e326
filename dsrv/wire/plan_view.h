// The graph of one instance as clients see it: its nodes and, for a plan, its steps. Reads the
// store, which blocks: call it in the pool.
#pragma once

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

// `instance` was read at `moment`.
Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out);

}  // namespace dfsmr
