// The graph of one instance, as shown: its nodes, and of a plan its steps. Reads of the store;
// they block: for the pool.
#pragma once

#include "dsrv/engine/engine.h"
#include "dsrv/wire/convert.h"

namespace dfsmr {

Result<Ok> ShowNodes(const Engine& engine, const Instance& instance, v1::Instance* out);

}  // namespace dfsmr
