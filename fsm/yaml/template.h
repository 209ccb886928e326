// Templates in a document: values whose texts may hold references, `${step.output.path}`. Each
// function reports what is wrong at the text where it stands.
#pragma once

#include <string>

#include "fsm/yaml/fields.h"

namespace dfsmr {

// Text that is not empty, unchanged: `machine ${params.name}`.
bool ReadTextTemplate(const Field& field, std::string_view example, std::string* text);
// A map, or a reference to one; nothing means an empty map. As JSON text.
bool ReadMapTemplate(const Field& field, std::string* json);
// A list, or a reference to one. As JSON text.
bool ReadListTemplate(const Field& field, std::string* json);
// A boolean, or a reference to one. As JSON text.
bool ReadCondition(const Field& field, std::string* json);

}  // namespace dfsmr
