// Whether an instance is as the reference model says.
#pragma once

#include <string>

#include "tests/sim/model/life.h"

namespace dfsmr::model {

// What differs between what the model knows and what a row says; empty: nothing. `exact`: the row
// was written after all that the model has seen of the instance.
std::string DifferenceOf(const Life& life, const Life& row, bool exact, Timestamp now);

}  // namespace dfsmr::model
