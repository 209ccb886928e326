// What the values of a filter's terms mean: words, texts, numbers, times and their ranges.
#pragma once

#include <string>
#include <string_view>

#include "fsm/filter/filter.h"
#include "fsm/filter/words.h"

namespace dfsmr {

// Adds the value to the term, whose key is known. BAD_FILTER: it does not fit the key.
Result<Ok> AddValue(const FilterValue& value, Timestamp now, FilterTerm* term);

// ASCII letters only.
std::string Lower(std::string_view text);

}  // namespace dfsmr
