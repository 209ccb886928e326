// The answers of dry runs, looked at before they are started.
#include <algorithm>
#include <utility>

#include "dsrv/engine/planner.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/limits.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/dry_run.h"

namespace dfsmr {
namespace {

Error Bad(const std::string& why) {
  return {Code::kInvalidArgument, Reason::kBadRequest, "dry_answers: " + why};
}

// Gates between steps have names that begin with '/'.
bool TakesAnswers(const Node& node) {
  return node.kind == NodeKind::kWork || node.kind == NodeKind::kManual ||
         node.kind == NodeKind::kHeld;
}

Error NoSuch(const Machine& machine, const std::string& name) {
  Nearest nearest(name);
  for (const Node& node : machine.nodes) {
    if (TakesAnswers(node)) nearest.Try(node.id);
  }
  return Bad((machine.graph ? "plan " : "machine ") + Quoted(machine.id) + " has no " +
             (machine.graph ? "step " : "node ") + Quoted(name) + nearest.Hint());
}

// What is wrong with an answer at a plain machine's node; an answer without a transition is one for
// the transition that there is without it.
std::optional<Error> RefusedAt(const Node& node, const std::string& text) {
  if (!TakesAnswers(node)) {
    return Bad("node " + Quoted(node.id) + " is of kind " + std::string(Name(node.kind)) +
               ", which takes no answer");
  }
  auto answer = ReadDryAnswer(text);
  const std::string transition = answer ? answer->report.transition : "";
  const bool has = node.FindTransition(transition) && !transition.starts_with(kSystemPrefix);
  const bool holds = transition == "error" && !answer->report.error_kind.empty();  // the instance
  if (has || holds || transition.empty()) return std::nullopt;
  return Bad("node " + Quoted(node.id) + " has no transition " + Quoted(transition) +
             "; it has: " + node.LegalTransitions());
}

bool IsPlanner(const Node& node) { return node.role == Role::kPlanner; }

}  // namespace

std::optional<Error> Planner::RefusedAnswer(const StartArgs& args,
                                            const VersionState& version) const {
  const std::shared_ptr<const PlanSource> source = args.flow ? args.flow : version.plan;
  std::shared_ptr<const Machine> machine(version.definition, &version.definition->machine);
  if (source) {
    const Planning planning{.instance = args.id.empty() ? "dry" : args.id,
                            .machine = args.machine,
                            .source = source,
                            .spec = std::make_shared<const Spec>(args.spec),
                            .definitions = catalog_.DefinitionsOf(args.ns),
                            .flows = {},
                            .parse_flow = options_.parse_flow};
    if (planning.bytes() > kPlanBytesAtOnce) return std::nullopt;
    machine = MakeGraph(planning, options_.steps_at_once).machine;
    if (!machine) return std::nullopt;  // the instance tells why
  }
  const bool open = std::ranges::any_of(machine->nodes, IsPlanner);
  for (const auto& [name, text] : args.spec.dry_answers) {
    const NodeIndex at = machine->Find(name);
    const bool found = at != kNoNode && (!source || TakesAnswers(machine->nodes[at]));
    if (!found && !open) return NoSuch(*machine, name);
    if (found && machine->nodes[at].role == Role::kSpawn) {
      return Bad("step " + Quoted(name) + " only starts instances, and waits for them: no report " +
                 "is due there");
    }
    if (source) continue;
    if (auto refusal = RefusedAt(machine->nodes[at], text)) return refusal;
  }
  return std::nullopt;
}

}  // namespace dfsmr
