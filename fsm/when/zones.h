// How a name becomes a time zone: whoever does I/O hands that in (storage/zones).
#pragma once

#include <functional>
#include <string_view>

#include "fsm/base/names.h"
#include "fsm/base/result.h"
#include "fsm/when/zone.h"

namespace dfsmr {

// An error says what is wrong with the name, and which zone is meant perhaps. Any thread.
using FindZone = std::function<Result<ZonePtr>(std::string_view name)>;

// Where no other zone is needed.
inline Result<ZonePtr> OnlyUtc(std::string_view name) {
  if (name == "UTC") return Zone::Utc();
  return Error{Code::kInvalidArgument, Reason::kNone, "there is no time zone " + Quoted(name)};
}

}  // namespace dfsmr
