#include "dcli/text/output.h"

#include <doctest/doctest.h>

#include <sstream>

#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

std::string Printed(const Table& table, const Look& look = {}) {
  std::ostringstream out;
  table.Print(out, look);
  return out.str();
}

}  // namespace

TEST_CASE("a table is aligned, without spaces at the ends of its lines") {
  Table table({"NAME", "STATE", "NOTE"});
  table.Add({"a", "RUNNING", "x"});
  table.Add({"länger", "", "two words"});
  CHECK(Printed(table) ==
        "NAME    STATE    NOTE\n"
        "a       RUNNING  x\n"
        "länger  -        two words\n");
}

TEST_CASE("what instances hold cannot break a table") {
  Table table({"NAME", "NOTE"});
  table.Add({"a\nb", "\x1b[31mred"});
  CHECK(Printed(table) ==
        "NAME  NOTE\n"
        "a\\nb  \\x1b[31mred\n");
}

TEST_CASE("colours come on terminals only, the last column is shortened there only") {
  Table table({"NAME", "STATE", "NOTE"});
  table.Add({"a", "RUNNING", "0123456789abcdef"});
  CHECK(Printed(table).find('\x1b') == std::string::npos);
  const std::string colored = Printed(table, {.color = true, .width = 25});
  CHECK(colored.find("\x1b[36mRUNNING\x1b[0m") != std::string::npos);
  CHECK(colored.find("012345678…") != std::string::npos);
}

TEST_CASE("times are relative on terminals, in full elsewhere, and empty when absent") {
  const Timestamp now = FromMicros(1'767'225'600'000'000);
  const auto then = ToProto(now - std::chrono::seconds(90));
  CHECK(When(then, {.relative = true, .now = now}) == "1m30s ago");
  const auto later = ToProto(now + std::chrono::seconds(90));
  CHECK(When(later, {.relative = true, .now = now}) == "in 1m30s");
  CHECK(When(then, {.now = now}) == "2025-12-31T23:58:30.000Z");
  CHECK(When({}, {.now = now}) == "");
}

TEST_CASE("a description aligns its values and leaves out what is empty") {
  Description text;
  text.Add("Machine", "crawler v2");
  text.Add("Error", "");
  text.Add("At", "a\tb");
  std::ostringstream out;
  text.Print(out, {});
  CHECK(out.str() == "Machine  crawler v2\nAt       a\\tb\n");
}

TEST_CASE("JSON has the names of the proto3 mapping and no default values") {
  v1::Change change;
  change.set_seq(12);
  change.set_kind(v1::Change::TIMED_OUT);
  change.set_prev_node("crawl");
  CHECK(*JsonOf(change) == R"({"seq":"12","kind":"TIMED_OUT","prevNode":"crawl"})");
  CHECK(*JsonOf(v1::ReadyResponse()) == "{}");
  change.mutable_time()->set_seconds(1'001'795'835'319);  // the year 33715
  CHECK_FALSE(JsonOf(change));
}

TEST_CASE("formats are known by name") {
  CHECK(*ParseFormat("wide") == OutputFormat::kWide);
  CHECK_FALSE(ParseFormat("JSON"));
  CHECK_FALSE(ParseFormat(""));
}

TEST_CASE("a change is one line") {
  v1::Change change;
  *change.mutable_time() = ToProto(FromMicros(1'767'225'600'678'000));
  change.set_seq(1842);
  change.set_kind(v1::Change::TRANSITIONED);
  change.set_machine("crawler");
  change.set_version(2);
  change.set_instance("c-1");
  change.set_prev_node("crawl");
  change.set_transition("ok");
  change.set_node("success");
  change.set_client("worker\n7");
  std::ostringstream out;
  PrintChange(out, change, {});
  CHECK(out.str() ==
        "2026-01-01T00:00:00.678Z  #1842  TRANSITIONED  crawler v2  c-1  crawl -[ok]-> success  "
        "by worker\\n7\n");
}

TEST_CASE("a change of an occurrence says of what it is, and its outcome") {
  v1::Change change;
  *change.mutable_time() = ToProto(FromMicros(1'767'225'600'678'000));
  change.set_seq(4);
  change.set_kind(v1::Change::OCCURRED);
  change.set_version(1);
  change.set_cause("schedule:s");
  change.set_occurrence("20260101T000000Z");
  const auto line = [&change] {
    std::ostringstream out;
    PrintChange(out, change, {});
    return out.str();
  };
  const std::string begin = "2026-01-01T00:00:00.678Z  #4  OCCURRED  schedule:s v1  ";
  change.set_outcome("MISSED");
  CHECK(line() == begin + "20260101T000000Z  MISSED\n");
  change.set_outcome("STARTED");
  change.set_instance("s-20260101T000000Z");
  CHECK(line() == begin + "20260101T000000Z  STARTED  s-20260101T000000Z\n");
  change.set_instance("");
  change.set_outcome("SKIPPED");
  change.set_note("why");
  CHECK(line() == begin + "20260101T000000Z  SKIPPED  (why)\n");
}

TEST_CASE("where an instance stands is said in a few words") {
  v1::Instance instance;
  const auto add = [&](const char* node, v1::Token::State state) {
    auto* token = instance.add_tokens();
    token->set_node(node);
    token->set_state(state);
  };
  CHECK(StandingText(instance) == "");
  add("success", v1::Token::DONE);
  CHECK(StandingText(instance) == "success");
  add("a", v1::Token::READY);
  add("b", v1::Token::HELD);
  add("c", v1::Token::CLAIMED);
  add("d", v1::Token::CLAIMED);
  CHECK(StandingText(instance) == "success, a (ready), b (held), 2 more");
  instance.set_token_count(10'050);  // of which five are shown
  CHECK(StandingText(instance) == "success, a (ready), b (held), 10047 more");
}

}  // namespace dfsmr::cli
