#include "fsm/yaml/schema.h"

#include "fsm/schema/schema.h"

namespace dfsmr {
namespace {

// Reports the problem at the innermost thing in the document that it is about.
void Report(const Field& field, const SchemaProblem& problem) {
  Position at = field.key_at;
  std::string path = field.path;
  const YamlNode* node = &field.value;
  for (const std::string& key : problem.where) {
    path = PathTo(path, key);
    if (node && node->IsMap()) {
      const YamlEntry* entry = node->Find(key);
      node = entry ? entry->value : nullptr;
      if (entry) at = node->IsScalar() ? node->at : entry->at;
    } else if (node && node->IsList() && std::stoul(key) < node->items.size()) {
      node = node->items[std::stoul(key)];
      at = node->at;
    }
  }
  field.reporter->Error(at, std::move(path), problem.message);
}

}  // namespace

bool ReadSchema(const Field& field, std::string_view subject, Schema* out) {
  const std::string scalar = field.value.IsScalar() ? JsonText(field.value) : "";
  if (!field.value.IsMap() && scalar != "true" && scalar != "false") {
    field.Fail("expected a JSON Schema, such as {type: object, required: [url]}, not " +
               Describe(field.value));
    return false;
  }
  Schema schema;
  schema.text = JsonText(field.value);
  std::vector<SchemaProblem> problems;
  schema.check = CompileParamsSchema(schema.text, subject, &problems);
  for (const SchemaProblem& problem : problems) Report(field, problem);
  if (!problems.empty()) return false;
  *out = std::move(schema);
  return true;
}

}  // namespace dfsmr
