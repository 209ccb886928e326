// Reading the live instances when a server starts.
#pragma once

#include <functional>
#include <string_view>

#include "storage/rows/instance.h"

namespace dfsmr::rows {

// An instance of a plain machine that rests: it stands on one node without a claim, or has not
// started yet. The texts point into its row.
struct Resting {
  std::string_view ns;
  std::string_view id;
  std::string_view machine;
  uint32_t version = 0;
  InstanceState state = InstanceState::kNone;
  int32_t priority = 0;
  Timestamp start_time;
  Timestamp start_at;
  std::string_view node;  // empty: it has not begun
  uint64_t visit = 0;
  TokenState token = TokenState::kNone;
  Timestamp available_at = kNever;
};
// Visits all instances that have not stopped: millions of them in seconds, since most rest and are
// passed to `visit` without being decoded in full. The others go to `visit_other`. The first error
// of either ends the scan and is returned.
Result<Ok> ScanLive(const Reader& reader, const Resolve& resolve,
                    const std::function<Result<Ok>(const Resting&)>& visit,
                    const std::function<Result<Ok>(Instance)>& visit_other);

}  // namespace dfsmr::rows
