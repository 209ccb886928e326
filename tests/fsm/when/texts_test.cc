// What texts are refused, and with which words; what is odd about them; and what they are in words.
#include <doctest/doctest.h>

#include "tests/fsm/when/times.h"

namespace dfsmr {
namespace {

std::string CronError(std::string_view text) {
  const auto cron = ParseCron(text);
  return cron ? "" : cron.error().message;
}
std::string EveryError(std::string_view text) {
  const auto every = ParseEvery(text);
  return every ? "" : every.error().message;
}
bool Says(const std::string& message, std::string_view words) {
  INFO(message);
  return message.find(words) != std::string::npos;
}

TEST_CASE("a cron text that cannot be read says which field, and what would be right") {
  CHECK(Says(CronError(""), "has 0 fields; a cron text has five"));
  CHECK(Says(CronError("* * * *"), "has 4 fields"));
  CHECK(Says(CronError("* * * * * * *"), "has 7 fields"));
  CHECK(CronError("60 * * * *") == "minute '60' is out of range; it takes 0 to 59");
  CHECK(CronError("0 24 * * *") == "hour '24' is out of range; it takes 0 to 23");
  CHECK(CronError("0 0 0 * *") == "day '0' is out of range; it takes 1 to 31");
  CHECK(CronError("0 0 * 13 *") == "month '13' is out of range; it takes 1 to 12 or JAN to DEC");
  CHECK(CronError("0 0 * * 8") == "weekday '8' is out of range; it takes 0 to 7 or SUN to SAT");
  CHECK(CronError("60 0 0 * * *") == "second '60' is out of range; it takes 0 to 59");
  CHECK(Says(CronError("0 0 * FOO *"), "month 'FOO' is none that there is; it takes 1 to 12"));
  CHECK(Says(CronError("0 0 * * MONDAY"), "weekday 'MONDAY'"));
  CHECK(Says(CronError("1,,2 0 * * *"), "minute '' lacks a value"));
  CHECK(Says(CronError("5- 0 * * *"), "minute '5-' lacks a value"));
  CHECK(Says(CronError("-5 0 * * *"), "lacks a value"));
  CHECK(Says(CronError("30-10 0 * * *"), "minute '30-10' goes backwards"));
  CHECK(Says(CronError("*/0 0 * * *"), "after / stands 1 to 60"));
  CHECK(Says(CronError("*/61 0 * * *"), "after / stands 1 to 60"));
  CHECK(Says(CronError("*/x 0 * * *"), "after / stands 1 to 60"));
  CHECK(Says(CronError("1.5 0 * * *"), "minute '1.5' is none"));
  CHECK(Says(CronError("0 0 * * FRI#6"), "after # stands 1 to 5"));
  CHECK(Says(CronError("0 0 * * FRI#"), "after # stands 1 to 5"));
  CHECK(Says(CronError("0 0 * * L"), "5L or FRIL"));
  CHECK(Says(CronError("0 0 15W * *"), "there is no W"));
  CHECK(Says(CronError("H 0 * * *"), "`jitter` spreads schedules"));
  CHECK(Says(CronError("@dayly"), "did you mean '@daily'?"));
  CHECK(Says(CronError("@reboot"), "is none of @hourly"));
  CHECK(CronError(" 0\t0  * * * ") == "");
}

TEST_CASE("day and weekday both given is odd, and taken") {
  auto warning = [](std::string_view text) { return Good(ParseCron(text)).warning; };
  CHECK(Says(warning("0 0 13 * FRI"), "day and weekday are both given"));
  CHECK(warning("0 0 */2 * FRI") == "");
  CHECK(warning("0 0 13 * ?") == "");
  CalendarRules rules;
  CHECK(Says(Good(AddExcept("* * 13 * FRI", rules)), "both given"));
}

TEST_CASE("an every that cannot be read says why") {
  CHECK(Says(EveryError(""), "it is empty"));
  CHECK(Says(EveryError("15"), "'15' has no unit; write 15s"));
  CHECK(Says(EveryError("0s"), "1s or more"));
  CHECK(Says(EveryError("500ms"), "not a whole number of seconds"));
  CHECK(Says(EveryError("1.5h"), "") == true);
  CHECK(EveryError("1.5h") == "");
  CHECK(Says(EveryError("6h offset"), "'offset' cannot follow '6h'"));
  CHECK(Says(EveryError("6h at 09:00"), "'at' cannot follow '6h'"));
  CHECK(Says(EveryError("6h offset 6h"), "the offset '6h' is not less than '6h'"));
  CHECK(Says(EveryError("2 hours"), "elapsed time is written 2h"));
  CHECK(Says(EveryError("weak on MO"), "did you mean 'week'?"));
  CHECK(Says(EveryError("0 days"), "'0' is out of range"));
  CHECK(Says(EveryError("day on FRI"), "'FRI' is no weekday"));
  CHECK(Says(EveryError("month on 6MO"), "'6MO' is no weekday"));
  CHECK(Says(EveryError("month on -1MO"), "'-1MO' is no weekday"));
  CHECK(Says(EveryError("week on 2MO"), "counted within a month or year"));
  CHECK(Says(EveryError("day on LFR"), "counted within a month or year"));
  CHECK(Says(EveryError("week on"), "nothing follows 'on'"));
  CHECK(Says(EveryError("day at 25:00"), "'25:00' is no time of day"));
  CHECK(Says(EveryError("day at 09:00 on MO"), "'on' cannot stand there"));
  CHECK(Says(EveryError("day at 09:00 at 10:00"), "'at' cannot stand there"));
  CHECK(Says(EveryError("week on MO TU"), "'TU' cannot follow 'MO'"));
  CHECK(Says(EveryError("week at 09:00,"), "'' is no time of day"));
  CHECK(EveryError("1 Week on mo, tu at 9:00, 17:30:15") == "");
}

TEST_CASE("times are read with an offset, of the local clock, or as a date") {
  CHECK(Good(ParseTimeText("2026-01-02")).kind == WrittenTime::Kind::kDate);
  CHECK(Good(ParseTimeText("2026-01-02T17:00")).kind == WrittenTime::Kind::kLocal);
  CHECK(Good(ParseTimeText("2026-01-02 17:00:30")).kind == WrittenTime::Kind::kLocal);
  CHECK(Utc("2026-01-02T17:00:00+01:00") == Utc("2026-01-02T16:00:00Z"));
  CHECK(Utc("2026-01-02T17:00:00.25z") ==
        Utc("2026-01-02T17:00:00Z") + std::chrono::milliseconds(250));
  CHECK(Utc("2026-01-02T17:00:00-05:30") == Utc("2026-01-02T22:30:00Z"));
  for (const char* text :
       {"", "today", "2026-1-2", "2026-02-29", "2026-13-01", "0000-01-01", "2026-01-02T",
        "2026-01-02T24:00", "2026-01-02T1:00", "2026-01-02T10:00:60Z", "2026-01-02T10:00:00+1",
        "2026-01-02T10:00:00+25:00", "2026-01-02T10:00:00.Z", "2026-01-02x10:00",
        "2026-01-02T10:00 Z", "2026-01-02T10:00.5Z"}) {
    CAPTURE(text);
    const auto moment = ParseTimeText(text);
    CHECK(!moment);
    if (!moment) CHECK(Says(moment.error().message, "; write a date and a time"));
  }
}

TEST_CASE("bounds are whole seconds within") {
  const auto zone = ZoneOf("Europe/Berlin");
  const WrittenTime moment = Good(ParseTimeText("2026-01-02T17:00:00.5Z"));
  CHECK(UtcText(moment.Begin(*zone)) == "2026-01-02T17:00:01Z");
  CHECK(UtcText(moment.End(*zone)) == "2026-01-02T17:00:00Z");
  const WrittenTime day = Good(ParseTimeText("2026-03-29"));
  CHECK(UtcText(day.Begin(*zone)) == "2026-03-28T23:00:00Z");
  CHECK(UtcText(day.End(*zone)) == "2026-03-29T21:59:59Z");
  // Where midnight is skipped, and where it comes twice.
  CHECK(UtcText(Good(ParseTimeText("2026-03-08")).Begin(*ZoneOf("America/Havana"))) ==
        "2026-03-08T05:00:00Z");
  CHECK(UtcText(Good(ParseTimeText("2026-11-01")).Begin(*ZoneOf("America/Havana"))) ==
        "2026-11-01T04:00:00Z");
}

TEST_CASE("except takes cron texts and dates") {
  CalendarRules rules;
  CHECK(Good(AddExcept("2026-12-24", rules)) == "");
  CHECK(Good(AddExcept("@hourly", rules)) == "");
  CHECK(rules.except_dates.size() == 1);
  CHECK(rules.except.size() == 1);
  const auto bad = AddExcept("2026-12-32", rules);
  REQUIRE(!bad);
  CHECK(Says(bad.error().message, "neither a date (2026-12-24) nor a cron text"));
}

TEST_CASE("the times in words") {
  auto cron = [](std::string_view text) { return Summary(RulesOf({.cron = text})); };
  CHECK(cron("30 2 * * MON-FRI") == "at 02:30 on Monday to Friday, Europe/Berlin");
  CHECK(cron("30 2 * * *") == "at 02:30 every day, Europe/Berlin");
  CHECK(cron("0 9,17 * * SUN") == "at 09:00 and 17:00 on Sunday, Europe/Berlin");
  CHECK(cron("* * * * *") == "every minute, Europe/Berlin");
  CHECK(cron("* * * * * *") == "every second, Europe/Berlin");
  CHECK(cron("*/15 * * * *") == "every 15 minutes, Europe/Berlin");
  CHECK(cron("@hourly") == "every hour, Europe/Berlin");
  CHECK(cron("5 * * * *") == "at minute 5 of every hour, Europe/Berlin");
  CHECK(cron("0 */2 * * *") == "every 2 hours, Europe/Berlin");
  CHECK(cron("*/15 9-17 * * 1-5") ==
        "every 15 minutes of hours 9 to 17 on Monday to Friday, Europe/Berlin");
  CHECK(cron("0 0 1,L * *") == "at 00:00 on days 1 and the last of the month, Europe/Berlin");
  CHECK(cron("0 0 L 3,4,5,12 *") ==
        "at 00:00 on the last day of the month in March to May and December, Europe/Berlin");
  CHECK(cron("0 0 13 * FRI") == "at 00:00 on day 13 of the month or on Friday, Europe/Berlin");
  CHECK(cron("0 0 * * FRI#2,5L") ==
        "at 00:00 on the second Friday of the month and the last Friday of the month, "
        "Europe/Berlin");
  CHECK(cron("*/10 * 12 * * *") == "every 10 seconds of hour 12, Europe/Berlin");
  CHECK(Summary(RulesOf({.every = "2 weeks on FR at 17:00",
                         .from = "2026-01-02",
                         .jitter = std::chrono::minutes(5)})) ==
        "every 2 weeks on Friday at 17:00, Europe/Berlin, from 2026-01-02, up to 5m later");
  CHECK(Summary(RulesOf({.every = "6h offset 1h;month on 2MO,LFR",
                         .at = "2026-12-24T18:00",
                         .except = "2026-12-24;* * 25-26 12 *",
                         .timezone = "UTC",
                         .until = "2027-01-01T00:00:00Z",
                         .count = 10})) ==
        "every 6h offset 1h, every month on the second Monday of the month and the last Friday of "
        "the month and at 2026-12-24T18:00:00, UTC, until 2027-01-01T00:00:00Z, 10 times, except "
        "on days 25 and 26 of the month in December and on 2026-12-24");
}

}  // namespace
}  // namespace dfsmr
