// What a start reads of the instances that live.
#pragma once

#include <functional>
#include <string_view>

#include "storage/rows/instance.h"

namespace dfsmr::rows {

// All that live, for a start: millions of them in seconds. Most are of a plain machine, stand on
// one node unclaimed or are yet to start, and are told as they lie in the store; the others in
// full.
struct Resting {
  std::string_view ns;
  std::string_view id;
  std::string_view machine;
  uint32_t version = 0;
  InstanceState state = InstanceState::kNone;
  int32_t priority = 0;
  Timestamp start_at;
  std::string_view node;  // empty: it has not begun
  uint64_t visit = 0;
  TokenState token = TokenState::kNone;
  Timestamp available_at = kNever;
};
Result<Ok> ScanLive(const Reader& reader, const Resolve& resolve,
                    const std::function<Result<Ok>(const Resting&)>& visit,
                    const std::function<Result<Ok>(Instance)>& visit_other);

}  // namespace dfsmr::rows
