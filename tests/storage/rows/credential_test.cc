#include <doctest/doctest.h>

#include "storage/memory_store.h"
#include "storage/rows/rows.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 3;

rows::TokenRow Row(const std::string& id) {
  return {.id = id,
          .hash = std::string(32, id.back()),
          .name = "of " + id,
          .ns = "shop",
          .role = 2,
          .machines = {"order", "report"},
          .queues = {"gpu"},
          .create_time = FromMicros(1'700'000'000'000'001),
          .expire_time = FromMicros(1'800'000'000'000'002),
          .created_by = "first"};
}

TEST_CASE("tokens come back as they were put, by id, and those dropped do not") {
  MemoryStore store;
  const Epoch epoch = *store.Acquire(kPartition);
  Batch batch;
  rows::TokenRow forever = Row("b");
  forever.expire_time = kNever;
  rows::PutToken(&batch, kPartition, Row("c"));
  rows::PutToken(&batch, kPartition, forever);
  rows::PutToken(&batch, kPartition, Row("a"));
  rows::DropToken(&batch, kPartition, "c");
  REQUIRE(store.Write(kPartition, epoch, batch));
  const auto read = rows::ScanTokens(store, kPartition);
  REQUIRE(read);
  CHECK(*read == std::vector{Row("a"), forever});
  CHECK(rows::ScanTokens(store, kPartition + 1)->empty());
}

TEST_CASE("a damaged token is said to be one: nobody gets in by half a hash") {
  MemoryStore store;
  const Epoch epoch = *store.Acquire(kPartition);
  Batch batch;
  rows::TokenRow half = Row("a");
  half.hash.resize(16);
  rows::PutToken(&batch, kPartition, half);
  REQUIRE(store.Write(kPartition, epoch, batch));
  const auto read = rows::ScanTokens(store, kPartition);
  REQUIRE(!read);
  CHECK(read.error().code == Code::kDataLoss);
}

}  // namespace
}  // namespace dfsmr
