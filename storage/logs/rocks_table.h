// The lines of operations in a RocksDB of their own. A batch is in the log of the database, and so
// in the system's memory, when Write returns, but no fsync waits for it: a killed process loses
// nothing, a machine that dies loses what Sync has not put on disk yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "storage/log_table.h"

namespace dfsmr {

// Makes it when it is missing. It is to take at most `bound` bytes. kUnavailable, kDataLoss: it
// cannot be read.
Result<std::unique_ptr<LogTable>> OpenRocksLogTable(const std::filesystem::path& path,
                                                    uint64_t bound);

}  // namespace dfsmr
