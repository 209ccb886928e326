#include "fsm/yaml_machine.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "fsm/duration.h"
#include "fsm/limits.h"
#include "fsm/names.h"
#include "fsm/params_schema.h"
#include "fsm/yaml_fields.h"
#include "fsm/yaml_node.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kUpgradeStrategies = {"continue", "upgrade", "abort"};
constexpr std::array<std::string_view, 7> kKeys = {
    "id", "description", "upgrade_strategy", "retention", "params", "defaults", "nodes"};

class MachineReader {
 public:
  MachineReader(const YamlNode& root, Reporter* reporter) : root_(root), reporter_(reporter) {}

  std::optional<Machine> Read();

 private:
  // The field of a key, also of one misspelt; nullopt when there is none.
  std::optional<Field> Take(std::string_view key);
  void CheckKeys();
  void ReadId();
  void ReadUpgradeStrategy();
  void ReadParams();
  // False when the graph is not all there, so that judging it makes no sense.
  bool ReadNodes();
  Position PlaceOf(const std::string& path);

  const YamlNode& root_;
  Reporter* reporter_;
  MachineDraft draft_;
  std::unordered_map<std::string_view, const YamlEntry*> misspelt_;  // by the key that was meant
  std::unordered_map<std::string, Position> places_;  // of paths; filled when first asked for
};

void MachineReader::CheckKeys() {
  for (const YamlEntry& entry : root_.entries) {
    if (std::ranges::find(kKeys, entry.key) != kKeys.end()) continue;
    Nearest nearest(entry.key);
    for (std::string_view key : kKeys) nearest.Try(key);
    reporter_->Error(entry.at, PathTo("", entry.key),
                     "unknown key " + Quoted(entry.key) + nearest.Hint() +
                         (nearest.Best().empty() ? "; a machine has id, description, "
                                                   "upgrade_strategy, retention, params, defaults "
                                                   "and nodes"
                                                 : ""));
    if (!nearest.Best().empty()) misspelt_.emplace(nearest.Best(), &entry);
  }
}

std::optional<Field> MachineReader::Take(std::string_view key) {
  const YamlEntry* entry = root_.Find(key);
  if (!entry && misspelt_.contains(key)) entry = misspelt_[key];
  if (!entry) return std::nullopt;
  return Field(*entry, PathTo("", entry->key), reporter_);
}

void MachineReader::ReadId() {
  draft_.machine.id = "unnamed";  // nothing more is to be said of an id that is not there
  auto id = Take("id");
  if (!id) {
    reporter_->Error(root_.at, "id", "the document has no 'id'; add 'id: NAME'");
  } else if (!id->value.IsScalar() || id->value.IsEmpty()) {
    id->Fail("expected a name for the machine, not " + Describe(id->value));
  } else {
    draft_.machine.id = id->value.text;
  }
}

void MachineReader::ReadUpgradeStrategy() {
  size_t choice = 0;
  auto field = Take("upgrade_strategy");
  if (field && ReadWord(*field, kUpgradeStrategies, &choice)) {
    draft_.machine.upgrade_strategy = static_cast<UpgradeStrategy>(choice);
  }
}

void MachineReader::ReadParams() {
  auto field = Take("params");
  if (!field) return;
  if (!field->value.IsMap()) {
    field->Fail("expected a JSON Schema, such as {type: object, required: [url]}, not " +
                Describe(field->value));
    return;
  }
  std::vector<SchemaProblem> problems;
  draft_.machine.params = CompileParamsSchema(JsonText(field->value), "params", &problems);
  for (const SchemaProblem& problem : problems) {
    Position at = field->key_at;
    std::string path = field->path;
    const YamlNode* node = &field->value;
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
    reporter_->Error(at, std::move(path), problem.message);
  }
}

bool MachineReader::ReadNodes() {
  auto field = Take("nodes");
  NodeReader reader(reporter_);
  if (auto defaults = Take("defaults")) reader.ReadDefaults(*defaults);
  if (!field) return true;  // Compile says what is missing
  if (!ReadMap(*field, "'NAME: {transitions: {ok: NAME}}'")) return false;
  if (field->value.entries.size() > limits::kNodes) {
    field->Fail("the machine has " + std::to_string(field->value.entries.size()) +
                " nodes; at most " + std::to_string(limits::kNodes) + " are allowed");
    return false;
  }
  for (const YamlEntry& entry : field->value.entries) {
    draft_.nodes.push_back(reader.Read(field->Below(entry), entry.key));
  }
  return reader.complete();
}

// Where the value at `path` was written, or the nearest thing around it.
Position MachineReader::PlaceOf(const std::string& path) {
  auto add = [this](const YamlEntry& entry, const std::string& at) {
    places_.emplace(at, entry.value->IsScalar() ? entry.value->at : entry.at);
  };
  if (places_.empty()) {
    places_.emplace("", root_.at);
    for (const YamlEntry& entry : root_.entries) add(entry, entry.key);
    const YamlEntry* nodes = root_.Find("nodes");
    static const YamlNode kNothing;
    for (const YamlEntry& node : (nodes ? *nodes->value : kNothing).entries) {
      const std::string at = PathTo("nodes", node.key);
      places_.emplace(at, node.at);
      for (const YamlEntry& key : node.value->entries) {
        add(key, PathTo(at, key.key));
        if (key.key != "transitions") continue;
        for (const YamlEntry& edge : key.value->entries) {
          add(edge, PathTo(at + ".transitions", edge.key));
        }
      }
    }
  }
  for (std::string at = path; !at.empty(); at.resize(std::min(at.rfind('.'), at.size()))) {
    if (auto it = places_.find(at); it != places_.end()) return it->second;
    if (at.find('.') == std::string::npos) break;
  }
  return root_.at;
}

std::optional<Machine> MachineReader::Read() {
  const size_t errors = reporter_->errors();
  CheckKeys();
  ReadId();
  if (auto field = Take("description")) ReadText(*field, &draft_.machine.description);
  ReadUpgradeStrategy();
  Duration retention{};
  if (auto field = Take("retention"); field && ReadDuration(*field, &retention)) {
    draft_.machine.retention = retention;
  }
  ReadParams();
  if (!ReadNodes()) return std::nullopt;

  std::vector<Problem> problems;
  Machine machine = Compile(std::move(draft_), &problems);
  for (Problem& problem : problems) {
    Position at = PlaceOf(problem.path);
    if (problem.error) {
      reporter_->Error(at, std::move(problem.path), std::move(problem.message));
    } else {
      reporter_->Warning(at, std::move(problem.path), std::move(problem.message));
    }
  }
  if (reporter_->errors() > errors) return std::nullopt;
  return machine;
}

}  // namespace

std::optional<Machine> ReadMachine(const YamlNode& root, Reporter* reporter) {
  return MachineReader(root, reporter).Read();
}

}  // namespace dfsmr
