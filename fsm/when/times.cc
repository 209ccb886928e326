// Instants as texts.
#include <cstdio>
#include <cstdlib>

#include "fsm/when/calendar.h"

namespace dfsmr {
namespace {

std::string DateAndClock(const Civil& civil) {
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", civil.year, civil.month,
                civil.day, civil.hour, civil.minute, civil.second);
  return text;
}

}  // namespace

std::string StampText(Timestamp time) {
  const Civil civil = ToCivil(FloorSecond(time));
  char text[64];
  std::snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02dZ", civil.year, civil.month, civil.day,
                civil.hour, civil.minute, civil.second);
  return text;
}

std::string UtcText(Timestamp time) {
  const Instant second = FloorSecond(time);
  std::string text = DateAndClock(ToCivil(second));
  const auto micros = static_cast<int>((time - Timestamp(second)).count());
  if (micros > 0 && micros < 1'000'000) {
    char fraction[16];
    std::snprintf(fraction, sizeof fraction, ".%06d", micros);
    text += fraction;
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "Z";
}

std::string LocalText(Timestamp time, const Zone& zone) {
  const Instant second = FloorSecond(time);
  const Zone::Span span = zone.SpanAt(second);
  const auto minutes = static_cast<int>(span.offset.count()) / 60;
  char offset[32];
  std::snprintf(offset, sizeof offset, "%c%02d:%02d", minutes < 0 ? '-' : '+',
                std::abs(minutes) / 60, std::abs(minutes) % 60);
  return DateAndClock(ToCivil(span.Local(second))) + offset;
}

std::string LocalDateText(Timestamp time, const Zone& zone) {
  return DateText(std::chrono::floor<std::chrono::days>(zone.Local(FloorSecond(time))));
}

}  // namespace dfsmr
