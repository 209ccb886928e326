// Sections: their steps lie between one in front of all and one behind all. What is outside meets
// only these two, so that what is between can begin anew.
#include <algorithm>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/expand.h"

namespace dfsmr {

// Adds the section to the graph, with the steps in front of and behind what is to come. Answers its
// number.
uint32_t PlanExpander::AddSection(const FlowNode& node, Scope* scope, const std::string& path,
                                  const std::string& of) {
  const Where where = {scope->body, &node.written, ""};
  const StepForm& form = actions_.Of("", node.own, scope->body->context, where);
  const auto section = static_cast<uint32_t>(draft_.graph.sections.size());
  draft_.graph.sections.push_back(
      {.entry = static_cast<uint32_t>(draft_.steps.size()), .end = UINT32_MAX, .outer = section_});
  section_ = section;
  const StepDraft draft = {.where = where, .scope = scope};
  AddStep(Step::Kind::kPass, path, of, form.action, draft);
  AddStep(Step::Kind::kPass, path + "/end", of + "/end", form.action, draft);
  return section;
}

// The flow between the two steps that have just been added. `path`, `of`: what the paths of its
// steps begin with.
Span PlanExpander::ExpandInSection(const FlowNode& flow, Scope* scope, const FlowNode& node,
                                   const std::string& path, const std::string& of) {
  const uint32_t section = section_;
  const Span ends = {draft_.graph.sections[section].entry, draft_.graph.sections[section].exit()};
  Body& body = draft_.bodies.emplace_back(*scope->body);
  body.prefix = path + ".";
  body.of_prefix = of + ".";
  Scope* inner = AddScope({.body = &body, .outer = scope, .symbols = &SymbolsOf(flow, &body)});
  const Span span = Expand(flow, inner, false);
  if (Stopped()) return {};
  draft_.order.AddEdge(ends.in, span.empty() ? ends.out : span.in);
  if (!span.empty()) draft_.order.AddEdge(span.out, ends.out);
  CheckSize(node, *scope, draft_.graph.sections[section].compensates ? "compensate" : "do",
            section);
  if (draft_.graph.sections[section].compensates) return ends;
  const auto bundle = static_cast<uint32_t>(draft_.bundles.size());
  draft_.bundles.push_back({.kind = Bundle::Kind::kPlan,
                            .scope = inner,
                            .out = ends.out,
                            .section = draft_.graph.sections[section].outer});
  SetEntity(scope, node.name, {Entity::Kind::kBundle, bundle});
  if (node.children.size() < 2) return ends;

  // Names in a compensation are looked up in it first, then in what it compensates.
  const std::string below = path + "/compensate";
  const uint32_t compensation = AddSection(node, inner, below, of + "/compensate");
  draft_.graph.sections[compensation].compensates = true;
  draft_.graph.sections[section].compensation = compensation;
  ExpandInSection(node.children[1], inner, node, below, of + "/compensate");
  draft_.graph.sections[compensation].end = static_cast<uint32_t>(draft_.steps.size());
  section_ = section;
  return ends;
}

void PlanExpander::CheckSize(const FlowNode& node, const Scope& scope, std::string_view what,
                             uint32_t section) {
  const std::vector<Section>& sections = draft_.graph.sections;
  size_t steps = draft_.steps.size() - sections[section].entry;
  steps -= 2 * (sections.size() - section);  // in front of and behind each one
  if (steps <= limits::kSectionSteps) return;
  Fail(node, scope, what,
       "a section and its compensation have at most " + std::to_string(limits::kSectionSteps) +
           " steps each; this has " + std::to_string(steps));
}

Span PlanExpander::ExpandSection(const FlowNode& node, Scope* scope, bool left_out) {
  std::string path = scope->body->prefix + node.name + scope->numbers;
  std::string of = scope->body->of_prefix + node.name + scope->stars;
  if (left_out) return ExpandLeftOut(node, scope, std::move(path), std::move(of));
  if (node.children.empty()) return {};
  const uint32_t outer = section_;
  const uint32_t section = AddSection(node, scope, path, of);
  draft_.graph.sections[section].retry = node.retry;
  draft_.graph.sections[section].rescue = node.own.rescue.has_value();
  const Span span = ExpandInSection(node.children[0], scope, node, path, of);
  draft_.graph.sections[section].end = static_cast<uint32_t>(draft_.steps.size());
  section_ = outer;
  return span;
}

}  // namespace dfsmr
