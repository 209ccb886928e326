// A time as people write it: RFC 3339, or a local date or date-time, whose zone stands elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/when/zone.h"

namespace dfsmr {

struct WrittenTime {
  enum class Kind : uint8_t {
    kInstant,  // with an offset, or Z
    kLocal,    // a date and a time of day
    kDate,     // a date alone: its whole day
  };
  Kind kind = Kind::kInstant;
  Duration since_1970{0};  // of UTC, or of the local clock
  friend bool operator==(const WrittenTime&, const WrittenTime&) = default;

  // Its first second that begins no earlier, and its last one: of a date those of its whole day.
  // Local times that do not exist, or twice: as calendars take them.
  Instant Begin(const Zone& zone) const;
  Instant End(const Zone& zone) const;
  // What the local clock shows at it, to the second: for a local time what is written.
  LocalTime Local(const Zone& zone) const;
};

// 2026-01-02T17:00:00+01:00, 2026-01-02T17:00, 2026-01-02 17:00:30, 2026-01-02.
Result<WrittenTime> ParseTimeText(std::string_view text);

}  // namespace dfsmr
