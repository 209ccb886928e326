// JSON Schema, draft 7: compiled once when a machine is defined, checked at each start. `$ref` is
// local only, defaults are not applied, and `format` checks nothing, as the draft allows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/params_check.h"

namespace dfsmr {

struct SchemaProblem {
  std::vector<std::string> where;  // keys and indexes that lead there from the schema's root
  std::string message;
};

// Null: something is wrong with the schema, and `problems` lists everything. Violations call the
// value `subject`: "params" gives "params.url: expected a string, but it is 5". The result never
// throws, and its depth and time are bounded: a value that takes too long to check is a violation.
std::shared_ptr<const ParamsCheck> CompileParamsSchema(std::string_view schema_json,
                                                       std::string_view subject,
                                                       std::vector<SchemaProblem>* problems);

}  // namespace dfsmr
