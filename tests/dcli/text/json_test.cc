#include "dcli/text/json.h"

#include <doctest/doctest.h>

namespace dfsmr::cli {

TEST_CASE("only one whole JSON object is an object") {
  CHECK(IsJsonObject("{}"));
  CHECK(IsJsonObject(R"({"a": [1e400, -1e999]})"));
  CHECK_FALSE(IsJsonObject(R"({"a": 01e400})"));
  CHECK(IsJsonObject(" {\"a\": 1}\n"));
  for (const char* text : {"", "[]", "1", "\"{}\"", "{", "{} {}", "{a: 1}", "{\"a\": 1,}"}) {
    CAPTURE(text);
    CHECK_FALSE(IsJsonObject(text));
  }
}

TEST_CASE("members keep their values as they were written") {
  const auto members = Members(R"( {"big": 12345678901234567890.10, "text" : "a,}\"b",)"
                               R"( "list":[1, {"x": "]"} ] , "key\n": null } )");
  CHECK(members == std::vector<Member>{{"big", "12345678901234567890.10"},
                                       {"text", R"("a,}\"b")"},
                                       {"list", R"([1, {"x": "]"} ])"},
                                       {"key\n", "null"}});
  CHECK(Members("{}").empty());
  CHECK(Find(members, "list") == &members[2]);
  CHECK(Find(members, "none") == nullptr);
}

TEST_CASE("members can be put back together") {
  std::vector<Member> members = Members(R"({"a":1,"b":2})");
  Set(&members, {"a", "3"});
  Set(&members, {"c \"d\"", "[]"});
  CHECK(ObjectOf(members) == R"({"a":3,"b":2,"c \"d\"":[]})");
}

TEST_CASE("strings are quoted for JSON and back") {
  CHECK(JsonString("a\"\\\n\x1b") == R"("a\"\\\n\u001b")");
  CHECK(JsonString("\xff") == "\"\xef\xbf\xbd\"");
  CHECK(Unquoted(R"("a\u00e9\n")") == "a\xc3\xa9\n");
}

TEST_CASE("YAML says the same as the JSON") {
  CHECK(YamlOf(R"({"id":"crawler","version":2,"on":true,"seq":"12","list":["a",{"b":1,"c":[]}],)"
               R"("empty":{},"text":"yes","time":"2026-01-31T08:00:00Z","none":null})") ==
        "id: crawler\n"
        "version: 2\n"
        "\"on\": true\n"
        "seq: \"12\"\n"
        "list:\n"
        "- a\n"
        "- b: 1\n"
        "  c: []\n"
        "empty: {}\n"
        "text: \"yes\"\n"
        "time: \"2026-01-31T08:00:00Z\"\n"
        "none: null\n");
  CHECK(YamlOf("{}") == "{}\n");
}

TEST_CASE("the items of an array come as they were written") {
  CHECK(Items("[]").empty());
  CHECK(Items(" [ 1.50, {\"a\": [2, 3]} , \"x,]\" ] ") ==
        std::vector<std::string>{"1.50", "{\"a\": [2, 3]}", "\"x,]\""});
}

}  // namespace dfsmr::cli
