// How clients name a place in the feed: where a reader has come to in each partition, by one text
// for all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

struct Cursor {
  // The store's incarnation. After a backup was restored, changes that were read before may not
  // exist any more.
  uint64_t life = 0;
  std::vector<uint64_t> seqs;  // by partition: the last record before it
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// Opaque to clients; the same for the same place. Of one partition: 0.SEQ.LIFE. Of several: digits
// of base64url, at most 160 for 16 partitions and 8,192 for 1,024, as long as none has had 2^47
// records.
std::string CursorText(const Cursor& cursor);
Result<Cursor> ParseCursor(std::string_view text);

}  // namespace dfsmr
