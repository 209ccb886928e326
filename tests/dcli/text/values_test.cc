#include "dcli/text/values.h"

#include <doctest/doctest.h>

#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_CASE("durations are numbers with a unit") {
  CHECK(*ParseDuration("250ms") == milliseconds(250));
  CHECK(*ParseDuration("1.5s") == milliseconds(1500));
  CHECK(*ParseDuration("5m") == minutes(5));
  CHECK(*ParseDuration("1h30m") == minutes(90));
  CHECK(*ParseDuration("7d") == hours(168));
  CHECK(*ParseDuration("0") == seconds(0));
  CHECK(*ParseDuration("0s") == seconds(0));
  for (const char* text : {"", "5", "s", "-5s", "5x", "5 s", "1..5s", "1e3s", "9999999d", "5s,"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDuration(text));
  }
}

TEST_CASE("times are RFC 3339 or so long from now") {
  const Timestamp now = FromMicros(1'767'225'600'000'000);  // 2026-01-01
  CHECK(TimeText(*ParseTime("2026-01-31T08:00:00Z", now)) == "2026-01-31T08:00:00.000Z");
  CHECK(TimeText(*ParseTime("2026-01-31T08:00:00.5+02:00", now)) == "2026-01-31T06:00:00.500Z");
  CHECK(TimeText(*ParseTime("2026-01-31t08:00:00z", now)) == "2026-01-31T08:00:00.000Z");
  CHECK(*ParseTime("+30m", now) == now + minutes(30));
  for (const char* text : {"", "tomorrow", "2026-01-31", "+", "+5", "30m"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseTime(text, now));
  }
}

TEST_CASE("durations are shown with the precision that matters") {
  CHECK(DurationText(seconds(0)) == "0s");
  CHECK(DurationText(microseconds(850)) == "850us");
  CHECK(DurationText(microseconds(1'540)) == "1.5ms");
  CHECK(DurationText(milliseconds(850)) == "850ms");
  CHECK(DurationText(milliseconds(1'500)) == "1.50s");
  CHECK(DurationText(milliseconds(59'900)) == "59.9s");
  CHECK(DurationText(milliseconds(59'960)) == "1m0s");
  CHECK(DurationText(seconds(754)) == "12m34s");
  CHECK(DurationText(hours(76)) == "3d4h");
  CHECK(DurationText(seconds(-5)) == "-5.00s");
}

TEST_CASE("KEY=VALUE makes strings, KEY:=JSON what the JSON says") {
  CHECK(*ParseParams("", {}) == "");
  CHECK(*ParseParams("", {"url=http://x/?a:=b", "depth:=2", "empty="}) ==
        R"({"url":"http://x/?a:=b","depth":2,"empty":""})");
  CHECK(*ParseParams("", {"q=say \"hi\""}) == R"({"q":"say \"hi\""})");
  CHECK(*ParseParams("", {"a=1", "a:=[1, 2]"}) == R"({"a":[1, 2]})");
  for (const char* pair : {"novalue", "=x", ":=1", "a:=", "a:={", "a:=b"}) {
    CAPTURE(pair);
    CHECK_FALSE(ParseParams("", {pair}));
  }
}

TEST_CASE("arguments win over --params, which is passed on as it is") {
  CHECK(*ParseParams(R"({ "n": 1.0e2 })", {}) == R"({ "n": 1.0e2 })");
  CHECK(*ParseParams(R"({"n": 12345678901234567890, "m": 1})", {"m=x", "k:=true"}) ==
        R"({"n":12345678901234567890,"m":"x","k":true})");
  for (const char* params : {"[]", "x", "{\"a\"}", "1"}) {
    CAPTURE(params);
    CHECK_FALSE(ParseParams(params, {}));
  }
}

TEST_CASE("names of states are known in any case, and offered when mistyped") {
  const auto* type = v1::Instance::State_descriptor();
  CHECK(*ParseEnum(type, "running", "state") == v1::Instance::RUNNING);
  CHECK(*ParseEnum(type, "Stopped", "state") == v1::Instance::STOPPED);
  CHECK_FALSE(ParseEnum(type, "state_unspecified", "state"));
  CHECK(ParseEnum(type, "runing", "state").error().message ==
        "there is no state \"runing\": did you mean \"running\"? (known: scheduled, planning, "
        "running, paused, stopped)");
}

TEST_CASE("a machine may be named with its version") {
  CHECK(ParseMachineRef("crawler")->id == "crawler");
  CHECK(ParseMachineRef("crawler")->version == 0);
  CHECK(ParseMachineRef("crawler@12")->id == "crawler");
  CHECK(ParseMachineRef("crawler@12")->version == 12);
  for (const char* text : {"crawler@", "crawler@0", "crawler@x", "@1", "a@1x", "a@99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseMachineRef(text));
  }
}

TEST_CASE("what is started may be a package's machine in a version of it") {
  CHECK(*ParseStartRef("etl.load@1.4.0-rc.1+b.2") == MachineRef{"etl.load@1.4.0-rc.1+b.2", 0});
  CHECK(*ParseStartRef("etl.load@2") == MachineRef{"etl.load", 2});
  CHECK(*ParseStartRef("etl.load") == MachineRef{"etl.load", 0});
  for (const char* text : {"crawler@1.4.0", "etl.load@x", "etl.load@"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseStartRef(text));
  }
}

TEST_CASE("labels are KEY=VALUE") {
  v1::StartRequest request;
  CHECK(ParseLabels({"team=a=b", "x="}, request.mutable_labels()));
  CHECK(request.labels().at("team") == "a=b");
  CHECK(request.labels().at("x") == "");
  CHECK_FALSE(ParseLabels({"team"}, request.mutable_labels()));
  CHECK_FALSE(ParseLabels({"=x"}, request.mutable_labels()));
}

TEST_CASE("a count is a number of digits") {
  CHECK(*ParseCount("--max", "0") == 0);
  CHECK(*ParseCount("--max", "1000000") == 1'000'000);
  for (const char* text : {"", "-1", "1x", "4294967296"}) {
    const auto count = ParseCount("--max", text);
    REQUIRE_FALSE(count);
    CHECK(count.error().message.find("--max takes a number") == 0);
  }
}

}  // namespace dfsmr::cli
