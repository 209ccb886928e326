#include "fsm/base/json.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

namespace dfsmr::json {
namespace {

std::string Text(std::optional<std::string_view> value) {
  return value ? std::string(*value) : "nothing";
}

std::vector<std::string> Items(std::string_view array) {
  std::vector<std::string> items;
  ForEachItem(array, [&](std::string_view item) {
    items.emplace_back(item);
    return true;
  });
  return items;
}

std::string Members(std::string_view object) {
  std::string line;
  ForEachMember(object, [&](std::string_view name, std::string_view value) {
    line += std::string(name) + "=" + std::string(value) + ";";
    return true;
  });
  return line;
}

TEST_CASE("a value's kind is told from its first character") {
  CHECK(KindOf(" null") == Kind::kNull);
  CHECK(KindOf("true") == Kind::kBoolean);
  CHECK(KindOf("\n-1.50") == Kind::kNumber);
  CHECK(KindOf("\"a\"") == Kind::kString);
  CHECK(KindOf("{}") == Kind::kObject);
  CHECK(KindOf("[1]") == Kind::kArray);
  CHECK(KindOf("") == Kind::kNull);
  CHECK(Trim(" \t[1, 2]\r\n") == "[1, 2]");
}

TEST_CASE("members are found by their names, and keep their text") {
  const std::string object =
      R"( { "a" : 1.50 , "b\"}" : {"a": [1, "]"]}, "": null, "d": 1, "d": 2e3, "l": [ ] } )";
  CHECK(Text(Member(object, "a")) == "1.50");
  CHECK(Text(Member(object, "b\"}")) == R"({"a": [1, "]"]})");
  CHECK(Text(Member(object, "")) == "null");
  CHECK(Text(Member(object, "d")) == "2e3");
  CHECK(Text(Member(object, "l")) == "[ ]");
  CHECK(Text(Member(object, "c")) == "nothing");
  CHECK(Text(Member("[1]", "a")) == "nothing");
  CHECK(Text(Member("{}", "a")) == "nothing");
  CHECK(Members(R"({"a\n": 1, "b": [2, {"c": 3}]})") == "a\n=1;b=[2, {\"c\": 3}];");
}

TEST_CASE("items are walked in order, also a few at a time") {
  const std::string array = R"([ 1, "a,]" ,{"b":[2]}, [[]], null ])";
  CHECK(Items(array) ==
        std::vector<std::string>{"1", "\"a,]\"", "{\"b\":[2]}", "[[]]", "null"});
  CHECK(Items("[]").empty());
  CHECK(Items("[ ]").empty());
  CHECK(Items("{\"a\": 1}").empty());
  CHECK(Text(Item(array, 3)) == "[[]]");
  CHECK(Text(Item(array, 5)) == "nothing");

  size_t at = 0;
  CHECK(Text(NextItem(array, &at)) == "1");
  CHECK(Text(NextItem(array, &at)) == "\"a,]\"");
  for (int i = 0; i < 3; ++i) CHECK(NextItem(array, &at));
  CHECK(!NextItem(array, &at));
  CHECK(!NextItem(array, &at));
}

TEST_CASE("a visit ends the walk by returning false") {
  int seen = 0;
  ForEachItem("[1,2,3]", [&](std::string_view) { return ++seen < 2; });
  CHECK(seen == 2);
  ForEachMember(R"({"a":1,"b":2})", [&](std::string_view, std::string_view) {
    ++seen;
    return false;
  });
  CHECK(seen == 3);
}

TEST_CASE("strings are unquoted and quoted again") {
  CHECK(Unquote(R"("a\n\t\"\\\/\b")") == "a\n\t\"\\/\b");
  CHECK(Unquote(R"("\u0041\u00e9\u20AC\ud83d\ude00")") == "Aé€😀");
  CHECK(Unquote(R"("\ud83dx")") == "\uFFFDx");
  CHECK(Unquote("plain") == "plain");
  CHECK(Quote("a\"b\\c\n\t\x01é") == R"("a\"b\\c\n\t\u0001é")");
  for (std::string text : {"", "\"", "\\", "\\\"", "\\u0041", "a\r\nb"}) {
    CHECK(Unquote(Quote(text)) == text);
  }
}

TEST_CASE("merging puts changes in place, and new members last") {
  CHECK(Merge(R"({"a": 1.0, "b": [2], "c":3})", R"({"d": 4, "b": null})") ==
        R"({"a":1.0,"b":null,"c":3,"d":4})");
  CHECK(Merge("{}", "{}") == "{}");
  CHECK(Merge("{}", R"({"a": 1, "a": 2})") == R"({"a":2})");
  CHECK(Merge(R"({"a": 1, "\u0061": 2})", R"({"a": 3})") == R"({"a":3})");
  CHECK(Merge("null", R"({"a": 1})") == R"({"a":1})");
}

TEST_CASE("numbers beyond a double are bounded, and nothing else is touched") {
  const std::string most = "1.7976931348623157e308";
  CHECK(Bounded("1e400") == most);
  CHECK(Bounded("-1E+999") == "-" + most);
  CHECK(Bounded(std::string(400, '7')) == most);
  CHECK(Bounded(R"({"1e400": [1e400 ,-2.5e309]})") ==
        R"({"1e400": [)" + most + " ,-" + most + "]}");
  for (const char* same : {"1e308", "1e-400", "0", R"(["\"1e400"])", "{", "", "\"1e400", "01e400",
                           "+1e400", "1.e400", ".5e400", "1e400x", "1e", "inf", "-", "1e4 00"}) {
    CHECK(Bounded(same) == same);
  }
}

TEST_CASE("deep and malformed text does no harm") {
  std::string deep(200'000, '[');
  CHECK(Items(deep).size() == 1);
  CHECK(Text(Member("{\"a\":" + deep, "a")) == deep);
  for (std::string text : {"", "{", "[", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":}", "[,]",
                           "[}", "]", "[\"a", "\"", "\"\\", "\"\\u", "\"\\u12\"", "{,}", "[1 2"}) {
    CAPTURE(text);
    Members(text);
    Items(text);
    Unquote(text);
    CHECK(Merge(text, text).front() == '{');
  }
  std::mt19937 random(1);
  const std::string alphabet = "{}[]\",:\\u0dn1 a";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t i = 0; i < 12; ++i) text += alphabet[random() % alphabet.size()];
    Members(text);
    Items(text);
    Unquote(text);
    Merge(text, "{\"a\":1}");
  }
}

TEST_CASE("two values are the same when they say the same, however they are written") {
  const std::vector<std::vector<std::string>> classes = {
      {R"({"a":1,"b":[true,null]})", R"( { "b" : [ true , null ], "a" : 1.0 } )",
       R"({"a":9,"a":1,"b":[true,null]})", R"({"\u0061":1e0,"b":[true,null]})"},
      {R"({"a":1,"b":[null,true]})"},
      {R"({"a":1})"},
      {R"({"a":1,"b":[true]})"},
      {"{}", "", " { } "},
      {"[]"},
      {"0", "-0", "0.000", "0e7"},
      {"100000000000000000001", "1.00000000000000000001E20", "1000000000000000000010e-1"},
      {"100000000000000000002"},
      {"0.1", "1e-1", "0.10"},
      {"0.10000000000000000001"},
      {"-0.1"},
      {"1e99999999999999999999"},
      {"1e-99999999999999999999", "1.0e-9223372036854775808"},
      {"null"},
      {"true"},
      {"false"},
      {R"("é")", R"("\u00e9")"},
      {R"("1")"},
      {"1"},
  };
  for (const auto& one : classes) {
    for (const auto& other : classes) {
      for (const std::string& a : one) {
        for (const std::string& b : other) CHECK_MESSAGE(Same(a, b) == (&one == &other), a, b);
      }
    }
  }
}

}  // namespace
}  // namespace dfsmr::json
