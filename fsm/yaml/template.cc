#include "fsm/yaml/template.h"

#include "fsm/base/template.h"

namespace dfsmr {
namespace {

bool MayRefer(const YamlNode& node) {
  return !node.IsScalar() || node.text.find("${") != std::string::npos;
}

std::string JsonString(std::string_view text) {
  YamlNode node;
  node.text = text;
  return JsonText(node);
}

// Checks each text by itself, so that a problem is reported at its place.
bool CheckReferences(const Field& field) {
  if (!MayRefer(field.value)) return true;
  bool sound = true;
  for (const YamlEntry& entry : field.value.entries) {
    if (MayRefer(*entry.value) && !CheckReferences(field.Below(entry))) sound = false;
  }
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    if (MayRefer(*field.value.items[i]) && !CheckReferences(field.Item(i))) sound = false;
  }
  if (!field.value.IsScalar()) return sound;
  Result<std::vector<Reference>> references = References(JsonString(field.value.text));
  if (!references) field.Fail(references.error().message);
  return references.has_value();
}

// Whether the value is one reference and nothing else.
bool IsReference(const YamlNode& node) {
  if (!node.IsScalar() || !node.text.starts_with("${")) return false;
  Result<std::vector<Reference>> references = References(JsonString(node.text));
  return references && references->size() == 1 &&
         references->front().text.size() + 3 == node.text.size();
}

// Reports that a template is not `expected`, unless one of its references is malformed, which is
// reported already.
bool RefuseTemplate(const Field& field, std::string_view expected) {
  if (field.value.IsScalar() && !CheckReferences(field)) return false;
  field.Fail("expected " + std::string(expected) + ", not " + Describe(field.value));
  return false;
}

}  // namespace

bool ReadTextTemplate(const Field& field, std::string_view example, std::string* text) {
  if (!field.value.IsScalar() || field.value.text.empty()) {
    field.Fail("expected text such as " + std::string(example) + ", not " +
               Describe(field.value));
    return false;
  }
  if (!CheckReferences(field)) return false;
  *text = field.value.text;
  return true;
}

bool ReadMapTemplate(const Field& field, std::string* json) {
  if (field.value.IsNull()) {
    *json = "{}";
    return true;
  }
  if (!field.value.IsMap() && !IsReference(field.value)) {
    return RefuseTemplate(field, "a map such as {name: \"${params.name}\"}, or a reference to one");
  }
  if (!CheckReferences(field)) return false;
  *json = JsonText(field.value);
  return true;
}

bool ReadListTemplate(const Field& field, std::string* json) {
  if (!field.value.IsList() && !IsReference(field.value)) {
    return RefuseTemplate(field, "a list, or a reference to one such as \"${params.hosts}\"");
  }
  if (!CheckReferences(field)) return false;
  *json = JsonText(field.value);
  return true;
}

bool ReadCondition(const Field& field, std::string* json) {
  if (IsReference(field.value)) {
    *json = JsonText(field.value);
    return true;
  }
  const std::string text = field.value.IsScalar() ? JsonText(field.value) : "";
  if (text != "true" && text != "false") {
    return RefuseTemplate(field, "true, false, or a reference such as \"${params.flag}\"");
  }
  *json = text;
  return true;
}

}  // namespace dfsmr
