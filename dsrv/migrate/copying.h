// Copies a store into one of as many partitions: rows as they are, in the order of their keys, some
// thousands in a batch. So the last key that the target has tells how far it has come.
#pragma once

#include <future>

#include "dsrv/migrate/pair.h"

namespace dfsmr {

class Copying {
 public:
  explicit Copying(Pair& pair) : pair_(pair) {}

  // From where it was interrupted.
  Result<Ok> Copy();
  // kDataLoss: the two are not the same.
  Result<Tally> Compare();

 private:
  struct Read {
    Tally tally;
    Digest digest;
  };
  Result<Ok> Send();
  Result<Ok> Settle();
  Result<Read> ReadAll(const View& store, const char* doing);

  Pair& pair_;
  PartitionId partition_ = 0;  // of the batch
  Batch batch_;
  std::future<Result<Ok>> sent_;
};

}  // namespace dfsmr
