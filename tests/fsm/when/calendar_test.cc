#include "fsm/when/calendar.h"

#include <doctest/doctest.h>

#include "tests/fsm/when/times.h"

namespace dfsmr {
namespace {

// The day before the clocks of Berlin go forward, or back, in 2026.
std::string Spring(const Texts& written) {
  return TimesOf(written, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
}
std::string Autumn(const Texts& written) {
  return TimesOf(written, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
}

TEST_CASE("daylight saving is as in the table of the page") {
  CHECK(Spring({.cron = "30 2 * * *"}) == "29 01:00");
  CHECK(Autumn({.cron = "30 2 * * *"}) == "25 00:30");
  CHECK(Spring({.cron = "*/30 2 * * *"}) == "29 01:00");
  CHECK(Autumn({.cron = "*/30 2 * * *"}) == "25 00:00, 25 00:30");
  CHECK(Spring({.cron = "0 2,3 * * *"}) == "29 01:00");
  CHECK(Autumn({.cron = "0 2,3 * * *"}) == "25 00:00, 25 02:00");
  const Texts by_elapsed{.cron = "*/30 * * * *"};
  CHECK(TimesOf(by_elapsed, "2026-03-29T00:30:00Z", "2026-03-29T02:00:00Z") ==
        "29 00:30, 29 01:00, 29 01:30");
  CHECK(TimesOf(by_elapsed, "2026-10-25T00:00:00Z", "2026-10-25T02:30:00Z") ==
        "25 00:00, 25 00:30, 25 01:00, 25 01:30, 25 02:00");
}

TEST_CASE("an hour field that begins with * goes by elapsed time") {
  CHECK(Spring({.cron = "15 */2 29 3 *"}) ==
        "28 23:15, 29 02:15, 29 04:15, 29 06:15, 29 08:15, 29 10:15, 29 12:15, 29 14:15, "
        "29 16:15, 29 18:15, 29 20:15");
  CHECK(TimesOf({.cron = "15 */2 * * *"}, "2026-10-24T22:00:00Z", "2026-10-25T04:00:00Z") ==
        "24 22:15, 25 00:15, 25 01:15, 25 03:15");
  CHECK(TimesOf({.cron = "15 0-23/2 * * *"}, "2026-10-24T22:00:00Z", "2026-10-25T04:00:00Z") ==
        "24 22:15, 25 00:15, 25 03:15");
  CHECK(TimesOf({.cron = "15 ? * * *"}, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z") ==
        "25 00:15, 25 01:15");
}

TEST_CASE("at and every go by the clock, and elapsed time does not") {
  CHECK(Spring({.at = "2026-03-29T02:30"}) == "29 01:00");
  CHECK(Autumn({.at = "2026-10-25T02:30"}) == "25 00:30");
  CHECK(Autumn({.at = "2026-10-25T02:30:00+01:00"}) == "25 01:30");
  CHECK(Spring({.every = "day at 02:30,03:00"}) == "29 01:00");
  CHECK(Autumn({.every = "day at 02:30,03:00"}) == "25 00:30, 25 02:00");
  CHECK(TimesOf({.every = "6h offset 1h"}, "2026-03-29", "2026-03-30") ==
        "29 01:00, 29 07:00, 29 13:00, 29 19:00");
}

TEST_CASE("the examples of every are as on the page") {
  const Texts weeks{.every = "2 weeks on MO,TU", .timezone = "UTC", .from = "2018-01-01"};
  CHECK(TimesOf(weeks, "2018-01-01", "2018-02-01") ==
        "01 00:00, 02 00:00, 15 00:00, 16 00:00, 29 00:00, 30 00:00");
  const Texts months{.every = "2 months on 2MO,3TU", .timezone = "UTC", .from = "2018-01-01"};
  CHECK(TimesOf(months, "2018-01-01", "2018-02-28") == "08 00:00, 16 00:00");
  CHECK(TimesOf(months, "2018-03-01", "2018-04-30") == "12 00:00, 20 00:00");
  const Texts payroll{.every = "2 weeks on FR at 17:00", .from = "2026-01-02"};
  CHECK(TimesOf(payroll, "2026-01-01", "2026-02-01") == "02 16:00, 16 16:00, 30 16:00");
}

TEST_CASE("every takes its day and time from from") {
  CHECK(TimesOf({.every = "month", .timezone = "UTC", .from = "2026-01-31T09:30"}, "2026-01-01",
                "2026-06-01") == "31 09:30, 31 09:30, 31 09:30");
  CHECK(TimesOf({.every = "year", .timezone = "UTC", .from = "2024-02-29"}, "2024-01-01",
                "2033-01-01") == "29 00:00, 29 00:00, 29 00:00");
  CHECK(TimesOf({.every = "3 days", .timezone = "UTC", .from = "2026-01-30T08:00"}, "2026-01-01",
                "2026-02-08") == "30 08:00, 02 08:00, 05 08:00");
  CHECK(TimesOf({.every = "2 days on SA,SU at 8:00", .timezone = "UTC", .from = "2026-01-02"},
                "2026-01-01", "2026-01-20") == "04 08:00, 10 08:00, 18 08:00");
  CHECK(TimesOf({.every = "week", .timezone = "UTC", .from = "2026-01-07"}, "2026-01-01",
                "2026-01-20") == "07 00:00, 14 00:00");
  // In the zone: 23:00Z is midnight of Berlin.
  CHECK(TimesOf({.every = "month", .from = "2026-01-31T23:00:00Z"}, "2026-01-01", "2026-05-01") ==
        "31 23:00, 28 23:00, 31 22:00, 30 22:00");
  CHECK(TimesOf({.every = "7h", .timezone = "UTC", .from = "2026-01-01T00:00:30"}, "2026-01-01",
                "2026-01-02") == "01 00:00:30, 01 07:00:30, 01 14:00:30, 01 21:00:30");
}

TEST_CASE("days of a year are counted within the year") {
  CHECK(TimesOf({.every = "year on 1MO,5FR,LSU", .timezone = "UTC"}, "2026-01-01", "2027-01-01") ==
        "05 00:00, 30 00:00, 27 00:00");
  // The fifth Sunday of 2027 is January 31, the fifth Monday February 1.
  CHECK(TimesOf({.every = "year on 5SU,5MO", .timezone = "UTC"}, "2027-01-01", "2028-01-01") ==
        "31 00:00, 01 00:00");
  CHECK(TimesOf({.every = "month on 5MO,LFR", .timezone = "UTC"}, "2026-01-01", "2026-04-01") ==
        "30 00:00, 27 00:00, 27 00:00, 30 00:00");
}

TEST_CASE("fields of cron") {
  auto in_november = [](std::string_view cron) {
    return TimesOf({.cron = cron, .timezone = "UTC"}, "2026-11-01", "2026-12-01");
  };
  CHECK(in_november("0 0 L * *") == "30 00:00");
  CHECK(in_november("0 0 * * 5L") == "27 00:00");
  CHECK(in_november("0 0 * * fril") == "27 00:00");
  CHECK(in_november("0 0 * * FRI#2,0#1,7#5") == "01 00:00, 13 00:00, 29 00:00");
  CHECK(in_november("0 0 1-7 nov ?") ==
        "01 00:00, 02 00:00, 03 00:00, 04 00:00, 05 00:00, 06 00:00, 07 00:00");
  CHECK(in_november("0 0 28 OCT-FEB *") == "28 00:00");
  CHECK(in_november("0 0 28 DEC-OCT *") == "");
  CHECK(in_november("0 0 1-8 * FRI-MON") != "");  // either
  CHECK(TimesOf({.cron = "0 0 * * FRI-MON", .timezone = "UTC"}, "2026-11-02", "2026-11-10") ==
        "02 00:00, 06 00:00, 07 00:00, 08 00:00, 09 00:00");
  CHECK(in_november("0 0 13 * FRI") == "06 00:00, 13 00:00, 20 00:00, 27 00:00");
  CHECK(in_november("0 0 */10 * SUN") == "01 00:00");  // * is not given: both
  CHECK(in_november("0 0 11/10 * *") == "11 00:00, 21 00:00");
  CHECK(TimesOf({.cron = "0 0 * * 1/2", .timezone = "UTC"}, "2026-11-01", "2026-11-08") ==
        "01 00:00, 02 00:00, 04 00:00, 06 00:00");
  CHECK(TimesOf({.cron = "5/20 12 * * *", .timezone = "UTC"}, "2026-11-01", "2026-11-02") ==
        "01 12:05, 01 12:25, 01 12:45");
  CHECK(TimesOf({.cron = "15,45 0 12 1 11 *", .timezone = "UTC"}, "2026-11-01", "2026-11-02") ==
        "01 12:00:15, 01 12:00:45");
  CHECK(TimesOf({.cron = "@Weekly;@monthly;@yearly", .timezone = "UTC"}, "2026-12-25",
                "2027-01-05") == "27 00:00, 01 00:00, 03 00:00");
}

TEST_CASE("all times are united, each once") {
  CHECK(TimesOf({.cron = "0 12 * * *;0 6,12 * * *",
                 .every = "day at 18:00",
                 .at = "2026-11-01T12:00:00Z;2026-11-01",
                 .timezone = "UTC"},
                "2026-11-01", "2026-11-02") == "01 00:00, 01 06:00, 01 12:00, 01 18:00");
}

TEST_CASE("what is excepted is left out as the rule says it, before a gap moves it") {
  CHECK(TimesOf({.cron = "0 9 * * *", .except = "2026-11-02;* * * * SUN", .timezone = "UTC"},
                "2026-11-01", "2026-11-05") == "03 09:00, 04 09:00");
  CHECK(Spring({.cron = "*/30 2 * * *", .except = "0 2 * * *"}) == "29 01:00");
  CHECK(Spring({.cron = "*/30 2 * * *", .except = "* 2 * * *"}) == "");
  CHECK(Spring({.cron = "30 2 * * *", .except = "* 3 * * *"}) == "29 01:00");
  // Whole minutes, and the same seconds.
  CHECK(TimesOf({.every = "20s", .except = "0 * * * *;40 1 * * * *", .timezone = "UTC"},
                "2026-11-01T00:00:00", "2026-11-01T00:02:00") == "01 00:01, 01 00:01:20");
  CHECK(TimesOf({.every = "1s", .except = "* 0-22 * * *", .timezone = "UTC"},
                "2026-11-01T22:59:58Z", "2026-11-01T23:00:02Z") == "01 23:00, 01 23:00:01");
  CHECK(TimesOf(
            {.at = "2026-11-01T10:00;2026-11-01T11:00", .except = "0 10 * * *", .timezone = "UTC"},
            "2026-11-01", "2026-11-02") == "01 11:00");
}

TEST_CASE("from and until are inclusive, and a date is its whole day") {
  const Texts hours{.cron = "0 */6 * * *", .from = "2026-11-02", .until = "2026-11-03"};
  CHECK(TimesOf(hours, "2026-11-01", "2026-11-05") ==
        "01 23:00, 02 05:00, 02 11:00, 02 17:00, 02 23:00, 03 05:00, 03 11:00, 03 17:00");
  const Texts exact{
      .cron = "0 */6 * * *", .from = "2026-11-02T06:00", .until = "2026-11-02T17:00:00Z"};
  CHECK(TimesOf(exact, "2026-11-01", "2026-11-05") == "02 05:00, 02 11:00, 02 17:00");
  const Calendar calendar = CalendarOf(exact);
  CHECK(calendar.Next(Utc("2026-11-02T17:00:00Z")) == kNever);
  CHECK(!calendar.Previous(Utc("2026-11-02T05:00:00Z")));
  CHECK(calendar.Previous(kNever) == Utc("2026-11-02T17:00:00Z"));
}

TEST_CASE("next and previous are strict, to the microsecond") {
  const Calendar calendar = CalendarOf({.cron = "0 12 * * *", .timezone = "UTC"});
  const Timestamp noon = Utc("2026-11-01T12:00:00Z");
  CHECK(calendar.Next(noon - Duration(1)) == noon);
  CHECK(calendar.Next(noon) == Utc("2026-11-02T12:00:00Z"));
  CHECK(calendar.Previous(noon + Duration(1)) == noon);
  CHECK(calendar.Previous(noon) == Utc("2026-10-31T12:00:00Z"));
}

TEST_CASE("count takes the first times since from, after except") {
  const Timestamp defined = Utc("2026-11-01T12:00:00Z");
  Calendar calendar =
      CalendarOf({.cron = "0 12 * * *", .except = "2026-11-02", .timezone = "UTC", .count = 3});
  const Timestamp last = calendar.LastOfCount(defined);
  CHECK(last == Utc("2026-11-04T12:00:00Z"));
  calendar.EndAt(last);
  CHECK(calendar.Next(Utc("2026-11-03T12:00:00Z")) == last);
  CHECK(calendar.Next(last) == kNever);
  const Texts elapsed{.every = "1s", .timezone = "UTC", .from = "2026-01-01", .count = 1'000'000};
  CHECK(CalendarOf(elapsed).LastOfCount(defined) ==
        Utc("2026-01-01T00:00:00Z") + std::chrono::seconds(999'999));
  const Texts ended{.cron = "@daily", .timezone = "UTC", .until = "2026-11-03", .count = 3};
  CHECK(CalendarOf(ended).LastOfCount(defined) == kNever);
  CHECK(CalendarOf({.cron = "@daily"}).LastOfCount(defined) == kNever);
}

TEST_CASE("times of a range are counted, up to a number") {
  const Calendar calendar = CalendarOf({.cron = "0 * * * *;0 12 * * *", .timezone = "UTC"});
  const Timestamp noon = Utc("2026-11-01T12:00:00Z");
  CHECK(calendar.Count(noon, noon + std::chrono::hours(24), 10'000) == 24);
  CHECK(calendar.Count(noon - Duration(1), noon, 10'000) == 1);
  CHECK(calendar.Count(noon, noon, 10'000) == 0);
  CHECK(calendar.Count(noon, kNever, 10'000) == 10'000);
}

TEST_CASE("the rarest day is found, and what never comes is not") {
  const Calendar leap = CalendarOf({.cron = "0 0 * 2 FRI#5", .timezone = "UTC"});
  CHECK(UtcText(leap.Next(Utc("2026-11-01"))) == "2036-02-29T00:00:00Z");
  CHECK(UtcText(leap.Next(Utc("2092-03-01"))) == "2104-02-29T00:00:00Z");
  CHECK(CalendarOf({.cron = "0 0 30 2 *"}).Next(Utc("2026-11-01")) == kNever);
  CHECK(CalendarOf({.cron = "* * * * * *", .except = "* * * * *"}).Next(Utc("2026-11-01")) ==
        kNever);
  CHECK(CalendarOf({.every = "2s", .except = "*/2 * * * * *"}).Next(Utc("2026-11-01")) == kNever);
  std::string each_second;  // sixty texts that together leave out everything
  for (int i = 0; i < 60; ++i) each_second += std::to_string(i) + " * * * * *;";
  CHECK(CalendarOf({.cron = "* * * * * *", .every = "1s;2s;day", .except = each_second})
            .Next(Utc("2026-11-01")) == kNever);
  CHECK(CalendarOf({.cron = "* * * * *"}).Next(kNever) == kNever);
  CHECK(CalendarOf({.cron = "* * * * *"}).Next(Utc("9999-12-31T23:59:00Z")) == kNever);
}

std::string Found(const std::vector<CalendarProblem>& problems) {
  std::string text;
  for (const CalendarProblem& problem : problems) {
    text += problem.key + "[" + std::to_string(problem.index) + "]: " + problem.message + "\n";
  }
  return text;
}
std::string Barren(const Texts& written, std::string_view defined) {
  return Found(CalendarOf(written).Barren(RulesOf(written), Utc(defined)));
}

TEST_CASE("rules without a time in eight years are found") {
  CHECK(Barren({.cron = "@daily;0 0 30 2 *"}, "2026-11-01") ==
        "cron[1]: it has no time in the 8 years from its definition, and none in 100\n");
  CHECK(Barren({.every = "100000 days", .from = "2026-01-01"}, "2026-11-01") ==
        "every[0]: it has no time in the 8 years from its definition, and none in 100\n");
  CHECK(Barren({.cron = "0 0 * 2 FRI#5", .timezone = "UTC"}, "2026-11-01") ==
        "cron[0]: it has no time in the 8 years from its definition; its next one is "
        "2036-02-29T00:00:00+00:00\n");
  CHECK(Barren({.cron = "0 0 * 2 FRI#5"}, "2030-11-01") == "");
  CHECK(Barren({.cron = "0 0 29 2 *"}, "2026-11-01") == "");
  CHECK(Barren({.every = "day", .except = "* * * * *"}, "2026-11-01") ==
        "every[0]: it has no time in the 8 years from its definition: `except` leaves all of them "
        "out\n");
  CHECK(Barren({.cron = "@daily", .until = "2020-01-01"}, "2026-11-01") == "");
  CHECK(Barren({.at = "2020-01-01"}, "2026-11-01") == "");
  CHECK(Barren({.cron = "@daily", .from = "2026-12-02", .until = "2026-12-01"}, "2026-11-01") !=
        "");
}

TEST_CASE("what is wrong with rules together is found") {
  auto found = [](const Texts& written) { return Found(Problems(RulesOf(written))); };
  CHECK(found({}) == "[0]: it has no time: write cron, every or at\n");
  CHECK(found({.every = "15m;2 weeks on MO;month;day"}) ==
        "every[1]: it needs `from`: a number of days, weeks, months or years is counted from it\n"
        "every[2]: it needs `from`: without `on` its day is taken\n");
  CHECK(found({.every = "2 weeks on MO;month", .from = "2026-01-01"}) == "");
  CHECK(found({.cron = "@daily", .count = 1'000'001}) ==
        "count[0]: 1000001 is out of range; 1 to 1000000 can be told\n");
  CHECK(found({.cron = "@daily", .jitter = std::chrono::hours(25)}) ==
        "jitter[0]: 25h is out of range; up to 1d can be told\n");
  CalendarRules rules = RulesOf({.cron = "@daily"});
  rules.every.resize(100);
  rules.at.resize(1001);
  CHECK(Problems(rules).size() == 2);
}

TEST_CASE("jitter is as on the page, and less than the distance to the next time") {
  using std::chrono::milliseconds;
  const Timestamp time{std::chrono::seconds(1'767'373'200)};
  CHECK(JitterOf("default", "payroll", time, kNever, std::chrono::minutes(5)) ==
        milliseconds(270'357));
  const Calendar calendar = CalendarOf({.cron = "* * * * * *", .jitter = std::chrono::hours(24)});
  for (int i = 0; i < 100; ++i) {
    const Timestamp at = time + std::chrono::seconds(i);
    const Timestamp begin = calendar.Begin("default", "payroll", at);
    CHECK(begin >= at);
    CHECK(begin < at + std::chrono::seconds(1));
  }
}

TEST_CASE("a plan says what is odd") {
  const auto plan =
      CalendarOf({.cron = "30 2 * * *"}).Plan("default", "nightly", Utc("2026-03-28T00:00:00Z"), 3);
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].local == "2026-03-28T02:30:00+01:00");
  CHECK(plan[0].note == "");
  CHECK(plan[1].local == "2026-03-29T03:00:00+02:00");
  CHECK(plan[1].note == "02:30 does not exist on this day");
  CHECK(plan[1].begin == plan[1].time);
  CHECK(plan[2].local == "2026-03-30T02:30:00+02:00");
  auto notes = [](const Texts& written, std::string_view after, size_t most) {
    std::string text;
    for (const auto& time : CalendarOf(written).Plan("default", "x", Utc(after), most)) {
      text += time.local + " " + time.note + "\n";
    }
    return text;
  };
  CHECK(notes({.cron = "0 * * * *"}, "2026-10-24T23:30:00Z", 3) ==
        "2026-10-25T02:00:00+02:00 02:00 comes twice on this day: the first time\n"
        "2026-10-25T02:00:00+01:00 02:00 comes twice on this day: the second time\n"
        "2026-10-25T03:00:00+01:00 \n");
  CHECK(notes({.cron = "0 * * * *"}, "2026-03-29T00:30:00Z", 1) ==
        "2026-03-29T03:00:00+02:00 \n");  // nothing is moved there
  CHECK(notes({.cron = "0 9 * * *", .timezone = "Pacific/Apia"}, "2011-12-30T00:00:00Z", 2) ==
        "2011-12-31T00:00:00+14:00 2011-12-30 09:00 does not exist\n"
        "2011-12-31T09:00:00+14:00 \n");
}

TEST_CASE("times as texts") {
  const Timestamp time = Utc("2026-11-23T01:30:00Z");
  CHECK(StampText(time) == "20261123T013000Z");
  CHECK(UtcText(time) == "2026-11-23T01:30:00Z");
  CHECK(UtcText(time + std::chrono::milliseconds(250)) == "2026-11-23T01:30:00.25Z");
  CHECK(LocalText(time, *ZoneOf("Europe/Berlin")) == "2026-11-23T02:30:00+01:00");
  CHECK(LocalText(time, *ZoneOf("America/St_Johns")) == "2026-11-22T22:00:00-03:30");
  CHECK(LocalDateText(time, *ZoneOf("America/St_Johns")) == "2026-11-22");
  CHECK(LocalText(time, *ZoneOf("UTC")) == "2026-11-23T01:30:00+00:00");
}

}  // namespace
}  // namespace dfsmr
