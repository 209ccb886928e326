#include "dsrv/wire/json_syntax.h"

#include <doctest/doctest.h>

#include <string>

namespace dfsmr {
namespace {

constexpr size_t kDepth = 200;

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("what is JSON") {
  for (const char* text : {"{}", " [1, -2.5e3, \"\\u00e4\\ud83d\\ude00\", null] ", "true", "\"ä\"",
                           "1e999", "123456789012345678901234567890", "{\"a\":1,\"a\":2}"}) {
    CAPTURE(text);
    CHECK(IsJson(text, kDepth));
  }
}

TEST_CASE("what is not") {
  for (const char* text : {"", " ", "{", "{}}", "{} {}", "[1,]", "{\"a\"}", "{'a':1}", "// a\n1",
                           "01", "+1", ".5", "nul", "NaN", "\"\n\"", "\"\\x\"", "\"\\ud83d\"",
                           "\"\xff\""}) {
    CAPTURE(text);
    CHECK_FALSE(IsJson(text, kDepth));
  }
  CHECK_FALSE(IsJson(std::string("1\0", 2), kDepth));
}

TEST_CASE("how deep it may be") {
  CHECK(IsJson(Nested(kDepth), kDepth));
  CHECK_FALSE(IsJson(Nested(kDepth + 1), kDepth));
  CHECK_FALSE(IsJson(Nested(100'000), kDepth));
}

}  // namespace
}  // namespace dfsmr
