// A file of tzdata (RFC 8536), version 2 or later.
#pragma once

#include <string_view>

#include "fsm/base/result.h"
#include "fsm/when/zone.h"

namespace dfsmr {

// kDataLoss: the bytes are no such file, or a damaged one.
Result<ZonePtr> ReadTzif(std::string_view name, std::string_view bytes);

}  // namespace dfsmr
