// Rows as an export carries them: what was written comes back, whatever the pieces, and nothing
// else is taken.
#include "storage/rows/carried.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include "storage/memory_store.h"
#include "storage/rows/keys.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 3;

rows::CarriedRow Row(rows::Kind kind, std::string key, std::string value) {
  return {static_cast<uint8_t>(kind), std::move(key), std::move(value)};
}

std::vector<rows::CarriedRow> Some() {
  using namespace std::string_literals;  // NOLINT: keys hold zero bytes
  return {Row(rows::kMachine, "m\0\0\0\0\1"s, "source"), Row(rows::kLive, "a\0"s, "row"),
          Row(rows::kSpec, "a\0"s, ""), Row(rows::kOutput, "a\0node\0"s, std::string(1'000, 'x')),
          Row(rows::kStep, "a\0\0\0\0\7"s, "step")};
}

Result<std::vector<std::string>> Read(std::string_view text, size_t piece) {
  std::vector<std::string> read;
  rows::CarriedReader reader([&](const rows::CarriedRow& row) {
    read.push_back(std::to_string(row.kind) + row.key + row.value);
    return Ok{};
  });
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    if (auto fed = reader.Feed(text.substr(0, piece)); !fed) return fed.error();
  }
  if (auto whole = reader.Finish(); !whole) return whole.error();
  return read;
}

TEST_CASE("rows come back as they went, in pieces of any size") {
  std::string text(rows::CarriedHead());
  std::vector<std::string> wanted;
  for (const rows::CarriedRow& row : Some()) {
    text += rows::CarriedText(row);
    wanted.push_back(std::to_string(row.kind) + row.key + row.value);
  }
  for (const size_t piece : std::initializer_list<size_t>{1, 2, 7, 100, 100'000}) {
    const auto read = Read(text, piece);
    REQUIRE(read.has_value());
    CHECK(*read == wanted);
  }
  const auto cut = Read(text.substr(0, text.size() - 1), 100'000);
  REQUIRE(!cut.has_value());
  CHECK(cut.error().reason == Reason::kBadArchive);
}

TEST_CASE("what is no row of this format is refused") {
  const std::string head(rows::CarriedHead());
  CHECK(Read("dfsmr rows 2\n", 100).error().message.find("format") != std::string::npos);
  for (const std::string& text :
       {std::string(), std::string("what"), head + "\x01\x02",  // no key
        head + std::string("\x03\x06\x01x", 4),                 // a feed is not carried
        head + std::string("\x03\x02\x01x", 4),                 // a key without its end
        head + std::string("\x04\x02\x09x\0", 5),               // a key longer than the row
        head + std::string("\x04\x10\x02x\0", 5),               // a step without its number
        head + "\xff\xff\xff\xff\xff\xff"}) {
    const auto read = Read(text, 100);
    REQUIRE(!read.has_value());
    CHECK(read.error().reason == Reason::kBadArchive);
  }
}

TEST_CASE("an instance is carried with all of its rows, and with nobody else's") {
  MemoryStore store;
  Batch batch;
  for (const char* ns : {"here", "other"}) {
    for (const rows::CarriedRow& row : Some()) {
      rows::PutCarried({batch, kPartition}, ns, row);
      rows::CarriedRow neighbour = row;
      neighbour.key.insert(1, "b");  // of instance "ab"
      rows::PutCarried({batch, kPartition}, ns, neighbour);
    }
  }
  REQUIRE(store.Write(kPartition, *store.Acquire(kPartition), batch).has_value());
  std::vector<uint8_t> kinds;
  const auto carried = rows::CarryInstance({store, kPartition}, {"here", "a"}, /*bare=*/false,
                                           [&](const rows::CarriedRow& row) {
                                             CHECK(row.Name() == "a");
                                             kinds.push_back(row.kind);
                                           });
  REQUIRE(carried.has_value());
  CHECK(kinds == std::vector<uint8_t>{rows::kLive, rows::kSpec, rows::kOutput, rows::kStep});
}

}  // namespace
}  // namespace dfsmr
