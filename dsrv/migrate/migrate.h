// Copies a store that nobody serves into an empty one, from a folder or PostgreSQL to either.
//
// Into one of as many partitions rows are copied as they are (copying.h). One of several is read as
// one of a single partition (storage/rows/joined.h), which may become one of several (spreading.h).
// As long as it is not whole the target has a mark (storage/moved.h), so that nobody serves it. The
// source has one from the beginning on, since what it would accept meanwhile would be lost. An
// interrupted copy goes on where it was. At the end both are read and compared. The target's epochs
// go on above the source's, and it has a life of its own: claims of before may report after,
// cursors of before are void.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "dsrv/migrate/place.h"
#include "fsm/machine/machine.h"
#include "fsm/when/document.h"

namespace dfsmr {

struct Migration {
  StorePlace from;
  StorePlace to;
  uint16_t partitions = kAsMade;  // of `to`; kAsMade: as many as `from` has, one in a folder
  // So far; about once a second.
  std::function<void(const std::string& line)> tell;
  // Set by a signal: it ends soon, with kCancelled.
  const std::atomic<bool>* interrupted = nullptr;
  // Of definitions as they rest in the store.
  std::function<Result<Machine>(std::string_view source)> compile = {};
  std::function<Result<Document>(std::string_view source)> parse = {};
};

// A line about what was copied. kFailedPrecondition: one of the two is served, the target is not
// empty, the source has moved elsewhere, or something is under way in it that cannot be moved into
// another number of partitions.
// kDataLoss: they differ at the end.
Result<std::string> Migrate(const Migration& migration);

}  // namespace dfsmr
