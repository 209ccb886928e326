// Patterns of actions: NAME, NAME.* or *.
#pragma once

#include <cstddef>
#include <string_view>

namespace dfsmr {

// How well a pattern serves an action: the longer the better, a name better than a pattern of it;
// 0: not at all.
size_t Fit(std::string_view pattern, std::string_view action);

}  // namespace dfsmr
