// A JSON Schema in a document.
#pragma once

#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// `subject` is what violations call the value. Reports everything that is wrong.
bool ReadSchema(const Field& field, std::string_view subject, Schema* out);

}  // namespace dfsmr
