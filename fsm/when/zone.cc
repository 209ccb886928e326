#include "fsm/when/zone.h"

#include <algorithm>
#include <utility>

namespace dfsmr {
namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr seconds kEon = days(146'097);  // 400 years: whole weeks, too
// No clock is further from UTC (RFC 8536: less than 26 hours).
constexpr seconds kFar = std::chrono::hours(26);
// Ends of time that arithmetic cannot overflow.
constexpr Instant kBeginning = kFirstInstant - days(40'000);
constexpr Instant kEnd = kLastInstant + days(40'000);

int YearOf(Instant at) { return ToCivil(at).year; }

Instant NewYear(int year) {
  return std::chrono::sys_days(std::chrono::year(year) / std::chrono::January / 1);
}

Instant AtOffset(LocalTime local, seconds offset) {
  return Instant(local.time_since_epoch() - offset);
}

}  // namespace

Zone::Zone(std::string name, seconds first, std::vector<Change> changes,
           const std::optional<PosixZone>& rule)
    : name_(std::move(name)), first_(first), changes_(std::move(changes)) {
  if (rule) Extend(*rule);
  DropRepeated();
  changes_.shrink_to_fit();
}

ZonePtr Zone::Utc() {
  return std::make_shared<const Zone>("UTC", seconds(0), std::vector<Change>(), std::nullopt);
}

void Zone::Extend(const PosixZone& rule) {
  const Instant last = changes_.empty() ? kBeginning : changes_.back().at;
  if (!rule.summer) {
    if (changes_.empty()) first_ = rule.offset;
    return;
  }
  const int year = changes_.empty() ? 1970 : YearOf(last);
  std::vector<Change> later;
  for (int y = year - 1; y <= year + 403; ++y) {
    later.push_back({AtOffset(rule.summer->begin.In(y), rule.offset), rule.summer->offset});
    later.push_back({AtOffset(rule.summer->end.In(y), rule.summer->offset), rule.offset});
  }
  std::ranges::stable_sort(later, {}, &Change::at);
  for (const Change& change : later) {
    if (change.at > last) changes_.push_back(change);
  }
  period_ = NewYear(year + 2);
}

// Of two at the same time the later one counts; those that change nothing for the clock go.
void Zone::DropRepeated() {
  std::vector<Change> kept;
  for (const Change& change : changes_) {
    if (!kept.empty() && kept.back().at == change.at) kept.pop_back();
    const seconds before = kept.empty() ? first_ : kept.back().offset;
    if (change.offset != before) kept.push_back(change);
  }
  changes_ = std::move(kept);
}

Zone::Span Zone::SpanAt(Instant at) const {
  seconds shift(0);
  if (period_ && at >= *period_ + kEon) {
    shift = (at - *period_) / kEon * kEon;
    at -= shift;
  }
  const auto next = std::ranges::upper_bound(changes_, at, {}, &Change::at);
  const bool is_first = next == changes_.begin();
  return {is_first ? kBeginning : std::prev(next)->at + shift,
          next == changes_.end() ? kEnd : next->at + shift,
          is_first ? first_ : std::prev(next)->offset};
}

Instant Zone::First(LocalTime local) const {
  // At this instant no clock shows `local` yet, so that nothing before its span does.
  Span span = SpanAt(Instant(local.time_since_epoch()) - kFar);
  while (true) {
    const Instant at = std::max(span.begin, span.At(local));
    if (at < span.end || span.end == kEnd) return at;
    span = SpanAt(span.end);
  }
}

LocalTime Zone::Latest(Instant at) const {
  Span span = SpanAt(at);
  LocalTime latest = span.Local(at);
  while (span.begin > at - 2 * kFar && span.begin != kBeginning) {
    const Instant before = span.begin - seconds(1);
    span = SpanAt(before);
    latest = std::max(latest, span.Local(before));
  }
  return latest;
}

Zone::Reading Zone::Read(LocalTime local) const {
  Reading reading{.first = First(local)};
  Span span = SpanAt(reading.first);
  reading.exists = span.Local(reading.first) == local;
  while (reading.exists && span.end <= reading.first + 2 * kFar) {
    span = SpanAt(span.end);
    const Instant again = span.At(local);
    if (again < span.begin || again >= span.end) continue;
    reading.second = again;
    break;
  }
  return reading;
}

}  // namespace dfsmr
