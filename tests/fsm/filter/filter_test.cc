#include "fsm/filter/filter.h"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "fsm/filter/words.h"

namespace dfsmr {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

const Timestamp kNow = FromMicros(1'800'000'000'000'000);  // 2027-01-15T08:00:00Z

// Facts that a test writes down.
struct Facts : FilterFacts {
  std::map<FilterKey, std::vector<std::string>> texts;
  std::map<std::string, std::string> labels;
  std::map<FilterKey, double> numbers;
  std::map<FilterKey, Timestamp> times;

  bool AnyText(FilterKey key, const std::string& label, const Visit& visit) const override {
    if (key == FilterKey::kLabel) {
      const auto found = labels.find(label);
      return found != labels.end() && visit(found->second);
    }
    const auto found = texts.find(key);
    if (found == texts.end()) return false;
    for (const std::string& text : found->second) {
      if (visit(text)) return true;
    }
    return false;
  }
  double Number(FilterKey key) const override {
    const auto found = numbers.find(key);
    return found == numbers.end() ? 0 : found->second;
  }
  std::optional<Timestamp> Time(FilterKey key) const override {
    const auto found = times.find(key);
    return found == times.end() ? std::nullopt : std::optional(found->second);
  }
};

Facts Order() {
  Facts facts;
  facts.texts = {
      {FilterKey::kWord, {"order-17"}},           {FilterKey::kId, {"order-17"}},
      {FilterKey::kMachine, {"order"}},           {FilterKey::kNode, {"pay", "ship"}},
      {FilterKey::kState, {"RUNNING"}},           {FilterKey::kResult, {"PENDING"}},
      {FilterKey::kIs, {"held", "root"}},         {FilterKey::kError, {"disk: No space left"}},
      {FilterKey::kPackage, {"etl", "etl@1.4.0"}}};
  facts.labels = {{"site", "eu-west"}, {"empty", ""}};
  facts.numbers = {
      {FilterKey::kVersion, 3}, {FilterKey::kPriority, -5}, {FilterKey::kProgress, 0.5}};
  facts.times = {{FilterKey::kStarted, kNow - hours(1)}, {FilterKey::kChanged, kNow - minutes(10)}};
  return facts;
}

bool Match(const std::string& text, const Facts& facts = Order()) {
  CAPTURE(text);
  auto filter = InstanceFilter::Parse(text, kNow);
  REQUIRE_MESSAGE(filter, filter.error().message);
  return filter->Matches(facts);
}

}  // namespace

TEST_CASE("a filter lets through what all of its terms fit") {
  for (const char* text : {"",
                           "  ",
                           "order",
                           "order-1",
                           "ord*",
                           "\"order-17\"",
                           "id:order-17",
                           "id:order*",
                           "machine:order",
                           "machine:ord*,other",
                           "machine:*der",
                           "version:3",
                           "version:1..3",
                           "version:3..",
                           "version:..3",
                           "version:1,3",
                           "node:ship",
                           "node:pay,nothing",
                           "node:sh*",
                           "state:running",
                           "state:Running,PAUSED",
                           "result:pending",
                           "is:held",
                           "is:ready,held",
                           "is:root",
                           "label.site:eu*",
                           "label.site:eu-west",
                           "label.site:*",
                           "label.empty:*",
                           "label.empty:\"\"",
                           "started:-2h..",
                           "started:..-30m",
                           "started:-2h..-30m",
                           "changed:-10m..-10m",
                           "started:2027-01-15",
                           "started:2027-01-15..",
                           "started:2027-01-15T06:30:00Z..2027-01-15T09:00:00+01:00",
                           "priority:-5",
                           "priority:-10..-1",
                           "progress:0.5",
                           "progress:0.25..0.75",
                           "error:space",
                           "error:\"NO SPACE\"",
                           "package:etl",
                           "package:etl@1.4.0",
                           "package:etl@*",
                           "-machine:other",
                           "not:machine:other",
                           "-not:machine:order",
                           "-state:stopped,paused",
                           "-ended:-1h..",
                           "machine:order state:running -node:gone is:held"}) {
    CHECK_MESSAGE(Match(text), text);
  }
}

TEST_CASE("a filter keeps back what one of its terms does not fit") {
  for (const char* text : {"rder",
                           "order-17x",
                           "id:order",
                           "id:*-1",
                           "machine:orde",
                           "-machine:order",
                           "version:4..",
                           "version:1,2",
                           "node:shi",
                           "-node:pay",
                           "state:stopped",
                           "result:success",
                           "is:ready",
                           "-is:root",
                           "label.site:us*",
                           "label.none:*",
                           "-label.site:*",
                           "started:-30m..",
                           "started:..-2h",
                           "ended:-1h..",
                           "changed:..-11m",
                           "priority:0..",
                           "progress:0.6..",
                           "error:\"no space here\"",
                           "package:et",
                           "machine:order state:paused",
                           "started:2027-01-14",
                           "worker:w*",
                           "after:x",
                           "parent:*"}) {
    CHECK_MESSAGE(!Match(text), text);
  }
}

TEST_CASE("a filter that means nothing is refused at its column, with what would be right") {
  struct Row {
    const char* text;
    size_t column;
    const char* says;
  };
  for (const Row& row :
       std::vector<Row>{{"machin:order", 1, "unknown key 'machin' (did you mean 'machine'?)"},
                        {"MACHINE:order", 1, "unknown key 'MACHINE' (did you mean 'machine'?)"},
                        {"state:running statte:x", 15, "did you mean 'state'?"},
                        {"state:runing", 7, "unknown state 'runing' (did you mean 'running'?)"},
                        {"state:running,pausd", 15, "did you mean 'paused'?"},
                        {"result:succes", 8, "did you mean 'success'?"},
                        {"is:hold", 4, "did you mean 'held'?"},
                        {"is:*", 4, "unknown property"},
                        {"-state:", 8, "a value is missing"},
                        {"state:,running", 7, "a value is missing"},
                        {"a -", 4, "a value is missing"},
                        {"error:\"no space", 7, "has no end"},
                        {"machine:a*b", 10, "'*' stands at the begin or the end"},
                        {"version:x", 9, "'x' is not a number"},
                        {"version:1..y", 12, "'y' is not a number"},
                        {"version:..", 9, "at least one end"},
                        {"version:3..1", 9, "holds nothing"},
                        {"priority:*", 10, "'*' means nothing here"},
                        {"progress:nan", 10, "not a number"},
                        {"changed:-30", 9, "-30m is half an hour ago"},
                        {"changed:-30m", 9, "one moment is no range"},
                        {"changed:..yesterday", 11, "'yesterday' is not a time"},
                        {"started:2027-13-40..", 9, "a day that does not exist"},
                        {"started:2027-01-01T10:00..", 9, "no offset from UTC"},
                        {"started:-1h..-2h", 9, "holds nothing"},
                        {"label.:x", 7, "the label's name"},
                        {"label.-a:x", 7, "the label's name"},
                        {":x", 1, "unknown key ''"},
                        {"\xc3\xa9\xc3\xa9 state:x", 10, "unknown state 'x'"}}) {
    CAPTURE(row.text);
    auto filter = InstanceFilter::Parse(row.text, kNow);
    REQUIRE(!filter);
    CHECK(filter.error().code == Code::kInvalidArgument);
    CHECK(filter.error().reason == Reason::kBadFilter);
    const std::string place = "filter, column " + std::to_string(row.column) + ": ";
    CHECK_MESSAGE(filter.error().message.starts_with(place), filter.error().message);
    CHECK_MESSAGE(filter.error().message.find(row.says) != std::string::npos,
                  filter.error().message);
  }
}

TEST_CASE("a filter has bounds") {
  std::string many;
  for (size_t i = 0; i < kFilterTerms; ++i) many += "a ";
  CHECK(InstanceFilter::Parse(many, kNow));
  for (const std::string& text : {many + "b", std::string(kFilterBytes + 1, 'a')}) {
    auto filter = InstanceFilter::Parse(text, kNow);
    REQUIRE(!filter);
    CHECK(filter.error().reason == Reason::kTooLarge);
  }
  auto filter = InstanceFilter::Parse("a \xff", kNow);
  REQUIRE(!filter);
  CHECK(filter.error().message == "filter, column 3: this is not UTF-8");
}

TEST_CASE("an index is told what it can find") {
  auto filter = InstanceFilter::Parse(
      "machine:order parent:*x after:a,b -id:c label.k:v group:\"x*\" schedule:s*", kNow);
  REQUIRE(filter);
  REQUIRE(filter->Exact(FilterKey::kMachine));
  CHECK(*filter->Exact(FilterKey::kMachine) == "order");
  REQUIRE(filter->Exact(FilterKey::kGroup));
  CHECK(*filter->Exact(FilterKey::kGroup) == "x*");
  CHECK(!filter->Exact(FilterKey::kParent));
  CHECK(!filter->Exact(FilterKey::kAfter));
  CHECK(!filter->Exact(FilterKey::kId));
  CHECK(!filter->Exact(FilterKey::kSchedule));
}

}  // namespace dfsmr
