#include "fsm/when/written_time.h"

#include <optional>
#include <string>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr std::string_view kForms =
    "; write a date and a time with its offset from UTC (2026-01-02T17:00:00+01:00, or Z for UTC), "
    "or those of the local clock (2026-01-02T17:00), or a date alone (2026-01-02)";

Error Bad(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, Reason::kNone,
          Quoted(text) + std::string(why) + std::string(kForms)};
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes ".123" off the front; digits after the sixth are dropped.
std::optional<Duration> TakeFraction(std::string_view& rest) {
  if (!rest.starts_with('.')) return Duration(0);
  rest.remove_prefix(1);
  int64_t micros = 0;
  int64_t unit = 100'000;
  if (rest.empty() || !IsDigit(rest[0])) return std::nullopt;
  for (; !rest.empty() && IsDigit(rest[0]); rest.remove_prefix(1), unit /= 10) {
    micros += (rest[0] - '0') * unit;
  }
  return Duration(micros);
}

// "Z", "+01:00".
std::optional<seconds> ReadOffset(std::string_view text) {
  if (text == "Z" || text == "z") return seconds(0);
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const auto clock = ReadClock(text.substr(1));
  if (!clock || text[3] != ':') return std::nullopt;
  return seconds(text[0] == '-' ? -*clock : *clock);
}

Instant AsUtc(Duration since_1970, bool up) {
  const Timestamp time(since_1970);
  return up ? CeilSecond(time) : FloorSecond(time);
}

LocalTime AsLocal(Duration since_1970, bool up) {
  return LocalTime(AsUtc(since_1970, up).time_since_epoch());
}

}  // namespace

Instant WrittenTime::Begin(const Zone& zone) const {
  if (kind == Kind::kInstant) return AsUtc(since_1970, true);
  return zone.First(AsLocal(since_1970, true));
}

Instant WrittenTime::End(const Zone& zone) const {
  if (kind == Kind::kInstant) return AsUtc(since_1970, false);
  if (kind == Kind::kLocal) return zone.First(AsLocal(since_1970, false));
  return zone.First(AsLocal(since_1970 + days(1), false)) - seconds(1);
}

LocalTime WrittenTime::Local(const Zone& zone) const {
  if (kind == Kind::kInstant) return zone.Local(AsUtc(since_1970, false));
  return AsLocal(since_1970, false);
}

Result<WrittenTime> ParseTimeText(std::string_view text) {
  const auto day = ReadDate(text.substr(0, 10));
  if (!day) {
    const bool is_date = text.size() >= 10 && text[4] == '-' && text[7] == '-';
    return Bad(text, is_date ? " names a day that does not exist" : " is not a time");
  }
  const auto midnight = std::chrono::duration_cast<Duration>(day->time_since_epoch());
  if (text.size() == 10) return WrittenTime{WrittenTime::Kind::kDate, midnight};
  std::string_view rest = text.substr(10);
  if (rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ') return Bad(text, " is not a time");
  rest.remove_prefix(1);
  size_t size = 0;
  while (size < rest.size() && (IsDigit(rest[size]) || rest[size] == ':')) ++size;
  const auto clock = size >= 5 && rest[2] == ':' ? ReadClock(rest.substr(0, size)) : std::nullopt;
  if (!clock) return Bad(text, " has a time of day that does not exist");
  rest.remove_prefix(size);
  const auto fraction = TakeFraction(rest);
  if (!fraction || (*fraction != Duration(0) && size != 8)) return Bad(text, " is not a time");
  const Duration local = midnight + seconds(*clock) + *fraction;
  if (rest.empty()) return WrittenTime{WrittenTime::Kind::kLocal, local};
  const auto offset = ReadOffset(rest);
  if (!offset) return Bad(text, " has an offset that cannot be read");
  return WrittenTime{WrittenTime::Kind::kInstant, local - *offset};
}

}  // namespace dfsmr
