#include "dcli/text/text.h"

#include <doctest/doctest.h>

namespace dfsmr::cli {

TEST_CASE("what could move a terminal's cursor is shown escaped") {
  CHECK(Escaped("plain text, 100 % ä€😀") == "plain text, 100 % ä€😀");
  CHECK(Escaped("a\nb\tc\r") == "a\\nb\\tc\\r");
  CHECK(Escaped("\x1b[2J") == "\\x1b[2J");
  CHECK(Escaped(std::string_view("\0x", 2)) == "\\x00x");
  CHECK(Escaped("\x7f") == "\\x7f");
  CHECK(Escaped("\xc2\x9b") == "\\x9b");        // CSI as one character
  CHECK(Escaped("\xe2\x80\xae") == "\\u202e");  // right-to-left override
  CHECK(Escaped("\xe2\x80\xa8") == "\\u2028");  // line separator
}

TEST_CASE("bytes that are not UTF-8 are shown as bytes") {
  CHECK(Escaped("\xff") == "\\xff");
  CHECK(Escaped("a\xc3") == "a\\xc3");
  CHECK(Escaped("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(Escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(Escaped("\xe2\x28\xa1") == "\\xe2(\\xa1");
}

TEST_CASE("text is shortened by characters, not bytes") {
  CHECK(Columns("ä€😀") == 3);
  CHECK(Shortened("abc", 3) == "abc");
  CHECK(Shortened("abcd", 3) == "ab…");
  CHECK(Shortened("ä€😀x", 3) == "ä€…");
}

TEST_CASE("a mistyped word finds its neighbour, a strange one finds none") {
  const std::vector<std::string> known = {"start", "show", "machines", "transition"};
  CHECK(Nearest("strat", known) == "start");
  CHECK(Nearest("machine", known) == "machines");
  CHECK(Nearest("trans", known) == "transition");
  CHECK(Nearest("Shwo", known) == "show");
  CHECK_FALSE(Nearest("deploy", known));
  CHECK_FALSE(Nearest("x", known));
  CHECK(DidYouMean("strat", known) == ": did you mean \"start\"?");
  CHECK(DidYouMean("deploy", known) == "");
}

TEST_CASE("lists are taken apart and put together") {
  CHECK(Split("a,b,,c", ',') == std::vector<std::string>{"a", "b", "", "c"});
  CHECK(Split("", ',') == std::vector<std::string>{""});
  CHECK(Join({"a", "b"}, ", ") == "a, b");
}

}  // namespace dfsmr::cli
