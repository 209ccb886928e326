// What goes when its time is up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

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
// The same for a bare one none of whose records the feed has dropped.
void DropBare(const Writer& writer, const Expired& expired);
void DropExpiry(const Writer& writer, const Expired& expired);

// An instance that had stopped lives again: its row goes, and its expiry.
void Revive(const Writer& writer, InstanceName name, Timestamp expiry);

}  // namespace dfsmr::rows
