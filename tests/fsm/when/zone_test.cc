#include "fsm/when/zone.h"

#include <doctest/doctest.h>

#include "tests/fsm/when/times.h"

namespace dfsmr {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

LocalTime Local(std::string_view text) {
  return LocalTime(std::chrono::floor<seconds>(Utc(text)).time_since_epoch());
}
std::string FirstOf(std::string_view zone, std::string_view local) {
  return UtcText(ZoneOf(zone)->First(Local(local)));
}

TEST_CASE("a local time has its instant, one after the gap, or the first of two") {
  CHECK(FirstOf("Europe/Berlin", "2026-03-29T01:59:59") == "2026-03-29T00:59:59Z");
  CHECK(FirstOf("Europe/Berlin", "2026-03-29T02:00") == "2026-03-29T01:00:00Z");
  CHECK(FirstOf("Europe/Berlin", "2026-03-29T02:59:59") == "2026-03-29T01:00:00Z");
  CHECK(FirstOf("Europe/Berlin", "2026-03-29T03:00") == "2026-03-29T01:00:00Z");
  CHECK(FirstOf("Europe/Berlin", "2026-10-25T02:30") == "2026-10-25T00:30:00Z");
  CHECK(FirstOf("Europe/Berlin", "2026-10-25T03:00") == "2026-10-25T02:00:00Z");
  CHECK(FirstOf("Pacific/Apia", "2011-12-30T12:00") == "2011-12-30T10:00:00Z");
}

TEST_CASE("a reading says whether a local time exists, and its second instant") {
  const ZonePtr zone = ZoneOf("Europe/Berlin");
  CHECK(!zone->Read(Local("2026-03-29T02:30")).exists);
  CHECK(zone->Read(Local("2026-03-29T03:00")).exists);
  const auto twice = zone->Read(Local("2026-10-25T02:30"));
  CHECK(twice.exists);
  REQUIRE(twice.second);
  CHECK(*twice.second - twice.first == hours(1));
  CHECK(!zone->Read(Local("2026-10-25T03:00")).second);
  CHECK(!zone->Read(Local("2026-10-25T01:59:59")).second);
}

TEST_CASE("First and Latest turn each other around") {
  for (const char* name : {"Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia",
                           "America/St_Johns", "Africa/Casablanca"}) {
    const ZonePtr zone = ZoneOf(name);
    for (int i = 0; i < 4'000; ++i) {
      const Instant at = Instant(seconds(1'300'000'000)) + i * std::chrono::minutes(87 * 60 + 13);
      const LocalTime latest = zone->Latest(at);
      CHECK(zone->First(latest) <= at);
      CHECK(zone->First(latest + seconds(1)) > at);
    }
  }
}

TEST_CASE("the rule goes on for good") {
  const ZonePtr berlin = ZoneOf("Europe/Berlin");
  CHECK(LocalText(Utc("2077-07-01T12:00:00Z"), *berlin) == "2077-07-01T14:00:00+02:00");
  CHECK(LocalText(Utc("2477-07-01T12:00:00Z"), *berlin) == "2477-07-01T14:00:00+02:00");
  CHECK(LocalText(Utc("9999-12-31T12:00:00Z"), *berlin) == "9999-12-31T13:00:00+01:00");
  // The last Sunday of March 3026 is the 26th.
  CHECK(LocalText(Utc("3026-03-26T00:59:59Z"), *berlin) == "3026-03-26T01:59:59+01:00");
  CHECK(LocalText(Utc("3026-03-26T01:00:00Z"), *berlin) == "3026-03-26T03:00:00+02:00");
  const Zone::Span span = berlin->SpanAt(FloorSecond(Utc("3026-07-01T00:00:00Z")));
  CHECK(UtcText(span.begin) == "3026-03-26T01:00:00Z");
  CHECK(UtcText(span.end) == "3026-10-29T01:00:00Z");
  CHECK(LocalText(Utc("0001-01-01T12:00:00Z"), *berlin) == "0001-01-01T12:53:28+00:53");
}

TEST_CASE("rules of POSIX are read") {
  const auto berlin = Good(ParsePosixZone("CET-1CEST,M3.5.0,M10.5.0/3"));
  CHECK(berlin.offset == hours(1));
  REQUIRE(berlin.summer);
  CHECK(berlin.summer->offset == hours(2));
  CHECK(berlin.summer->begin.In(2026) == Local("2026-03-29T02:00"));
  CHECK(berlin.summer->end.In(2026) == Local("2026-10-25T03:00"));
  const auto nuuk = Good(ParsePosixZone("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"));
  CHECK(nuuk.summer->begin.In(2026) == Local("2026-03-28T23:00"));
  const auto julian = Good(ParsePosixZone("A3B,J60/0:30,365/25:00:30"));
  CHECK(julian.summer->begin.In(2024) == Local("2024-03-01T00:30"));
  CHECK(julian.summer->begin.In(2023) == Local("2023-03-01T00:30"));
  CHECK(julian.summer->end.In(2024) == Local("2025-01-01T01:00:30"));
  CHECK(Good(ParsePosixZone("<+0545>-5:45")).offset == seconds(20'700));
  for (const char* bad : {"", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M1.1.1",
                          "<CET-1", "CET-1 ", "CET-1CEST,M3.5.0,M10.5.0/200", "CET-1CEST,J0,J1"}) {
    CAPTURE(bad);
    CHECK(!ParsePosixZone(bad));
  }
}

TEST_CASE("a zone that has its summer all year has no changes") {
  const Zone zone("X", hours(-5), {}, Good(ParsePosixZone("XXX3EDT4,0/0,J365/23")));
  CHECK(zone.SpanAt(FloorSecond(Utc("2050-07-01T00:00:00Z"))).offset == hours(-4));
  CHECK(zone.SpanAt(FloorSecond(Utc("2050-01-01T00:00:00Z"))).offset == hours(-4));
}

}  // namespace
}  // namespace dfsmr
