// How the text of a filter is split into words: a key with its values, or values alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

inline constexpr size_t kFilterBytes = 4 << 10;
inline constexpr size_t kFilterTerms = 64;

// One value, between commas.
struct FilterValue {
  std::string text;   // without quotes, and without the stars at its ends
  size_t column = 1;  // where it begins, in characters from 1
  bool open_front = false;
  bool open_back = false;
  bool quoted = false;  // a part of it was
};
struct FilterWord {
  bool negated = false;
  bool has_key = false;
  std::string key;
  size_t key_column = 1;
  std::vector<FilterValue> values;  // one or more
};

// BAD_FILTER for text without a meaning, such as an open quote; TOO_LARGE.
Result<std::vector<FilterWord>> SplitFilter(std::string_view text);

Error BadFilter(size_t column, std::string_view problem);

}  // namespace dfsmr
