// How the lines of operations lie on the disk.
#pragma once

#include <rocksdb/options.h>

#include <cstdint>

namespace dfsmr {

// Of a database that is to take at most `bound` bytes. Merged values are joined, one behind the
// other.
rocksdb::Options LogDatabaseOptions(uint64_t bound);

}  // namespace dfsmr
