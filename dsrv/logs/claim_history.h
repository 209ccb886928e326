// When a claim ended that is not open any more, from the history of its instance. Logs are taken
// for a minute after it.
#pragma once

#include <optional>
#include <string>

#include "dsrv/engine/reader.h"
#include "dsrv/engine/traces.h"

namespace dfsmr {

struct ClaimEnd {
  Traces::Trace trace;  // with all that is known of the claim
  Timestamp time;
};
// nullopt: it ended before `since`, or no record tells of such a claim. `trace` is what the engine
// knows of it: that it is over. Blocks.
std::optional<ClaimEnd> FindClaimEnd(const Reader& reader, const std::string& ns,
                                     const std::string& id, const ClaimRef& claim,
                                     const Traces::Trace& trace, Timestamp since);

}  // namespace dfsmr
