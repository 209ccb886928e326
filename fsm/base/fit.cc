#include "fsm/base/fit.h"

#include <cstdint>

namespace dfsmr {

size_t Fit(std::string_view pattern, std::string_view action) {
  if (pattern == action) return SIZE_MAX;
  if (pattern == "*") return 1;
  if (!pattern.ends_with(".*")) return 0;
  pattern.remove_suffix(1);
  return action.starts_with(pattern) ? pattern.size() + 1 : 0;
}

}  // namespace dfsmr
