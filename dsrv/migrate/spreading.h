// Copies a store of one partition into one of several (storage/rows/spread.h). The rows of the
// source are read in their order; what becomes of some ten thousand of them is written to each
// partition in one batch, which says up to where. A copy that was interrupted reads from the
// beginning on, since what instances have in common is found from all of them, and writes what the
// partitions do not have. Home is written last: when it has all, the others have.
//
// In the end both are compared: the sum of a hash of each row that the source stands for, with that
// of each row that there is. Sums, since the rows come in another order.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "dsrv/migrate/pair.h"
#include "fsm/machine/machine.h"
#include "storage/rows/spread.h"

namespace dfsmr {

class Spreading {
 public:
  Spreading(Pair& pair, uint16_t partitions) : pair_(pair), partitions_(partitions) {}

  // Whether the source is one that can be moved so. First, before it is marked.
  Result<Ok> Prepare();
  Result<Ok> Copy();
  // kDataLoss: some row is missing, or another one than it should be.
  Result<Tally> Compare();
  // The copy is whole, and may be served.
  Result<Ok> End();

 private:
  struct Sum {
    Tally tally;
    uint64_t hashes = 0;

    void Add(std::string_view key, std::string_view value);
    friend bool operator==(const Sum&, const Sum&) = default;
  };
  using Put = std::function<void(std::string key, std::string value)>;
  // Of a row of the source, before what it becomes is put, and when all of that was. Stops at the
  // first error. What comes of all rows together has a key after all of theirs.
  using Begins = std::function<void(std::string_view key)>;
  using Next = std::function<Result<Ok>(std::string_view key)>;
  using MachineName = std::tuple<std::string, std::string, uint32_t>;

  Result<Ok> CompileAll();
  Result<Ok> Pass(const char* doing, const Put& put, const Begins& begins, const Next& next,
                  Tally* tally);
  // `key`: of the source, up to which the batches have all.
  Result<Ok> Flush(std::string_view key);
  bool Full() const;
  Result<Ok> WriteAll(const std::map<PartitionId, Batch>& batches);
  Result<Ok> Settle();
  Result<Sum> ReadTarget();
  Result<Ok> DropCopied(PartitionId id);

  Pair& pair_;
  const uint16_t partitions_;
  std::map<MachineName, std::unique_ptr<const Machine>> machines_;
  std::map<PartitionId, Batch> batches_;
  std::vector<rows::Copied> copied_;  // by partition
  size_t rows_ = 0;   // in these
  size_t bytes_ = 0;
  std::future<Result<Ok>> sent_;
  std::optional<Sum> source_;  // what there is to be, once all of it was read
};

}  // namespace dfsmr
