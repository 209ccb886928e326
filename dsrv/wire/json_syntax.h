// Whether a text is JSON, without a look at what it says.
#pragma once

#include <cstddef>
#include <string_view>

namespace dfsmr {

// True: it is JSON (RFC 8259, UTF-8) with no more than `depth` values inside each other. False: it is
// not, or there is something about it that another parser is to tell. Any thread.
bool IsJson(std::string_view text, size_t depth);

}  // namespace dfsmr
