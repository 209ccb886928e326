// A batch as statements take it: ranges first, then deletions, then puts, each key at most once. It
// does the same as the batch in its order.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/store.h"

namespace dfsmr {

// Keys are without their partition, and views into the batch.
struct Arranged {
  std::vector<std::pair<std::string_view, std::string_view>> ranges;
  std::vector<std::string_view> deleted;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> values;  // of `keys`
};

// All keys of the batch are the partition's; ranges are cut to it.
Arranged Arrange(const Batch& batch, PartitionId partition);

}  // namespace dfsmr
