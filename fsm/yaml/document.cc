#include "fsm/yaml/document.h"

#include <string>

#include "fsm/yaml/fields.h"
#include "fsm/yaml/limit.h"
#include "fsm/yaml/schedule.h"
#include "fsm/yaml/trigger.h"

namespace dfsmr {
namespace {

std::optional<DocumentBody> ReadBody(DocumentKind kind, const YamlNode& root,
                                     const FindZone& zones, Reporter* reporter) {
  auto body = [](auto source) -> std::optional<DocumentBody> {
    if (!source) return std::nullopt;
    return DocumentBody(std::move(source));
  };
  switch (kind) {
    case DocumentKind::kSchedule: return body(ReadSchedule(root, zones, reporter));
    case DocumentKind::kTrigger: return body(ReadTrigger(root, reporter));
    case DocumentKind::kLimit: break;
  }
  return body(ReadLimit(root, reporter));
}

}  // namespace

std::optional<DocumentKind> DocumentKindOf(const YamlNode& root) {
  // A machine, plan or action may have a key `limit`, too.
  for (std::string_view key : {"action", "plan", "nodes", "flow", "id"}) {
    if (root.Find(key)) return std::nullopt;
  }
  for (DocumentKind kind : kDocumentKinds) {
    if (root.Find(Name(kind))) return kind;
  }
  return std::nullopt;
}

std::optional<Document> ReadDocument(DocumentKind kind, const YamlNode& root,
                                     std::string_view source, const FindZone& zones,
                                     Reporter* reporter) {
  const size_t errors = reporter->errors();
  Document document;
  const YamlEntry& name = *root.Find(Name(kind));
  ReadName(Field(name, std::string(Name(kind)), reporter), Name(kind), &document.name);
  if (const YamlEntry* text = root.Find("description")) {
    ReadText(Field(*text, "description", reporter), &document.description);
  }
  auto body = ReadBody(kind, root, zones, reporter);
  if (!body || reporter->errors() > errors) return std::nullopt;
  document.body = *std::move(body);
  document.source = std::string(source);
  document.fingerprint = CanonicalText(root);
  return document;
}

}  // namespace dfsmr
