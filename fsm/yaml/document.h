// Reads documents that stand beside machines: schedules, triggers and limits.
#pragma once

#include <optional>
#include <string_view>

#include "fsm/base/diagnostic.h"
#include "fsm/when/document.h"
#include "fsm/when/zones.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

// What `root` is a document of, by the key that holds its name; nullopt: of none of these kinds.
std::optional<DocumentKind> DocumentKindOf(const YamlNode& root);

// nullopt: it cannot be used, and errors were reported. `root` is of `kind`, and `source` its text.
std::optional<Document> ReadDocument(DocumentKind kind, const YamlNode& root,
                                     std::string_view source, const FindZone& zones,
                                     Reporter* reporter);

}  // namespace dfsmr
