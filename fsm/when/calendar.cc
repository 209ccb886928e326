#include "fsm/when/calendar.h"

#include <algorithm>
#include <utility>

#include "fsm/base/names.h"
#include "fsm/when/search.h"

namespace dfsmr {
namespace {

using std::chrono::days;
using std::chrono::seconds;

// How far a search goes. The rarest day that a rule can say is February 29 on one weekday: its
// times are up to 40 years apart.
constexpr seconds kHorizon = days(36'525);
// Of elapsed time whose every time may be left out, so many are looked at.
constexpr int kElapsedSteps = 1'000'000;

constexpr CronRule MakeEverySecond() {
  CronRule rule;
  rule.seconds = rule.minutes = (uint64_t{1} << 60) - 1;
  rule.hours = (1U << 24) - 1;
  rule.days = ~1U;
  rule.months = 0x1ffe;
  rule.weekdays.every = 0x7f;
  return rule;
}
constexpr CronRule kEverySecond = MakeEverySecond();

// A span of a zone cut to a range, as the local clock shows it.
struct Stretch {
  LocalTime low;
  LocalTime high;
};
Stretch Cut(const Zone::Span& span, Instant low, Instant high) {
  return {span.Local(std::max(span.begin, low)), span.Local(std::min(span.end - seconds(1), high))};
}

template <typename Direction, typename Rule>
std::optional<LocalTime> FindWithin(const Rule& rule, const Exceptions& except, LocalTime low,
                                    LocalTime high) {
  if (low > high) return std::nullopt;
  return Direction::kForward ? FindLocal<Direction>(rule, except, low, high)
                             : FindLocal<Direction>(rule, except, high, low);
}

// A rule of the local clock: each of its local times counts once.
template <typename Direction, typename Rule>
std::optional<Instant> FindByClock(const Rule& rule, const Exceptions& except, const Zone& zone,
                                   Instant low, Instant high) {
  const LocalTime first = zone.Latest(low - seconds(1)) + seconds(1);
  const auto found = FindWithin<Direction>(rule, except, first, zone.Latest(high));
  if (!found) return std::nullopt;
  return zone.First(*found);
}

// A rule of elapsed time: each instant whose local time matches.
template <typename Direction>
std::optional<Instant> FindByElapsed(const CronRule& rule, const Exceptions& except,
                                     const Zone& zone, Instant low, Instant high) {
  while (low <= high) {
    const Zone::Span span = zone.SpanAt(Direction::kForward ? low : high);
    const Stretch stretch = Cut(span, low, high);
    const auto found = FindWithin<Direction>(rule, except, stretch.low, stretch.high);
    if (found) return span.At(*found);
    if (Direction::kForward) {
      low = span.end;
    } else {
      high = span.begin - seconds(1);
    }
  }
  return std::nullopt;
}

// `at`, or the next of the rule's times beyond it.
template <typename Direction>
Instant Align(const AnchoredEvery& every, Instant at) {
  const int64_t n = every.rule.n;
  const int64_t past = ((at - every.base).count() % n + n) % n;
  if (past == 0) return at;
  return Direction::kForward ? at + seconds(n - past) : at - seconds(past);
}

template <typename Direction>
std::optional<Instant> FindElapsed(const AnchoredEvery& every, const Exceptions& except,
                                   const Zone& zone, Instant low, Instant high) {
  Instant at = Align<Direction>(every, Direction::kForward ? low : high);
  for (int step = 0; step < kElapsedSteps && low <= at && at <= high; ++step) {
    if (except.empty()) return at;
    const Zone::Span span = zone.SpanAt(at);
    const Stretch stretch = Direction::kForward ? Cut(span, at, high) : Cut(span, low, at);
    const auto kept = FindWithin<Direction>(kEverySecond, except, stretch.low, stretch.high);
    if (kept && span.At(*kept) == at) return at;
    const Instant beyond = Direction::kForward ? span.end : span.begin - seconds(1);
    at = Align<Direction>(every, kept ? span.At(*kept) : beyond);
  }
  return std::nullopt;
}

std::optional<AnchoredEvery::From> FromOf(const CalendarRules& rules, const Zone& zone) {
  if (!rules.from) return std::nullopt;
  // To the second, also where `from` has a fraction: what lies before it is left out anyway.
  const WrittenTime& from = *rules.from;
  const Instant at = from.kind == WrittenTime::Kind::kInstant
                         ? FloorSecond(Timestamp(from.since_1970))
                         : zone.First(from.Local(zone));
  return AnchoredEvery::From{at, from.Local(zone)};
}

Timestamp ToTimestamp(Instant at) { return Timestamp(at); }

}  // namespace

Calendar::Calendar(const CalendarRules& rules, ZonePtr zone)
    : zone_(std::move(zone)),
      cron_(rules.cron),
      except_(rules.except, rules.except_dates),
      count_(rules.count),
      from_is_written_(rules.from.has_value()),
      jitter_(rules.jitter) {
  const auto from = FromOf(rules, *zone_);
  for (const EveryRule& every : rules.every) every_.emplace_back(every, from);
  for (const WrittenTime& moment : rules.at) {
    const LocalTime local = moment.Local(*zone_);
    if (except_.Has(local)) continue;
    const bool absolute = moment.kind == WrittenTime::Kind::kInstant;
    at_.push_back(
        {absolute ? FloorSecond(Timestamp(moment.since_1970)) : zone_->First(local), local});
  }
  std::ranges::sort(at_);
  if (rules.from) first_ = std::max(first_, rules.from->Begin(*zone_));
  if (rules.until) last_ = std::min(last_, rules.until->End(*zone_));
}

template <typename Direction>
std::optional<Instant> Calendar::FindAt(Instant low, Instant high) const {
  const auto begin = std::ranges::lower_bound(at_, low, {}, &AtTime::at);
  const auto end = std::ranges::upper_bound(at_, high, {}, &AtTime::at);
  if (begin >= end) return std::nullopt;
  return Direction::kForward ? begin->at : std::prev(end)->at;
}

template <typename Direction>
std::optional<Instant> Calendar::FindOf(size_t rule, Instant low, Instant high) const {
  if (low > high) return std::nullopt;
  if (rule < cron_.size()) {
    const CronRule& cron = cron_[rule];
    return cron.elapsed ? FindByElapsed<Direction>(cron, except_, *zone_, low, high)
                        : FindByClock<Direction>(cron, except_, *zone_, low, high);
  }
  rule -= cron_.size();
  if (rule == every_.size()) return FindAt<Direction>(low, high);
  const AnchoredEvery& every = every_[rule];
  return every.rule.unit == EveryRule::Unit::kElapsed
             ? FindElapsed<Direction>(every, except_, *zone_, low, high)
             : FindByClock<Direction>(every, except_, *zone_, low, high);
}

template <typename Direction>
std::optional<Instant> Calendar::Find(Instant low, Instant high) const {
  std::optional<Instant> best;
  for (size_t rule = 0; rule < rules(); ++rule) {
    const auto found = FindOf<Direction>(rule, low, high);
    if (!found) continue;
    best = found;
    if (Direction::kForward) {
      high = *found - seconds(1);
    } else {
      low = *found + seconds(1);
    }
  }
  return best;
}

Timestamp Calendar::Next(Timestamp after) const {
  if (after >= ToTimestamp(last_)) return kNever;
  const Instant low = std::max(first_, FloorSecond(after) + seconds(after < kFirstInstant ? 0 : 1));
  const auto found = Find<Forward>(low, std::min(last_, low + kHorizon));
  return found ? ToTimestamp(*found) : kNever;
}

std::optional<Timestamp> Calendar::Previous(Timestamp before) const {
  if (before <= ToTimestamp(first_)) return std::nullopt;
  const Instant high = std::min(last_, CeilSecond(before) - seconds(before > kLastInstant ? 0 : 1));
  const auto found = Find<Backward>(std::max(first_, high - kHorizon), high);
  if (!found) return std::nullopt;
  return ToTimestamp(*found);
}

// Time after time, from the first that is not before `low`: each rule is asked anew only when its
// own time has been taken.
class Calendar::Walk {
 public:
  Walk(const Calendar& calendar, Instant low) : calendar_(calendar), low_(low) {
    for (size_t rule = 0; rule < calendar.rules(); ++rule) next_.push_back(After(rule, low));
  }
  // nullopt: there are no more.
  std::optional<Instant> Next() {
    const auto next = std::ranges::min_element(next_);
    if (*next == kNone) return std::nullopt;
    const Instant taken = *next;
    for (size_t rule = 0; rule < next_.size(); ++rule) {
      if (next_[rule] == taken) next_[rule] = After(rule, taken + seconds(1));
    }
    return taken;
  }

 private:
  static constexpr Instant kNone = Instant::max();

  Instant After(size_t rule, Instant low) const {
    const Instant high = std::min(calendar_.last_, low + kHorizon);
    return calendar_.FindOf<Forward>(rule, low, high).value_or(kNone);
  }

  const Calendar& calendar_;
  Instant low_;
  std::vector<Instant> next_;
};

uint64_t Calendar::Count(Timestamp after, Timestamp until, uint64_t most) const {
  if (after >= ToTimestamp(last_) || until <= after) return 0;
  Walk walk(*this, std::max(first_, FloorSecond(after) + seconds(after < kFirstInstant ? 0 : 1)));
  uint64_t count = 0;
  while (count < most) {
    const auto next = walk.Next();
    if (!next || ToTimestamp(*next) > until) break;
    ++count;
  }
  return count;
}

Timestamp Calendar::LastOfCount(Timestamp defined) const {
  if (!count_) return kNever;
  const Instant from = from_is_written_ ? first_ : std::max(first_, CeilSecond(defined));
  const bool arithmetic = cron_.empty() && every_.size() == 1 && at_.empty() && except_.empty() &&
                          every_[0].rule.unit == EveryRule::Unit::kElapsed;
  if (arithmetic) {
    const Instant last =
        Align<Forward>(every_[0], from) + seconds((*count_ - 1) * every_[0].rule.n);
    return last <= last_ ? ToTimestamp(last) : kNever;
  }
  Walk walk(*this, from);
  std::optional<Instant> last;
  for (int64_t taken = 0; taken < *count_; ++taken) {
    last = walk.Next();
    if (!last) return kNever;
  }
  return last ? ToTimestamp(*last) : kNever;
}

void Calendar::EndAt(Timestamp last) {
  if (last < ToTimestamp(last_)) last_ = FloorSecond(last);
}

std::vector<CalendarProblem> Calendar::Barren(const CalendarRules& rules, Timestamp defined) const {
  std::vector<CalendarProblem> problems;
  if (rules.from && rules.until && last_ < first_) {
    problems.push_back({"until", 0, "it is before `from`, so that no time lies between them"});
  }
  const Instant low = std::max(first_, CeilSecond(defined));
  const Instant high = CeilSecond(defined) + days(365 * limits::kBarrenYears + 2);
  for (size_t rule = 0; rule < cron_.size() + every_.size(); ++rule) {
    if (FindOf<Forward>(rule, low, high)) continue;
    const bool cron = rule < cron_.size();
    std::string message = "it has no time in the " + std::to_string(limits::kBarrenYears) +
                          " years from its definition";
    Calendar all = *this;
    all.except_ = {};
    if (all.FindOf<Forward>(rule, low, high)) {
      message += ": `except` leaves all of them out";
    } else if (const auto later = all.FindOf<Forward>(rule, low, low + kHorizon)) {
      message += "; its next one is " + LocalText(ToTimestamp(*later), *zone_);
    } else {
      message += ", and none in 100";
    }
    problems.push_back({cron ? "cron" : "every", cron ? rule : rule - cron_.size(), message});
  }
  return problems;
}

Timestamp Calendar::Begin(std::string_view name_space, std::string_view name,
                          Timestamp time) const {
  if (jitter_ <= Duration(0)) return time;
  return time + JitterOf(name_space, name, time, Next(time), jitter_);
}

// The first local time in a gap of the clocks that a rule says.
std::optional<LocalTime> Calendar::FirstInGap(LocalTime begin, LocalTime end) const {
  std::optional<LocalTime> first;
  auto take = [&first](std::optional<LocalTime> time) {
    if (time && (!first || *time < *first)) first = time;
  };
  const LocalTime last = end - seconds(1);
  for (const CronRule& cron : cron_) {
    if (!cron.elapsed) take(FindWithin<Forward>(cron, except_, begin, last));
  }
  for (const AnchoredEvery& every : every_) {
    take(FindWithin<Forward>(every, except_, begin, last));
  }
  for (const AtTime& at : at_) {
    if (at.local >= begin && at.local <= last) take(at.local);
  }
  return first;
}

std::string Calendar::Note(Timestamp time) const {
  const Instant at = FloorSecond(time);
  const Zone::Span span = zone_->SpanAt(at);
  const LocalTime local = span.Local(at);
  const LocalDay day = std::chrono::floor<days>(local);
  if (span.begin == at) {
    const LocalTime gap = zone_->SpanAt(at - seconds(1)).Local(at);
    if (const auto skipped = gap < local ? FirstInGap(gap, local) : std::nullopt) {
      const LocalDay its_day = std::chrono::floor<days>(*skipped);
      const std::string clock = ClockText(static_cast<int>((*skipped - its_day).count()));
      if (its_day == day) return clock + " does not exist on this day";
      return DateText(its_day) + " " + clock + " does not exist";
    }
  }
  const Zone::Reading reading = zone_->Read(local);
  if (!reading.second) return "";
  return ClockText(static_cast<int>((local - day).count())) + " comes twice on this day: the " +
         (at == reading.first ? "first" : "second") + " time";
}

std::vector<PlannedTime> Calendar::Plan(std::string_view name_space, std::string_view name,
                                        Timestamp after, size_t most) const {
  std::vector<PlannedTime> plan;
  for (Timestamp time = Next(after); time != kNever && plan.size() < most; time = Next(time)) {
    plan.push_back({time, Begin(name_space, name, time), LocalText(time, *zone_), Note(time)});
  }
  return plan;
}

Duration JitterOf(std::string_view name_space, std::string_view name, Timestamp time,
                  Timestamp next, Duration jitter) {
  using std::chrono::milliseconds;
  const Duration most = next == kNever ? jitter : std::min(jitter, next - time);
  const auto modulus =
      static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::floor<milliseconds>(most).count()));
  if (modulus == 0) return Duration(0);
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&hash](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  };
  add(name_space);
  add("/");
  add(name);
  add("/");
  add(std::to_string(std::chrono::floor<seconds>(time).time_since_epoch().count()));
  return milliseconds(static_cast<int64_t>(hash % modulus));
}

}  // namespace dfsmr
