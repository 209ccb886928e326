#include "fsm/package/work.h"

#include "fsm/when/schedule.h"
#include "fsm/when/trigger.h"

namespace dfsmr {
namespace {

class Collector {
 public:
  Collector(const OwnNames& names, const PackageSource& source, std::vector<PackageWork>* work)
      : names_(names), source_(source), work_(*work) {}

  void Add(const Machine& machine) {
    if (machine.plan()) {
      for (const HookSource& hook : machine.plan()->hooks) Add(hook.action, hook.written);
      return AddFlow(machine.plan()->flow);
    }
    if (machine.action()) {
      // A subscriber becomes a step wherever its trigger is one.
      if (machine.action()->subscribes_to) Add(machine.id, machine.action()->written);
      return;
    }
    const YamlNode* nodes = NodesOf(machine);
    for (const Node& node : machine.nodes) {
      if (node.kind == NodeKind::kWork) Add(node.settings->action, PlaceOfNode(nodes, node.id));
    }
  }

  void Add(const Document& document) {
    const auto* trigger = std::get_if<1>(&document.body);
    if (trigger == nullptr) return;
    for (const ItemSource& item : (*trigger)->on) {
      if (item.poll()) Add(item.poll()->action, item.written);
    }
  }

 private:
  void AddFlow(const FlowNode& node) {
    for (const FlowNode& child : node.children) AddFlow(child);
    Add(node.action, node.written);
  }
  void Add(const std::string& action, const Written& written) {
    if (!action.empty()) work_.push_back({action, &source_, written});
  }

  // Where a machine's nodes are written; null: nowhere.
  const YamlNode* NodesOf(const Machine& machine) const {
    for (const YamlDocument& document : source_.parsed.tree->documents) {
      if (!document.root || !document.root->IsMap()) continue;
      const YamlEntry* id = document.root->Find("id");
      const YamlEntry* nodes = document.root->Find("nodes");
      if (id && nodes && id->value->text == names_.Local(machine.id)) return nodes->value;
    }
    return nullptr;
  }
  static Written PlaceOfNode(const YamlNode* nodes, const std::string& id) {
    const YamlEntry* entry = nodes && nodes->IsMap() ? nodes->Find(id) : nullptr;
    if (!entry) return {{}, PathTo("nodes", id)};
    const YamlEntry* action = entry->value->IsMap() ? entry->value->Find("action") : nullptr;
    const std::string path = PathTo("nodes", id);
    if (!action) return {entry->at, path};
    return {action->value->at, PathTo(path, "action")};
  }

  const OwnNames& names_;
  const PackageSource& source_;
  std::vector<PackageWork>& work_;
};

void AddMiddleware(const MiddlewareSource& from, std::vector<UsedMiddleware>* to) {
  for (const Use& use : from.use) to->push_back({use.name, from.written});
  for (const auto& [name, other] : from.replace) to->push_back({other, from.written});
}

void AddMiddleware(const FlowNode& node, std::vector<UsedMiddleware>* to) {
  for (const FlowNode& child : node.children) AddMiddleware(child, to);
  AddMiddleware(node.own.middleware, to);
}

}  // namespace

void CollectWork(const OwnNames& names, const PackageSource& source,
                 std::vector<PackageWork>* work) {
  Collector collector(names, source, work);
  for (const Machine& machine : source.parsed.definitions) collector.Add(machine);
  for (const Document& document : source.parsed.documents) collector.Add(document);
}

std::vector<UsedMiddleware> MiddlewareOf(const PackageSource& source) {
  std::vector<UsedMiddleware> used;
  for (const Machine& machine : source.parsed.definitions) {
    if (machine.action()) AddMiddleware(machine.action()->middleware, &used);
    if (!machine.plan()) continue;
    AddMiddleware(machine.plan()->middleware, &used);
    AddMiddleware(machine.plan()->flow, &used);
  }
  return used;
}

}  // namespace dfsmr
