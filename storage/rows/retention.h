// Removing stopped instances when their time is up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// A stopped instance that may be removed.
struct Expired {
  std::string ns;
  std::string id;
  Timestamp at;
  // Of a bare instance, otherwise empty.
  std::string machine;
  uint32_t version = 0;
  uint64_t first_seq = 0;
};
// At most `limit` instances whose time is up, the longest overdue first. `from` is where the last
// call ended: it skips the tombstones of instances that were dropped before.
Result<std::vector<Expired>> ScanExpired(const Reader& reader, Timestamp from, Timestamp now,
                                         size_t limit);
// Drops everything of a stopped instance, also its records that are kept from before the feed's
// begin.
Result<Ok> DropInstance(const Reader& reader, const Writer& writer, const Instance& instance,
                        uint64_t feed_begin, Timestamp expiry);
// The same for a bare instance, while the feed still has all of its records.
void DropBare(const Writer& writer, const Expired& expired);
// Drops only the row of its expiry: the instance lives again, or does not exist any more.
void DropExpiry(const Writer& writer, const Expired& expired);

// Drops the row of a stopped instance that lives again, and its expiry. PutInstance then writes it
// among the live instances.
void Revive(const Writer& writer, InstanceName name, Timestamp expiry);

}  // namespace dfsmr::rows
