// Where RocksDB keeps a store's files, and writes its own log of what it does beside them: LOG.
#pragma once

namespace rocksdb {
class Env;
}

namespace dfsmr {

// RocksDB's own environment, except that a line of LOG which cannot be written is left out. The LOG
// of RocksDB 7.8, which Debian 12 builds with assertions, ends the process with the second such
// line, and a full disk would do so before the server has said that it is full.
// Lives as long as the process. Any thread.
rocksdb::Env* StoreEnvironment();

}  // namespace dfsmr
