// What goes when its time is up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// An instance that may go.
struct Expired {
  std::string ns;
  std::string id;
  Timestamp at;
  // Of a bare instance, otherwise empty.
  std::string machine;
  uint32_t version = 0;
  uint64_t first_seq = 0;
};
// At most `limit` instances whose time is up, the longest overdue first. `from` skips what has been
// dropped already, and with it the tombstones.
Result<std::vector<Expired>> ScanExpired(const Reader& reader, Timestamp from, Timestamp now,
                                         size_t limit);
// Everything of a stopped instance, also what is kept of it from before the feed's begin.
Result<Ok> DropInstance(const Reader& reader, const Writer& writer, const Instance& instance,
                        uint64_t feed_begin, Timestamp expiry);
// The same for a bare instance, while the feed still has all of its records.
void DropBare(const Writer& writer, const Expired& expired);
// Its expiry alone: it need not go any more, or is gone.
void DropExpiry(const Writer& writer, const Expired& expired);

// Removes the row of a stopped instance that lives again, and its expiry. PutInstance then writes
// it among the live ones.
void Revive(const Writer& writer, InstanceName name, Timestamp expiry);

}  // namespace dfsmr::rows
