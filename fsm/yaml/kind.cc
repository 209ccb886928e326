#include "fsm/yaml/kind.h"

#include <algorithm>

#include "fsm/yaml/action.h"
#include "fsm/yaml/document.h"
#include "fsm/yaml/machine.h"
#include "fsm/yaml/plan.h"

namespace dfsmr {

// The key that holds the id says what a document defines; if it is missing, the other keys do.
Kind KindOf(const YamlNode& root) {
  const Kind machine = {"machine", "id", MachineKeys()};
  const Kind plan = {"plan", "plan", PlanKeys()};
  const Kind action = {"action", "action", ActionKeys()};
  if (root.Find("action")) return action;  // it may have 'plan: worker'
  if (root.Find("plan")) return plan;
  if (root.Find("nodes")) return machine;
  if (root.Find("flow")) return plan;
  if (root.Find("id")) return machine;
  auto known = [&root](const Kind& kind) {
    return std::ranges::count_if(root.entries, [&kind](const YamlEntry& entry) {
      return std::ranges::find(kind.keys, entry.key) != kind.keys.end();
    });
  };
  Kind most = machine;
  for (const Kind& kind : {plan, action}) {
    if (known(kind) > known(most)) most = kind;
  }
  return most;
}

std::vector<DefinedId> DefinedIdsOf(const YamlTree& tree) {
  std::vector<DefinedId> ids;
  for (const YamlDocument& document : tree.documents) {
    if (!document.root || !document.root->IsMap()) continue;
    Kind kind = KindOf(*document.root);
    const auto apart = DocumentKindOf(*document.root);
    if (apart) kind = {Name(*apart), Name(*apart), {}};
    const YamlEntry* id = document.root->Find(kind.id);
    if (!id || !id->value->IsScalar()) continue;
    ids.push_back({kind.name, apart ? kind.name : "", kind.id, id->value->text, id->value->at});
  }
  return ids;
}

}  // namespace dfsmr
