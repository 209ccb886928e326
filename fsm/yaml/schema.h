// A JSON Schema in a document. Behind yaml.h.
#pragma once

#include <string_view>

#include "fsm/plan/source.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// `subject` is what violations call the value. Everything wrong is reported.
bool ReadSchema(const Field& field, std::string_view subject, Schema* out);

}  // namespace dfsmr
