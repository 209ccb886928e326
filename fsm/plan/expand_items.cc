// for_each: its body once for each item of a list, and the names of its steps for all of them.
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/plan/expand.h"

namespace dfsmr {
namespace {

bool IsRoot(std::string_view name) {
  return name == "params" || name == "instance" || name == "trigger";
}

}  // namespace

// The list, as JSON; nullopt when there was a problem, or when it is not known yet.
std::optional<std::string> PlanExpander::Items(const FlowNode& node, const Scope& scope) {
  draft_.graph.depends_on_params = true;
  PlanNames::Value value = names_.Known(node.items, scope);
  if (!value.json) {
    FailUnknown(node, scope, "for_each", value);
    return std::nullopt;
  }
  if (json::KindOf(*value.json) == json::Kind::kArray) return std::move(value.json);
  Fail(node, scope, "for_each",
       "'for_each' wants a list; this is " + std::string(KindName(*value.json)));
  return std::nullopt;
}

bool PlanExpander::CheckAs(const FlowNode& node, const std::string& as, const Scope& scope) {
  Result<Reference> reference = ParseReference(as);
  if (reference && reference->parts.size() == 1 && !IsRoot(as)) return true;
  Fail(node, scope, "as",
       Quoted(as) +
           " cannot be the name of an item: letters, digits, '_' and "
           "'-', and neither 'params', 'instance' nor 'trigger'");
  return false;
}

Span PlanExpander::ExpandForEach(const FlowNode& node, Scope* scope, bool left_out) {
  if (node.children.empty()) return {};
  const FlowNode& body = node.children.front();
  if (left_out) return Expand(body, scope, true);
  if (!CheckAs(node, node.as, *scope)) return {};
  std::optional<std::string> items = Items(node, *scope);
  if (!draft_.Defining()) return items ? ExpandItems(node, *items, scope) : Span();
  return ExpandItems(node, "[null]", scope);
}

// Keeps the text of a list. Iterations around it often have the same list, which is kept once.
std::string_view PlanExpander::KeepList(const FlowNode& node, std::string_view items) {
  std::string_view& last = lists_[&node];
  if (last == items) return last;
  if (!names_.Keep(items.size())) stopped_ = true;
  last = draft_.texts.emplace_back(items);
  return last;
}

Span PlanExpander::ExpandItems(const FlowNode& node, std::string_view items, Scope* scope) {
  const FlowNode& body = node.children.front();
  const Symbols& symbols = SymbolsOf(body, nullptr);
  std::vector<uint32_t> lists;
  for (std::string_view name : symbols.names) {
    lists.push_back(static_cast<uint32_t>(draft_.bundles.size()));
    draft_.bundles.push_back({.kind = Bundle::Kind::kList, .section = section_});
    SetEntity(scope, name, {Entity::Kind::kBundle, lists.back()});
  }
  const std::string_view kept = KeepList(node, items);
  std::vector<Span> spans;
  size_t at = 0;
  while (auto item = json::NextItem(kept, &at)) {
    if (Stopped()) return {};
    Scope inner{.body = scope->body, .outer = scope, .symbols = &symbols, .as = node.as};
    inner.numbers = scope->numbers;
    inner.stars = scope->stars;
    if (draft_.Defining()) {
      inner.stars += ".*";
    } else {
      inner.item = item;
      inner.numbers += "." + std::to_string(spans.size());
    }
    spans.push_back(ExpandItem(body, AddScope(std::move(inner)), lists));
  }
  if (!spans.empty()) {
    const bool sequential = /*mutant sequential-items-concurrent*/ node.sequential /*end*/;
    return sequential ? Sequential(spans) : Concurrent(spans);
  }
  const Span span = NeverEmpty({});
  for (uint32_t list : lists) draft_.bundles[list].empty = span.out;
  return span;
}

Span PlanExpander::ExpandItem(const FlowNode& body, Scope* scope,
                              const std::vector<uint32_t>& lists) {
  const Span span = Expand(body, scope, false);
  for (size_t i = 0; i < lists.size(); ++i) {
    draft_.bundles[lists[i]].items.push_back(scope->entities[i]);
  }
  return span;
}

}  // namespace dfsmr
