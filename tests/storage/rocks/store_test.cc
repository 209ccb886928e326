// What every store promises, of the one in memory and the one in RocksDB.
#include "storage/store.h"

#include <doctest/doctest.h>

#include "storage/memory_store.h"
#include "storage/rocks/rocks_store.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

class Disk {
 public:
  std::unique_ptr<Store> Open() const {
    auto store = RocksStore::Open({.path = folder_ / "store", .cache_mb = 8, .memtable_mb = 1});
    REQUIRE_MESSAGE(store, (store ? "" : store.error().message));
    return *std::move(store);
  }

 private:
  const TemporaryFolder folder_;
};

// Runs `test` on an empty store of each kind.
template <typename Test>
void OnEachStore(const Test& test) {
  SUBCASE("in memory") {
    MemoryStore store;
    test(store);
  }
  SUBCASE("in RocksDB") {
    const Disk disk;
    test(*disk.Open());
  }
}

}  // namespace
}  // namespace dfsmr

#include "tests/storage/store_contract.h"
