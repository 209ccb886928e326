// A JSON Schema as it is checked: the document itself, with its references resolved and its
// patterns compiled. Other folders use schema.h.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fsm/schema/pattern.h"
#include "fsm/schema/schema.h"

namespace dfsmr::json_schema {

// Not movable: the maps point into `root`.
struct Schema {
  Schema() = default;
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  nlohmann::json root;
  std::unordered_map<const nlohmann::json*, const nlohmann::json*> refs;  // with $ref → target
  std::unordered_map<std::string, Pattern> patterns;
};

// Checks `schema->root` and fills in the rest.
void PrepareSchema(Schema* schema, std::vector<SchemaProblem>* problems);

// What is wrong with `value`, in sentences; empty when it satisfies the schema.
std::vector<std::string> Violations(const Schema& schema, const nlohmann::json& value,
                                    std::string_view subject);

}  // namespace dfsmr::json_schema
