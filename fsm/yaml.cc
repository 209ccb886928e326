#include "fsm/yaml.h"

#include <optional>
#include <unordered_map>

#include "fsm/names.h"
#include "fsm/yaml_machine.h"
#include "fsm/yaml_tree.h"

namespace dfsmr {
namespace {

// What a document defines shows in its first own word: this is where other kinds come in.
std::optional<Definition> ReadDefinition(const YamlDocument& document, Reporter* reporter) {
  const YamlNode& root = *document.root;
  if (!root.IsMap()) {
    reporter->Error(root.at, "",
                    "a document must be a map, such as 'id: NAME' and 'nodes:', not " +
                        Describe(root));
    return std::nullopt;
  }
  for (std::string_view kind : {"plan", "action"}) {
    const YamlEntry* entry = root.Find(kind);
    if (!entry || root.Find("id")) continue;
    reporter->Error(entry->at, entry->key,
                    "documents that define a " + std::string(kind) +
                        " are not understood yet; a machine has 'id' and 'nodes'");
    return std::nullopt;
  }
  std::optional<Machine> machine = ReadMachine(root, reporter);
  if (!machine) return std::nullopt;
  machine->source = std::string(document.source);
  machine->fingerprint = CanonicalText(root);
  return Definition{std::move(*machine)};
}

// Several documents under one id: only one of them can be the next version.
void CheckIdsDiffer(const YamlTree& tree, Reporter* reporter) {
  std::unordered_map<std::string_view, Position> ids;
  for (const YamlDocument& document : tree.documents) {
    const YamlEntry* id = document.root ? document.root->Find("id") : nullptr;
    if (!id || !id->value->IsScalar()) continue;
    auto [first, fresh] = ids.emplace(id->value->text, id->value->at);
    if (fresh) continue;
    reporter->Error(id->value->at, "id",
                    "machine " + Quoted(id->value->text) +
                        " is defined twice here, first in line " +
                        std::to_string(first->second.line) + "; keep one, or rename the other");
  }
}

void AddSetting(const YamlEntry& entry, const YamlNode& value, Reporter* reporter,
                std::vector<Setting>* settings) {
  if (value.IsScalar()) {
    settings->push_back({entry.key, value.text, entry.at});
  } else {
    reporter->Error(value.at, entry.key, Quoted(entry.key) + " takes a plain value or a list of "
                                             "them, not " + Describe(value));
  }
}

}  // namespace

Parsed ParseDefinitions(std::string_view text, std::string_view source_name) {
  Parsed parsed;
  Reporter reporter(source_name);
  YamlTree tree = ReadYaml(text, &reporter);
  for (const YamlDocument& document : tree.documents) {
    if (!document.root || reporter.Full()) continue;
    std::optional<Definition> definition = ReadDefinition(document, &reporter);
    if (definition && document.sound) parsed.definitions.push_back(std::move(*definition));
  }
  CheckIdsDiffer(tree, &reporter);
  parsed.diagnostics = std::move(reporter).Take();
  return parsed;
}

std::vector<Setting> ParseSettings(std::string_view text, std::string_view source_name,
                                   std::vector<Diagnostic>* diagnostics) {
  std::vector<Setting> settings;
  Reporter reporter(source_name);
  YamlTree tree = ReadYaml(text, &reporter, OnEmpty::kAccept);
  for (const YamlDocument& document : tree.documents) {
    if (!document.root) continue;
    if (&document != &tree.documents.front() || !document.root->IsMap()) {
      reporter.Error(document.root->at, "", "settings are one map, with a line 'KEY: VALUE' each");
      continue;
    }
    for (const YamlEntry& entry : document.root->entries) {
      if (!entry.value->IsList()) AddSetting(entry, *entry.value, &reporter, &settings);
      for (const YamlNode* item : entry.value->items) {
        AddSetting(entry, *item, &reporter, &settings);
      }
    }
  }
  std::vector<Diagnostic> found = std::move(reporter).Take();
  diagnostics->insert(diagnostics->end(), found.begin(), found.end());
  return settings;
}

}  // namespace dfsmr
