// A store that nobody serves, wherever it is: in a folder or in PostgreSQL.
#pragma once

#include <memory>
#include <string>

#include "storage/roster.h"
#include "storage/store.h"

namespace dfsmr {

struct StorePlace {
  std::string where;  // a folder, or a URL of libpq's
  std::string schema = "dfsmr";
};

class UnservedStore {
 public:
  virtual ~UnservedStore() = default;

  // Its folder in full, or its URL without a password.
  virtual std::string Name() const = 0;
  virtual Store& store() = 0;
  virtual uint16_t Partitions() const = 0;
  // As Store::Acquire, under an epoch greater than `above`, too: who has served the partition until
  // now writes no more.
  virtual Result<Epoch> AcquireAbove(PartitionId partition, Epoch above) = 0;
  // See storage/moved.h.
  virtual Result<std::string> Mark() = 0;
  virtual Result<Ok> SetMark(const std::string& mark) = 0;
  // What waits for a database fails with kUnavailable, now and from now on. Any thread.
  virtual void GiveUp() {}
};

// kFailedPrecondition: a server serves it, or lives. kNotFound: there is none, and it is not to be
// made. One with a mark is opened, too. Where it is made it is made of so many partitions; one that
// is there and has another number is refused.
Result<std::unique_ptr<UnservedStore>> OpenUnserved(const StorePlace& place, bool create,
                                                    uint16_t partitions = kAsMade);

// Once the database was restored to an earlier time: cursors and claims of after that time are void
// from now on. Returns what it has done, as a line.
Result<std::string> RenewStore(const StorePlace& place);
// The store may be served again, although it has moved.
Result<std::string> UnmarkStore(const StorePlace& place);

}  // namespace dfsmr
