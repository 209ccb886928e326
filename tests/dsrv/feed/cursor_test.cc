// The texts of places in the feed.
#include "dsrv/feed/cursor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace dfsmr {
namespace {

constexpr uint64_t kLife = 0xfedcba98;

void IsReadBack(const Cursor& cursor) {
  const std::string text = CursorText(cursor);
  CAPTURE(text);
  const auto read = ParseCursor(text);
  REQUIRE(read);
  CHECK(*read == cursor);
}

TEST_CASE("the cursor of one partition is its number, the record's and the life's") {
  CHECK(CursorText({kLife, {4'711}}) == "0.4711.fedcba98");
  IsReadBack({kLife, {4'711}});
  IsReadBack({0, {0}});
  IsReadBack({UINT64_MAX, {UINT64_MAX}});
}

TEST_CASE("the cursor of several partitions is read from its own text") {
  IsReadBack({0, {0, 0}});
  IsReadBack({kLife, {1, 2, 3}});
  IsReadBack({UINT64_MAX, {UINT64_MAX, 0, 7}});
  for (const size_t partitions : {2u, 3u, 16u, 1'024u}) {
    Cursor cursor{kLife, {}};
    uint64_t drawn = 1;
    for (size_t i = 0; i < partitions; ++i) {
      drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
      cursor.seqs.push_back(drawn >> (8 + i % 56));
    }
    IsReadBack(cursor);
  }
}

TEST_CASE("cursors of several partitions are as short as is promised") {
  const std::vector<uint64_t> of_16(16, (uint64_t{1} << 47) - 1);
  CHECK(CursorText({UINT64_MAX, of_16}).size() <= 160);
  const std::vector<uint64_t> of_1024(1'024, (uint64_t{1} << 47) - 1);
  CHECK(CursorText({UINT64_MAX, of_1024}).size() <= 8'192);
  const std::vector<uint64_t> young(16, 1'000'000);
  CHECK(CursorText({kLife, young}).size() <= 70);
}

TEST_CASE("their texts need no quotes anywhere, and are never the words of requests") {
  const std::string text = CursorText({kLife, {1, 2, 3, 63, 64, 65}});
  const auto harmless = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  };
  CHECK(std::ranges::all_of(text, harmless));
  CHECK(text.size() > 1);  // "0" is the oldest change
}

TEST_CASE("what was never a cursor's text is refused") {
  const std::string text = CursorText({kLife, {1, 2, 3}});
  std::string longer_width = text;  // the same place, and another text
  longer_width[0] = 'C';
  for (const std::string& wrong : std::vector<std::string>{
           "", "0", "now", "0.1", "0.1.", "0.1.x", "1.2.3", "0..1", ".1.1", "0.1.1.1", "-1.0.0",
           "0.18446744073709551616.1", text.substr(0, text.size() - 1), text + "A", text + "=",
           "!" + text, longer_width, std::string(40, 'A'), std::string(40, '_')}) {
    CAPTURE(wrong);
    const auto read = ParseCursor(wrong);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == Code::kInvalidArgument);
  }
}

TEST_CASE("one place has one text") {
  const std::string text = CursorText({kLife, {5, 6, 7}});
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char digit : {'A', 'B', 'a', '_', '7'}) {
      std::string other = text;
      other[at] = digit;
      const auto read = ParseCursor(other);
      if (read) CHECK(CursorText(*read) == other);
    }
  }
}

}  // namespace
}  // namespace dfsmr
