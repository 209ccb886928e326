// The row of a virtual clock. Only a store that was begun under one has it, and has it from the
// beginning.
#pragma once

#include <optional>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct ClockRow {
  Timestamp time;         // what the clock shows
  Timestamp last_change;  // the time of the last change, which may be a little later
};
void PutClock(const Writer& writer, const ClockRow& row);
// nullopt: there is none.
Result<std::optional<ClockRow>> GetClock(const Reader& reader);

}  // namespace dfsmr::rows
