// The texts of a schedule, whatever they say, in some zone: cron, every, at, except, from, until, one
// a line; then where to look.
#include "fsm/when/calendar.h"

#include <algorithm>
#include <array>

#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

// Clocks that do what real ones have done: an hour forward and back each year, half an hour, at
// midnight, a whole day once, twice within two days.
ZonePtr MakeZone(size_t which) {
  using std::chrono::hours;
  constexpr std::array<std::string_view, 5> kRules = {
      "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
      "CST5CDT,M3.2.0/0,M11.1.0/1", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"};
  const auto rule = ParsePosixZone(kRules[which % kRules.size()]);
  Check(rule.has_value(), "the rules of the zones are sound");
  const Instant first = FloorSecond(FromMicros(1'325'239'200'000'000));
  const std::vector<Zone::Change> changes = {{first, hours(14)},
                                             {first + hours(24), hours(13)},
                                             {first + hours(48), hours(-10)},
                                             {first + hours(9000), hours(1)}};
  if (which >= kRules.size()) return std::make_shared<Zone>("X", hours(-10), changes, *rule);
  return std::make_shared<Zone>("X", rule->offset, std::vector<Zone::Change>(), *rule);
}

// Each line begins with what it is.
CalendarRules ReadRules(Bytes& bytes) {
  CalendarRules rules;
  for (int texts = 0; texts < 12; ++texts) {
    const std::string_view line = bytes.Line();
    if (line.empty()) break;
    const std::string_view text = line.substr(1);
    switch (line[0]) {
      case 'c':
        if (const auto cron = ParseCron(text)) rules.cron.push_back(cron->rule);
        break;
      case 'e':
        if (const auto every = ParseEvery(text)) rules.every.push_back(*every);
        break;
      case 'a':
        if (const auto at = ParseTimeText(text)) rules.at.push_back(*at);
        break;
      case 'f':
        if (const auto from = ParseTimeText(text)) rules.from = *from;
        break;
      case 'u':
        if (const auto until = ParseTimeText(text)) rules.until = *until;
        break;
      default:
        (void)AddExcept(text, rules);
    }
  }
  return rules;
}

void CheckTimes(const Calendar& calendar, Timestamp after) {
  std::vector<Timestamp> times;
  for (Timestamp time = calendar.Next(after); time != kNever && times.size() < 20;
       time = calendar.Next(time)) {
    Check(time > after && (times.empty() || time > times.back()), "times go forward");
    times.push_back(time);
    (void)calendar.Note(time);
    const Timestamp begin = calendar.Begin("default", "x", time);
    Check(begin >= time && begin < calendar.Next(time), "jitter stays before the next time");
  }
  if (times.empty()) return;
  Check(calendar.Count(after, times.back(), 100) == times.size(), "as many are counted");
  auto before = calendar.Previous(times.back() + Duration(1));
  for (auto time = times.rbegin(); time != times.rend(); ++time) {
    // A search goes a hundred years back, as far as it goes forth.
    Check(before && *before == *time, "the way back has the same times");
    before = calendar.Previous(*time);
  }
  Check(!before || *before <= after, "nothing was left out before the first");
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const ZonePtr zone = MakeZone(bytes.Below(10));
  const auto day = static_cast<int64_t>(bytes.Byte() << 8 | bytes.Byte()) - 8'000;
  const auto after = FromMicros((day * 86'400 + bytes.Byte() * 337) * 1'000'000);
  CalendarRules rules = ReadRules(bytes);
  rules.jitter = std::chrono::hours(bytes.Below(25));
  if (bytes.Chance(64)) rules.count = static_cast<int64_t>(bytes.Below(100)) + 1;
  (void)Summary(rules);
  if (!Problems(rules).empty()) return 0;
  Calendar calendar(rules, zone);
  (void)calendar.Barren(rules, after);
  CheckTimes(calendar, after);
  const Timestamp last = calendar.LastOfCount(after);
  calendar.EndAt(last);
  CheckTimes(calendar, after);
  Check(calendar.Next(last) == kNever || last == kNever, "nothing follows the last");
  return 0;
}
