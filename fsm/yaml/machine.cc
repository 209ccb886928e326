#include "fsm/yaml/machine.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "fsm/base/limits.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/limits.h"
#include "fsm/yaml/node.h"
#include "fsm/yaml/schema.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 8> kMachineKeys = {
    "id", "description", "upgrade_strategy", "retention", "limit", "params", "defaults", "nodes"};

class MachineReader {
 public:
  MachineReader(const YamlNode& root, Reporter* reporter)
      : root_(root),
        reporter_(reporter),
        errors_(reporter->errors()),
        keys_(Field(root, "", reporter), kMachineKeys,
              "a machine has id, description, upgrade_strategy, retention, limit, params, "
              "defaults and nodes") {}

  std::optional<Machine> Read();

 private:
  void ReadId();
  void ReadParams();
  // False: parts of the graph could not be read, so checking it makes no sense.
  bool ReadNodes();
  Position PlaceOf(const std::string& path);

  const YamlNode& root_;
  Reporter* reporter_;
  size_t errors_;  // before this document
  Keys keys_;
  MachineDraft draft_;
  std::unordered_map<std::string, Position> places_;  // of paths; filled when first asked for
};

void MachineReader::ReadId() {
  draft_.machine.id = "unnamed";  // so that a missing id is reported only once
  auto id = keys_.Take("id");
  if (!id) {
    reporter_->Error(root_.at, "id", "the document has no 'id'; add 'id: NAME'");
  } else if (!id->value.IsScalar() || id->value.IsEmpty()) {
    id->Fail("expected a name for the machine, not " + Describe(id->value));
  } else {
    draft_.machine.id = id->value.text;
  }
}

void MachineReader::ReadParams() {
  Schema params;
  if (auto field = keys_.Take("params")) ReadSchema(*field, "params", &params);
  draft_.machine.params = std::move(params.check);
}

bool MachineReader::ReadNodes() {
  auto field = keys_.Take("nodes");
  NodeReader reader(reporter_);
  if (auto defaults = keys_.Take("defaults")) reader.ReadDefaults(*defaults);
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

// Where the value at `path` was written, or else the innermost thing around it.
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
          const std::string to = PathTo(at + ".transitions", edge.key);
          add(edge, to);
          for (size_t i = 0; i < edge.value->items.size(); ++i) {
            const std::string choice = to + "[" + std::to_string(i) + "]";
            places_.emplace(choice, edge.value->items[i]->at);
            for (const YamlEntry& part : edge.value->items[i]->entries) {
              add(part, PathTo(choice, part.key));
            }
          }
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
  ReadId();
  if (auto field = keys_.Take("description")) ReadText(*field, &draft_.machine.description);
  if (auto field = keys_.Take("upgrade_strategy")) {
    ReadUpgradeStrategy(*field, &draft_.machine.upgrade_strategy);
  }
  Duration retention{};
  if (auto field = keys_.Take("retention"); field && ReadDuration(*field, &retention)) {
    draft_.machine.retention = retention;
  }
  if (auto field = keys_.Take("limit")) {
    ReadLimitAsks(*field, LimitAsker::kInstance, &draft_.machine.limits);
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
  if (reporter_->errors() > errors_) return std::nullopt;
  return machine;
}

}  // namespace

std::span<const std::string_view> MachineKeys() { return kMachineKeys; }

std::optional<Machine> ReadMachine(const YamlNode& root, Reporter* reporter) {
  return MachineReader(root, reporter).Read();
}

}  // namespace dfsmr
