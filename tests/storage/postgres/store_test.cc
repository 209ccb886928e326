// What every store promises, of the one in PostgreSQL.
#include <doctest/doctest.h>

#include "storage/postgres/pg_store.h"
#include "tests/storage/postgres/postgres_server.h"

namespace dfsmr {
namespace {

class Disk {
 public:
  std::unique_ptr<Store> Open() const {
    const auto database =
        MustOpen({.uri = SharedPostgres().Uri(), .schema = schema_, .partitions = 9});
    return std::make_unique<PgStore>(database, PgStore::Options());
  }

 private:
  const std::string schema_ = NewSchema();
};

template <typename Test>
void OnEachStore(const Test& test) {
  const Disk disk;
  test(*disk.Open());
}

}  // namespace
}  // namespace dfsmr

#include "tests/storage/store_contract.h"
