#include "dcli/text/masks.h"

#include <doctest/doctest.h>

#include "dcli/text/json.h"
#include "dcli/text/lines.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {
namespace {

std::vector<std::string> LinesOf(const Masks& masks, const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  Lines reader(masks, [&lines](std::string line) { lines.push_back(std::move(line)); });
  for (const std::string& piece : pieces) reader.Add(piece);
  reader.End();
  return lines;
}

}  // namespace

TEST_CASE("what is hidden is hidden in every form") {
  Masks masks;
  masks.Add("p&ss \"w/ö\"");
  CHECK(masks.Hide("it is p&ss \"w/ö\", yes") == "it is ***, yes");
  CHECK(masks.Hide(R"({"a":"p&ss \"w/ö\""})") == R"({"a":"***"})");
  CHECK(masks.Hide(R"({"a":"p&ss \"w/\u00f6\""})") == R"({"a":"***"})");
  CHECK(masks.Hide("?q=p%26ss%20%22w%2F%C3%B6%22&") == "?q=***&");
  CHECK(masks.Hide("?q=p%26ss+%22w%2f%c3%b6%22&") == "?q=***&");
  CHECK(masks.Hide("Basic cCZzcyAidy/DtiI= end") == "Basic *** end");
  CHECK(masks.Hide("nothing") == "nothing");
}

TEST_CASE("base64 is hidden wherever the value stands in what is coded") {
  Masks masks;
  masks.Add("hunter2hunter2");
  // user:hunter2hunter2 and a line break
  CHECK(masks.Hide("dXNlcjpodW50ZXIyaHVudGVyMgo=").find("W50ZXIyaHVudGV") == std::string::npos);
  CHECK(masks.Hide("aHVudGVyMmh1bnRlcjIK").find("VudGVyMmh1bnRlcj") == std::string::npos);
}

TEST_CASE("values of less than 6 bytes cannot be hidden") {
  Masks masks;
  masks.Add("12345");
  CHECK(masks.empty());
  masks.Add("123456");
  CHECK(masks.Hide("a123456b") == "a***b");
}

TEST_CASE("each line of 8 bytes or more of a value with several is hidden, too") {
  Masks masks;
  masks.Add("-----BEGIN KEY-----\nabcdefgh\nshort\r\n");
  CHECK(masks.Hide("x abcdefgh y") == "x *** y");
  CHECK(masks.Hide("short") == "short");
  CHECK(LinesOf(masks, {"-----BEGIN KEY-----\nabcd", "efgh\nshort\n"}) ==
        std::vector<std::string>{"***", "***", "short"});
}

TEST_CASE("a value that comes in pieces is hidden") {
  Masks masks;
  masks.Add("topsecret");
  CHECK(LinesOf(masks, {"a top", "sec", "ret b\nc\n"}) == std::vector<std::string>{"a *** b", "c"});
  CHECK(LinesOf(masks, {"a tops", "\nnothing\n"}) == std::vector<std::string>{"a tops", "nothing"});
  std::vector<std::string> letters;
  for (const char c : std::string("topsecrettopsecret!\n")) letters.emplace_back(1, c);
  CHECK(LinesOf(masks, letters) == std::vector<std::string>{"******!"});
}

TEST_CASE("JSON stays JSON when something in it is hidden") {
  Masks masks;
  masks.Add("123456");
  masks.Add("a\"quote");
  const std::string shown = masks.HideInJson(R"({"n": 1234567, "s": ["a\u0022quote"], "k": 1})");
  CHECK(shown == R"({"n": "***7", "s": ["***"], "k": 1})");
  CHECK(IsJsonObject(shown));
}

TEST_CASE("all texts of a message are hidden, in maps and messages within it, too") {
  Masks masks;
  masks.Add("a\"secret");
  v1::StartRequest start;
  start.set_id("by-a\"secret");
  start.set_params(R"({"s": "a\u0022secret"})");
  start.set_priority(3);
  start.add_after()->set_instance("a\"secret");
  (*start.mutable_labels())["a\"secret"] = "of a\"secret";
  (*start.mutable_labels())["plain"] = "text";
  masks.HideIn(&start);
  CHECK(start.id() == "by-***");
  CHECK(start.params() == R"({"s": "***"})");
  CHECK(start.priority() == 3);
  CHECK(start.after(0).instance() == "***");
  CHECK(start.labels().size() == 2);
  CHECK(start.labels().at("***") == "of ***");
  CHECK(start.labels().at("plain") == "text");
}

TEST_CASE("lines are whole, and not larger than a log takes") {
  const Masks none;
  CHECK(LinesOf(none, {"a\r\nb\n\nc"}) == std::vector<std::string>{"a", "b", "", "c"});
  const auto lines = LinesOf(none, {std::string(40'000, 'x') + "\ny"});
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].size() == 16'384);
  CHECK(lines[2].size() == 40'000 - 2 * 16'384);
  std::string wide(16'383, 'x');
  wide += "é\n";
  CHECK(LinesOf(none, {wide})[0].size() == 16'383);
}

}  // namespace dfsmr::cli
