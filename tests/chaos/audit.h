// What must hold after any number of crashes, by the feed, by what is asked of the server, and by
// what its clients were told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/chaos/crew.h"

namespace dfsmr::chaos {

struct AuditFigures {
  uint64_t records = 0;  // of the feed
  uint64_t instances = 0;
  uint64_t transitions = 0;
  uint64_t plans = 0;
  uint64_t compared = 0;  // instances whose record and history were asked for, too
};

// Reads the whole feed. Adds what is wrong to `findings`.
AuditFigures Audit(const Dsrv& server, const Ledger& ledger, const std::vector<Watched>& watched,
                   Findings* findings);

}  // namespace dfsmr::chaos
