// The starts of a report that waits for the resume of its instance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/types.h"

namespace dfsmr {

// What of them a caller has chosen, as the rows keep it; empty: there are none.
std::string KeepStarts(const std::vector<StartArgs>& starts);
// REQUIRES: KeepStarts has made `text`.
Result<std::vector<StartArgs>> ReadStarts(std::string_view text, const EngineOptions& options);

}  // namespace dfsmr
