// Reads every row of a partition, and tells what is not as it must be: rows that cannot be decoded,
// instances that stand where their machine has no node, histories that are no paths, and indexes
// that do not agree with what they are of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/machine/machine.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct Verified {
  uint64_t rows = 0;
  uint64_t instances = 0;
  uint64_t records = 0;               // of histories
  uint64_t wrong = 0;                 // how many problems there are
  std::vector<std::string> problems;  // the first 1,000 of them
};

// The machine of a definition in the store.
using CompileSource = std::function<Result<Machine>(std::string_view source)>;

// An error: the store cannot be read on. What was found up to there is in `verified`. `home`: the
// partition whose rows say which machines and namespaces there are; what is wrong with those is told
// of that one.
Result<Ok> Verify(const Reader& reader, const CompileSource& compile, Verified* verified,
                  std::optional<PartitionId> home = {});

}  // namespace dfsmr::rows
