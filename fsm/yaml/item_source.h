// Reads the sources of a trigger: what stands under `on`.
#pragma once

#include <vector>

#include "fsm/when/trigger.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// One source, or a map of several with names. False: something is wrong, and reported.
bool ReadItemSources(const Field& field, std::vector<ItemSource>* to);

}  // namespace dfsmr
