#include "fsm/when/posix_zone.h"

#include <string>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using std::chrono::days;
using std::chrono::seconds;

// Reads one piece after the other; what is not as it should be makes it bad for good.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  bool good() const { return good_; }
  bool done() const { return rest_.empty(); }

  bool Skip(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Need(bool condition) { good_ = good_ && condition; }

  int Number(int least, int most) {
    int value = 0;
    size_t digits = 0;
    for (; digits < 3 && !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; ++digits) {
      value = value * 10 + (rest_[0] - '0');
      rest_.remove_prefix(1);
    }
    Need(digits > 0 && value >= least && value <= most);
    return value;
  }

  // Letters, or anything in angle brackets.
  void Name() {
    const bool quoted = Skip('<');
    size_t size = 0;
    auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    while (size < rest_.size() && (quoted ? rest_[size] != '>' : letter(rest_[size]))) ++size;
    rest_.remove_prefix(size);
    Need(size > 0 && (!quoted || Skip('>')));
  }

  // [+-]hh[:mm[:ss]]
  seconds Time(int hours_max) {
    const bool negative = Skip('-');
    if (!negative) Skip('+');
    int value = Number(0, hours_max) * 3600;
    if (Skip(':')) {
      value += Number(0, 59) * 60;
      if (Skip(':')) value += Number(0, 59);
    }
    return seconds(negative ? -value : value);
  }

  PosixZone::Turn Turn() {
    using Kind = PosixZone::Turn::Kind;
    PosixZone::Turn turn;
    if (Skip('M')) {
      turn.month = Number(1, 12);
      Need(Skip('.'));
      turn.week = Number(1, 5);
      Need(Skip('.'));
      turn.weekday = Number(0, 6);
    } else if (Skip('J')) {
      turn.kind = Kind::kDay;
      turn.day = Number(1, 365);
    } else {
      turn.kind = Kind::kDayWithLeap;
      turn.day = Number(0, 365);
    }
    if (Skip('/')) turn.time = Time(167);
    return turn;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

LocalTime PosixZone::Turn::In(int year) const {
  const std::chrono::year y(year);
  const LocalDay new_year(y / std::chrono::January / 1);
  if (kind == Kind::kDayWithLeap) return new_year + days(day) + time;
  if (kind == Kind::kDay) {
    const bool after_leap_day = y.is_leap() && day >= 60;
    return new_year + days(day - 1 + (after_leap_day ? 1 : 0)) + time;
  }
  const std::chrono::weekday wanted(static_cast<unsigned>(weekday));
  if (week == 5) return LocalDay(y / month / wanted[std::chrono::last]) + time;
  return LocalDay(y / month / wanted[static_cast<unsigned>(week)]) + time;
}

Result<PosixZone> ParsePosixZone(std::string_view text) {
  Reader reader(text);
  PosixZone zone;
  reader.Name();
  zone.offset = -reader.Time(24);  // POSIX counts to the west
  if (!reader.done()) {
    PosixZone::Summer summer{.offset = zone.offset + std::chrono::hours(1)};
    reader.Name();
    if (!reader.Skip(',')) {
      summer.offset = -reader.Time(24);
      reader.Need(reader.Skip(','));
    }
    summer.begin = reader.Turn();
    reader.Need(reader.Skip(','));
    summer.end = reader.Turn();
    zone.summer = summer;
  }
  if (!reader.good() || !reader.done()) {
    return Error{
        Code::kInvalidArgument, Reason::kNone,
        Quoted(text) + " is not a rule of a time zone, such as CET-1CEST,M3.5.0,M10.5.0/3"};
  }
  return zone;
}

}  // namespace dfsmr
