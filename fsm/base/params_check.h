// Whether parameters are what a document's JSON Schema asks for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

// Checks parameters given at start; built from the JSON Schema in the document. Any thread.
class ParamsCheck {
 public:
  virtual ~ParamsCheck() = default;
  // nullopt when `json` (an object's text) satisfies the schema, else what is wrong with it and
  // where.
  virtual std::optional<std::string> Violation(std::string_view json) const = 0;
};

}  // namespace dfsmr
