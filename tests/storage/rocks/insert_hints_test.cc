// Rows of a store are where they belong, whatever was written before them: the hints that tell
// RocksDB where to begin to look are never one of a deleted range.
#include "storage/rocks/insert_hints.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "storage/rocks/rocks_store.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

using Rows = std::map<std::string, std::string>;
using namespace std::string_literals;

// Keys of two kinds, of few letters: zeros at the end, and ranges that begin at rows, are likely.
std::string DrawKey(std::mt19937& random) {
  std::string key = "\0\1"s;
  key += static_cast<char>(1 + random() % 2);
  for (size_t length = random() % 5; length > 0; --length) key += "\0\0ab"s[random() % 4];
  return key;
}

void Draw(std::mt19937& random, Batch* batch, Rows* rows) {
  std::string key = DrawKey(random);
  if (random() % 8 == 0) {
    std::string end = DrawKey(random);
    if (key > end) std::swap(key, end);
    rows->erase(rows->lower_bound(key), rows->lower_bound(end));
    batch->DeleteRange(std::move(key), std::move(end));
  } else if (random() % 4 == 0) {
    rows->erase(key);
    batch->Delete(std::move(key));
  } else {
    std::string value = std::to_string(random());
    (*rows)[key] = value;
    batch->Put(std::move(key), std::move(value));
  }
}

void CheckHolds(const Store& store, const Rows& rows) {
  Rows found;
  REQUIRE(store.Scan("\0\1"s, "\0\2"s, [&](std::string_view key, std::string_view value) {
    found.emplace(key, value);
    return true;
  }));
  CHECK(found == rows);
  for (const auto& [key, value] : rows) CHECK(store.Get(key).value() == value);
}

TEST_CASE("rows and deleted ranges of a kind are found in any order, also after a restart") {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  Rows rows;
  for (int restart = 0; restart < 4; ++restart) {
    const auto store = RocksStore::Open({.path = folder / "store", .cache_mb = 8, .memtable_mb = 1});
    REQUIRE(store);
    const auto epoch = (*store)->Acquire(1);
    REQUIRE(epoch);
    for (int turn = 0; turn < 40; ++turn) {
      Batch batch;
      for (int i = 0; i < 20; ++i) Draw(random, &batch, &rows);
      REQUIRE((*store)->Write(1, *epoch, batch));
      CheckHolds(**store, rows);
    }
  }
}

// As a version without hints wrote it: its ranges begin where rows do.
TEST_CASE("nothing that is read from the log while a store is opened takes a hint") {
  InsertHints hints;
  CHECK_FALSE(hints.InDomain("\0\1\2ns\0i1\0"s));
  hints.Begin();
  CHECK(hints.InDomain("\0\1\2ns\0i1\0"s));
  CHECK_FALSE(hints.InDomain("\0\1\2ns\0\0"s));
  CHECK_FALSE(hints.InDomain("\0\1\2"s));
}

}  // namespace
}  // namespace dfsmr
