// Pages of the feed that lie before its start: records of the histories of instances that came
// with them from another partition. No reader of the feed sees them; they have gaps, and empty
// records in place of those of others. What is kept one by one is older than all of them.
#pragma once

#include <cstdint>
#include <functional>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// Where they begin. UINT64_MAX: there are none.
Result<uint64_t> PastStart(const Reader& reader);
void PutPastStart(const Writer& writer, uint64_t seq);

// Retention. As TrimFeed of those pages; `start`: of the feed. Does nothing where there are none.
Result<Ok> TrimPast(const Reader& reader, const Writer& writer, uint64_t start, Timestamp horizon,
                    size_t most, const std::function<bool(const Event&)>& keep);

}  // namespace dfsmr::rows
