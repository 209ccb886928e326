#include "fsm/base/hex.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

TEST_CASE("Bytes become two small digits each, and digits of either case bytes") {
  CHECK(ToHex(std::string_view("\x00\x7f\xff", 3)) == "007fff");
  CHECK(FromHex("007fFF") == std::string("\x00\x7f\xff", 3));
  CHECK(FromHex("") == "");
  for (const char* wrong : {"0", "0g", "g0", "0x", "00 ", "-1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(FromHex(wrong));
  }
}

TEST_CASE("Numbers become sixteen digits, in the order of the numbers") {
  CHECK(ToHex(uint64_t{0}) == "0000000000000000");
  CHECK(ToHex(uint64_t{0x0123456789abcdef}) == "0123456789abcdef");
  CHECK(ToHex(uint64_t{9}) < ToHex(uint64_t{10}));
}

}  // namespace
}  // namespace dfsmr
