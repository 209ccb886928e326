#include "fsm/yaml/definitions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fsm/base/names.h"
#include "fsm/yaml/action.h"
#include "fsm/yaml/document.h"
#include "fsm/yaml/kind.h"
#include "fsm/yaml/machine.h"
#include "fsm/yaml/plan.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

template <typename Source>
Machine MachineOf(Source source) {
  Machine machine;
  machine.id = source.id;
  machine.description = source.description;
  machine.defined_as = std::make_shared<const Source>(std::move(source));
  return machine;
}

std::optional<Machine> ReadKind(const Kind& kind, const YamlNode& root, Reporter* reporter) {
  if (kind.name == "plan") {
    std::optional<PlanSource> plan = ReadPlan(root, reporter);
    if (!plan) return std::nullopt;
    Machine machine = MachineOf(*std::move(plan));
    machine.upgrade_strategy = machine.plan()->upgrade_strategy;
    machine.retention = machine.plan()->retention;
    machine.params = machine.plan()->params.check;
    return machine;
  }
  if (kind.name == "action") {
    std::optional<ActionSource> action = ReadAction(root, reporter);
    if (!action) return std::nullopt;
    return MachineOf(*std::move(action));
  }
  return ReadMachine(root, reporter);
}

std::optional<Machine> ReadDefinition(const YamlDocument& document, Reporter* reporter) {
  const YamlNode& root = *document.root;
  std::optional<Machine> machine = ReadKind(KindOf(root), root, reporter);
  if (!machine) return std::nullopt;
  machine->source = std::string(document.source);
  machine->fingerprint = CanonicalText(root);
  return machine;
}

// Reads one document into `parsed`. False: it is not sound.
bool ReadInto(const YamlDocument& document, const FindZone& zones, Reporter* reporter,
              Parsed* parsed) {
  const YamlNode& root = *document.root;
  if (!root.IsMap()) {
    reporter->Error(root.at, "",
                    "a document must be a map, such as 'id: NAME' and 'nodes:', not " +
                        Describe(root));
    return false;
  }
  if (auto kind = DocumentKindOf(root)) {
    auto read = ReadDocument(*kind, root, document.source, zones, reporter);
    if (!read || !document.sound) return false;
    read->machines_before = parsed->definitions.size();
    parsed->documents.push_back(*std::move(read));
    return true;
  }
  auto definition = ReadDefinition(document, reporter);
  if (!definition || !document.sound) return false;
  parsed->definitions.push_back(*std::move(definition));
  return true;
}

// Reports documents with the same id: only one of them can be the next version.
void CheckIdsDiffer(const YamlTree& tree, Reporter* reporter) {
  std::map<std::pair<std::string_view, std::string_view>, DefinedId> first;  // by names, and id
  for (const DefinedId& one : DefinedIdsOf(tree)) {
    const auto [found, fresh] = first.try_emplace({one.names, one.id}, one);
    if (fresh) continue;
    const std::string line = std::to_string(found->second.at.line);
    const bool same = found->second.kind == one.kind;
    reporter->Error(one.at, std::string(one.key),
                    std::string(one.kind) + " " + Quoted(one.id) +
                        (same ? " is defined twice here, first in line " + line
                              : " has the id of the " + std::string(found->second.kind) +
                                    " in line " + line) +
                        "; keep one, or rename the other");
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

// The id of what a document defines; "" when it cannot be read.
static std::string IdIn(const YamlNode& root) {
  for (std::string_view key : {"id", "plan", "action"}) {
    const YamlEntry* entry = root.IsMap() ? root.Find(key) : nullptr;
    if (entry && entry->value->IsScalar()) return entry->value->text;
  }
  return "";
}

static Parsed Parse(std::string_view text, Reporter reporter, const FindZone& zones) {
  Parsed parsed;
  YamlTree tree = ReadYaml(text, &reporter);
  for (const YamlDocument& document : tree.documents) {
    if (!document.root || reporter.Full()) continue;
    if (ReadInto(document, zones, &reporter, &parsed)) continue;
    // No definition depends on a schedule, trigger or limit.
    if (document.root->IsMap() && DocumentKindOf(*document.root)) continue;
    parsed.unsound.push_back(IdIn(*document.root));
  }
  CheckIdsDiffer(tree, &reporter);
  parsed.tree = std::make_shared<const YamlTree>(std::move(tree));
  parsed.diagnostics = std::move(reporter).Take();
  return parsed;
}

Parsed ParseDefinitions(std::string_view text, std::string_view source_name,
                        const FindZone& zones) {
  return Parse(text, Reporter(source_name), zones);
}

Parsed ParseStored(std::string_view text, const FindZone& zones) {
  return Parse(text, Reporter("store", TextOrigin::kStored), zones);
}

std::shared_ptr<const PlanSource> ParseFlow(std::string_view text, std::string_view source_name,
                                            std::vector<Diagnostic>* diagnostics,
                                            TextOrigin origin) {
  Reporter reporter(source_name, origin);
  const std::string yaml = YamlOfJson(text);
  YamlTree tree = ReadYaml(yaml, &reporter, OnEmpty::kAccept);
  std::shared_ptr<const PlanSource> plan;
  if (tree.documents.empty() && reporter.errors() == 0) {
    reporter.Error({}, "", "the flow is empty text; it needs a list of steps (perhaps []), or a "
                           "map with 'flow'");
  }
  for (const YamlDocument& document : tree.documents) {
    if (!document.root) continue;
    if (&document != &tree.documents.front()) {
      reporter.Error(document.root->at, "", "a flow is one document; remove this one");
      break;
    }
    std::optional<PlanSource> read = ReadGivenFlow(*document.root, &reporter);
    if (read) plan = std::make_shared<const PlanSource>(std::move(*read));
  }
  const bool sound = reporter.errors() == 0;
  std::vector<Diagnostic> found = std::move(reporter).Take();
  diagnostics->insert(diagnostics->end(), found.begin(), found.end());
  return sound ? plan : nullptr;
}

Result<std::shared_ptr<const PlanSource>> ToFlow(std::string_view text, TextOrigin origin) {
  std::vector<Diagnostic> diagnostics;
  auto flow = ParseFlow(text, "flow", &diagnostics, origin);
  if (flow) return flow;
  Error error{Code::kInvalidArgument, Reason::kBadMachine, ""};
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!diagnostic.error || error.message.size() > 4'000) continue;
    error.message += (error.message.empty() ? "" : "\n") + Format(diagnostic);
  }
  return error;
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
