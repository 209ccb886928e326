// YAML text → definitions, and a diagnostic with line and column for each thing that is wrong.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/base/result.h"
#include "fsm/machine/machine.h"
#include "fsm/when/document.h"
#include "fsm/when/zones.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

struct Parsed {
  // Of the sound documents, in the order of the text: machines, plans and actions; and schedules,
  // triggers and limits.
  std::vector<Machine> definitions;
  std::vector<Document> documents;
  std::vector<Diagnostic> diagnostics;  // of all documents, in the order of the text
  std::vector<std::string> unsound;     // ids of the other documents; "" for a document without an id
  // For finding the places of problems that compiling the definitions shows. Points into the text.
  std::shared_ptr<const YamlTree> tree;

  // Whether all documents may be defined; there may be warnings.
  bool ok() const { return !HasErrors(diagnostics); }
};

// Reads all documents of `text` and reports everything that is wrong with any of them.
// Diagnostics call the text `source_name`; the zones of schedules are found by `zones`. Never throws;
// hostile text takes a bounded time.
Parsed ParseDefinitions(std::string_view text, std::string_view source_name,
                        const FindZone& zones = OnlyUtc);
// The same of a text in the store.
Parsed ParseStored(std::string_view text, const FindZone& zones = OnlyUtc);

// Reads what is sent with Start, or what a planner reports, as YAML or JSON text: a list (the
// flow), a block or a step, or a map with `flow` and any other key of a plan; without `plan` its id
// is empty. Null: something is wrong, and `diagnostics` has everything that is. Never throws.
std::shared_ptr<const PlanSource> ParseFlow(std::string_view text, std::string_view source_name,
                                            std::vector<Diagnostic>* diagnostics,
                                            TextOrigin origin = TextOrigin::kGiven);
// The same, but everything that is wrong is one error, BAD_MACHINE: a line for each diagnostic, cut
// off after about 4,000 bytes, because an error's text is sent in headers.
Result<std::shared_ptr<const PlanSource>> ToFlow(std::string_view text,
                                                 TextOrigin origin = TextOrigin::kGiven);

// One `key: value` of a file of settings; a list gives one for each of its items.
struct Setting {
  std::string key;
  std::string value;
  Position at;  // of the key
};

// Reads one map of scalars (or lists of them), as configuration files have it. Empty text has no
// settings. With errors in `diagnostics` the result is incomplete.
std::vector<Setting> ParseSettings(std::string_view text, std::string_view source_name,
                                   std::vector<Diagnostic>* diagnostics);

}  // namespace dfsmr
