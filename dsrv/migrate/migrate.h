// Copies a store that nobody serves into an empty one, from a folder or PostgreSQL to either.
//
// Both have the same number of partitions. Rows are copied as they are, in the order of their keys,
// some thousands in a batch: so the last key that the target has tells how far it has come, and a copy that was interrupted goes on there.
// As long as it is not whole the target has a mark (storage/moved.h), so that nobody serves it; the
// source has one from the beginning on, since what it would accept meanwhile would be lost. At the
// end both are read and compared. The target's epochs go on above the source's, and it has a life of
// its own: claims of before may report after, cursors of before are void.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "dsrv/migrate/place.h"

namespace dfsmr {

struct Migration {
  StorePlace from;
  StorePlace to;
  uint16_t partitions = kAsMade;  // of `to`; kAsMade: as many as `from` has
  // So far; about once a second.
  std::function<void(const std::string& line)> tell;
  // Set by a signal: it ends soon, with kCancelled.
  const std::atomic<bool>* interrupted = nullptr;
};

// A line about what was copied. kFailedPrecondition: one of the two is served, the target is not
// empty, or the source has moved elsewhere, or has another number of partitions. kDataLoss: they differ at the end.
Result<std::string> Migrate(const Migration& migration);

}  // namespace dfsmr
