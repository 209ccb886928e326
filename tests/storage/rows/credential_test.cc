#include <doctest/doctest.h>

#include "storage/memory_store.h"
#include "storage/rows/credential.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 3;

rows::CredentialRow Row(const std::string& id) {
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

TEST_CASE("credentials come back as they were put, by id, and those dropped do not") {
  MemoryStore store;
  const Epoch epoch = *store.Acquire(kPartition);
  Batch batch;
  rows::CredentialRow forever = Row("b");
  forever.expire_time = kNever;
  rows::PutCredential({batch, kPartition}, Row("c"));
  rows::PutCredential({batch, kPartition}, forever);
  rows::PutCredential({batch, kPartition}, Row("a"));
  rows::DropCredential({batch, kPartition}, "c");
  REQUIRE(store.Write(kPartition, epoch, batch));
  const auto read = rows::ScanCredentials({store, kPartition});
  REQUIRE(read);
  CHECK(*read == std::vector{Row("a"), forever});
  CHECK(rows::ScanCredentials({store, kPartition + 1})->empty());
}

TEST_CASE("a damaged credential is reported: nobody gets in by half a hash") {
  MemoryStore store;
  const Epoch epoch = *store.Acquire(kPartition);
  Batch batch;
  rows::CredentialRow half = Row("a");
  half.hash.resize(16);
  rows::PutCredential({batch, kPartition}, half);
  REQUIRE(store.Write(kPartition, epoch, batch));
  const auto read = rows::ScanCredentials({store, kPartition});
  REQUIRE(!read);
  CHECK(read.error().code == Code::kDataLoss);
}

}  // namespace
}  // namespace dfsmr
