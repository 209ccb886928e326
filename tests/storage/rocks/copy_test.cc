// Copies of a store that is written meanwhile, and stores made of them.
#include "storage/rocks/copy.h"

#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "fsm/base/epoch.h"
#include "storage/rocks/rocks_store.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<RocksStore> Open(const fs::path& path) {
  auto store = RocksStore::Open({.path = path, .cache_mb = 8, .memtable_mb = 1});
  REQUIRE_MESSAGE(store, (store ? "" : store.error().message));
  return *std::move(store);
}

std::string RowKey(uint64_t number) {
  std::string key{'\0', '\0', '\x02'};
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(number >> shift);
  return key;
}

void Put(RocksStore& store, Epoch epoch, uint64_t number) {
  Batch batch;
  batch.Put(RowKey(number), std::string(200, 'x'));
  batch.Put(RowKey(number) + "twin", std::string(200, 'x'));
  REQUIRE(store.Write(0, epoch, batch));
}

uint64_t RowsOf(const View& view) {
  uint64_t rows = 0;
  REQUIRE(view.Scan("", "", [&rows](std::string_view, std::string_view) { return ++rows, true; }));
  return rows;
}

// FORMAT is what a restore leaves for the end.
void Adopt(const fs::path& folder) {
  fs::remove(folder / "FORMAT");
  const auto adopted = AdoptCopy(folder);
  REQUIRE_MESSAGE(adopted, (adopted ? "" : adopted.error().message));
}

TEST_CASE("a copy under load has all that was written before, and whole batches only") {
  TemporaryFolder folder;
  auto store = Open(folder / "store");
  const Epoch epoch = *store->Acquire(0);
  std::atomic<uint64_t> written = 0;
  std::atomic<bool> enough = false;
  std::thread writer([&] {
    while (!enough) Put(*store, epoch, written++);
  });
  for (int i = 0; i < 5; ++i) {
    while (written < static_cast<uint64_t>(i + 1) * 200) std::this_thread::yield();
    const uint64_t before = written;
    const fs::path to = folder / ("copy" + std::to_string(i)).c_str();
    const auto copied = store->Copy(to);
    CHECK_MESSAGE(copied, (copied ? "" : copied.error().message));
    const uint64_t after = written + 1;
    auto copy = StoredCopy::Open(to);
    REQUIRE_MESSAGE(copy, (copy ? "" : copy.error().message));
    const uint64_t rows = RowsOf((*copy)->view());
    CHECK(rows % 2 == 0);
    CHECK(rows / 2 >= before);
    CHECK(rows / 2 <= after);
    CHECK((*copy)->VerifyChecksums());
  }
  enough = true;
  writer.join();
}

TEST_CASE("a store that is made of a copy has another incarnation and another life") {
  TemporaryFolder folder;
  auto store = Open(folder / "store");
  Epoch epoch = *store->Acquire(0);
  Put(*store, epoch, 1);
  REQUIRE(store->Copy(folder / "copy"));
  const uint64_t incarnation = store->incarnation();
  for (int i = 0; i < 3; ++i) epoch = *store->Acquire(0);  // it goes on
  Adopt(folder / "copy");
  auto made = Open(folder / "copy");
  CHECK(RowsOf(*made) == 2);
  CHECK(made->incarnation() != incarnation);
  const Epoch other = *made->Acquire(0);
  CHECK(other > epoch);
  CHECK(LifeOfEpoch(other) != LifeOfEpoch(epoch));
  Put(*made, other, 2);
}

TEST_CASE("a copy is not read while a server has it, nor what is no store") {
  TemporaryFolder folder;
  auto store = Open(folder / "store");
  const auto served = StoredCopy::Open(folder / "store");
  REQUIRE(!served);
  CHECK(served.error().code == Code::kFailedPrecondition);
  CHECK(served.error().message.find("another dsrv holds") != std::string::npos);
  store.reset();
  CHECK(StoredCopy::Open(folder / "store"));
  const auto none = StoredCopy::Open(folder / "none");
  REQUIRE(!none);
  CHECK(none.error().code == Code::kFailedPrecondition);
}

TEST_CASE("a byte of a table that is another one is found") {
  TemporaryFolder folder;
  auto store = Open(folder / "store");
  const Epoch epoch = *store->Acquire(0);
  for (uint64_t i = 0; i < 100; ++i) Put(*store, epoch, i);
  REQUIRE(store->Copy(folder / "copy"));
  for (const auto& entry : fs::directory_iterator(folder / "copy")) {
    if (entry.path().extension() != ".sst") continue;
    const std::string bytes(
        (std::istreambuf_iterator<char>(std::ifstream(entry.path(), std::ios::binary).rdbuf())),
        std::istreambuf_iterator<char>());
    fs::remove(entry.path());  // it is a link to the store's
    std::string damaged = bytes;
    damaged[20] = static_cast<char>(damaged[20] ^ 1);
    std::ofstream(entry.path(), std::ios::binary) << damaged;
  }
  auto copy = StoredCopy::Open(folder / "copy");
  REQUIRE(copy);
  const auto sound = (*copy)->VerifyChecksums();
  REQUIRE(!sound);
  CHECK(sound.error().code == Code::kDataLoss);
}

}  // namespace
}  // namespace dfsmr
