#include "dsrv/engine/values.h"

#include <algorithm>

#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/written.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

// The output that nobody gave, in a dry run.
constexpr std::string_view kUnknown = "null";

// How often the mark of a compiled key is there: twice in a lenient reference, "##12" or "@@12",
// three times in one of a compensation.
size_t MarksOf(const std::string& key) {
  return std::min(key.find_first_not_of(key.front()), key.size());
}

// The number in "#12" or "@12", or in their other forms.
size_t IndexIn(const std::string& key) {
  return std::strtoul(key.c_str() + MarksOf(key), nullptr, 10);
}

}  // namespace

Error Missing(const Reference& reference, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kNone, "${" + reference.text + "}: " + why};
}

std::string TextOf(const std::string& json) {
  return json::KindOf(json) == json::Kind::kString ? json::Unquote(json) : json;
}

Result<std::string> TextOf(const Result<std::string>& filled) {
  return filled ? Result<std::string>(TextOf(*filled)) : filled;
}

Result<std::shared_ptr<const PlanSource>> Values::SourceOf(Resident& resident) {
  if (resident.plan && resident.plan->source) return resident.plan->source;
  std::shared_ptr<const PlanSource> source = resident.version->plan;
  if (resident.instance.version == 0) {
    auto spec = residents_.SpecOf(resident);
    if (!spec) return spec.error();
    if (!(*spec)->flow.empty()) {
      auto parsed = options_.parse_flow((*spec)->flow, TextOrigin::kStored);
      if (!parsed) return parsed;
      source = *std::move(parsed);
    }
  }
  CacheOf(resident).source = source;
  return source;
}

Result<std::string> Values::Fill(Resident& resident, std::string_view json) {
  return Evaluate(json, [&](const Reference& reference) { return Value(resident, reference); });
}

Result<std::string> Values::FillByNode(Resident& resident, std::string_view json) {
  if (resident.instance.plan) return Fill(resident, json);
  return Evaluate(json, [&](const Reference& reference) { return OfMachine(resident, reference); });
}

Result<std::string> Values::WorkerOf(Resident& resident, const std::string& node) {
  const Instance& instance = resident.instance;
  auto worker = rows::GetWorker(turn_.reader(), {instance.ns, instance.id}, node);
  if (!turn_.Trust(worker)) return worker.error();
  if (*worker && !(*worker)->empty()) return json::Quote(**worker);
  if (resident.instance.dry_run) return Unknown();
  return Error{Code::kInvalidArgument, Reason::kNone,
               "${" + node + ".worker}: no worker has reported ok of " +
                   (instance.plan ? "step " : "node ") + Quoted(node)};
}

Result<std::string> Values::Value(Resident& resident, const Reference& reference) {
  const std::string& root = reference.parts.front().key;
  std::span<const Reference::Part> path = std::span(reference.parts).subspan(1);
  if (root == "instance") {
    if (path.size() == 1 && path[0].key == "id") return json::Quote(resident.instance.id);
    return Missing(reference, "of an instance there is only instance.id");
  }
  if (root == "params") {
    auto spec = residents_.SpecOf(resident);
    if (!spec) return spec.error();
    auto found = ParamAt(resident, (*spec)->params, path);
    if (found) return std::string(*found);
    return Missing(reference, "the instance's params have no " + PathText(path));
  }
  return OutputAt(resident, reference);
}

Result<std::string> Values::OutputAt(Resident& resident, const Reference& reference) {
  const std::string& root = reference.parts.front().key;
  std::span<const Reference::Part> path = std::span(reference.parts).subspan(1);
  const PlanGraph* graph = resident.machine().graph.get();
  const bool step = root.starts_with('#');
  if (!graph || (!step && !root.starts_with('@'))) {
    return Missing(reference, "there is no " + Quoted(root));
  }
  const size_t index = IndexIn(root);
  if (index >= (step ? graph->steps.size() : graph->groups.size())) {
    return Missing(reference, "there is no such step");
  }
  if (step && path.size() == 1 && path[0].key == "worker") {
    return WorkerOf(resident, graph->steps[index].path);
  }
  const size_t marks = MarksOf(root);
  if (marks == 3) return AsItIs(resident, reference, step, index);
  const bool lenient = marks == 2;
  if (lenient && !(path.size() > 0 && path[0].key == "output")) return FactOf(resident, reference);
  if (step && graph->steps[index].left_out) return std::string("null");
  if (step && lenient &&
      rules::OutcomeOf(resident.machine(), resident.instance, root) != StepOutcome::kSucceeded) {
    return std::string("null");
  }
  auto output = step ? StepValue(resident, graph->steps[index], lenient)
                     : GroupValue(resident, graph->groups[index], lenient);
  if (!output) return output;
  path = path.subspan(std::min<size_t>(1, path.size()));  // past "output"
  auto found = Find(*output, path);
  if (found) return std::string(*found);
  if (resident.instance.dry_run && (*output == kUnknown || !step)) return Unknown();
  const std::string name = PathOf(*graph, root);
  const std::string rest = PathText(path);
  if (name.empty()) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "there is no " + rest + " among the outputs of several steps: there are none, "
                 "since the list they were made of was empty"};
  }
  return Error{Code::kInvalidArgument, Reason::kNone,
               "${" + name + ".output" + (rest.starts_with('[') ? "" : ".") + rest +
                   "}: the output of " + (step ? "step " : "the steps of ") + name + " has no " +
                   rest};
}

Result<std::string> Values::AsItIs(Resident& resident, const Reference& reference, bool step,
                                   size_t index) {
  const PlanGraph& graph = *resident.machine().graph;
  as_it_is_ = true;
  auto output = step ? StepValue(resident, graph.steps[index], false)
                     : GroupValue(resident, graph.groups[index], false);
  as_it_is_ = false;
  if (!output) return output;
  const std::span<const Reference::Part> path = reference.parts;
  auto found = Find(*output, path.subspan(std::min<size_t>(2, path.size())));
  return std::string(found.value_or("null"));
}

Result<std::string> Values::FactOf(Resident& resident, const Reference& reference) {
  const std::string& root = reference.parts.front().key;
  const StepOutcome outcome = rules::OutcomeOf(resident.machine(), resident.instance, root);
  const bool state = reference.parts.size() > 1 && reference.parts[1].key == "state";
  if (state) return json::Quote(Name(outcome));
  if (outcome == StepOutcome::kSucceeded) return std::string("null");
  return json::Quote(rules::WhyOf(resident.machine(), resident.instance, root));
}

std::optional<std::string> Values::ForCondition(Resident& resident, const Reference& reference,
                                                const FreshOutput& fresh) {
  fresh_ = fresh;
  Result<std::string> value =
      resident.instance.plan ? Value(resident, reference) : OfMachine(resident, reference);
  fresh_ = {};
  if (!value) return std::nullopt;
  return *std::move(value);
}

// Of a plain machine: outputs go by the names of nodes.
Result<std::string> Values::OfMachine(Resident& resident, const Reference& reference) {
  const std::optional<std::string> node = NodeOfOutput(reference);
  const std::string& root = reference.parts.front().key;
  const bool of_instance = root == "params" || root == "instance";
  const auto worker = of_instance ? std::nullopt : NodeOfWorker(reference);
  if (worker) return WorkerOf(resident, *worker);
  if (!node || of_instance) return Value(resident, reference);
  auto output = OutputOf(resident, *node);
  if (!output) return output;
  const auto at = std::ranges::find(reference.parts.begin() + 1, reference.parts.end(), "output",
                                    &Reference::Part::key);
  auto found = Find(*output, std::span(at + 1, reference.parts.end()));
  if (found) return std::string(*found);
  if (resident.instance.dry_run && *output == kUnknown) return Unknown();
  return Missing(reference, "the output of node " + *node + " has no such value");
}

// The params may hold the list that the steps were made of: they are read once, not for each step.
std::optional<std::string_view> Values::ParamAt(Resident& resident, std::string_view params,
                                                std::span<const Reference::Part> path) {
  if (params.size() <= limits::kStepParams || path.empty()) {
    return Find(params.empty() ? "{}" : params, path);
  }
  auto& members = CacheOf(resident).params;
  if (members.empty()) {
    json::ForEachMember(params, [&members](std::string_view name, std::string_view value) {
      members.insert_or_assign(std::string(name), value);
      return true;
    });
  }
  auto member = members.find(path.front().key);
  if (path.front().key.empty() || member == members.end()) return std::nullopt;
  return Find(member->second, path.subspan(1));
}

Result<std::string> Values::OutputOf(Resident& resident, const std::string& step) {
  if (!fresh_.json.empty() && fresh_.node == step) return std::string(fresh_.json);
  auto output = rows::GetOutput(turn_.reader(), {resident.instance.ns, resident.instance.id}, step);
  if (!turn_.Trust(output)) return output.error();
  if (*output) return **output;
  if (!resident.instance.dry_run) return std::string("{}");
  ++unknown_;
  return std::string(kUnknown);
}

Result<std::string> Values::Unknown() {
  ++unknown_;
  return std::string(kUnknown);
}

Result<std::string> Values::GroupValue(Resident& resident, const Group& group, bool lenient) {
  const PlanGraph& graph = *resident.machine().graph;
  std::string value(1, group.list ? '[' : '{');
  for (const Group::Member& member : group.members) {
    auto one = member.group ? GroupValue(resident, graph.groups[member.index], lenient)
                            : StepValue(resident, graph.steps[member.index], lenient);
    if (!one) return one;
    if (value.size() > 1) value += ',';
    if (!group.list) value += json::Quote(member.name) + ":";
    value += *one;
    if (value.size() > limits::kJson) {
      return Error{
          Code::kInvalidArgument, Reason::kNone,
          "more than " + std::to_string(limits::kJson) + " bytes of outputs in one reference"};
    }
  }
  return value + (group.list ? ']' : '}');
}

Result<std::string> Values::StepValue(Resident& resident, const Step& step, bool lenient) {
  /*mutant left-out-has-output*/ if (step.left_out)
    return std::string("null"); /*end*/
  if (lenient) {
    const auto index = static_cast<size_t>(&step - resident.machine().graph->steps.data());
    const StepOutcome outcome =
        rules::OutcomeOf(resident.machine(), resident.instance, "#" + std::to_string(index));
    if (outcome != StepOutcome::kSucceeded) return std::string("null");
  }
  if (!as_it_is_) return OutputOf(resident, step.path);
  if (!fresh_.json.empty() && fresh_.node == step.path) return std::string(fresh_.json);
  auto kept =
      rows::GetOutput(turn_.reader(), {resident.instance.ns, resident.instance.id}, step.path);
  if (!turn_.Trust(kept)) return kept.error();
  if (*kept) return **std::move(kept);
  const auto index = static_cast<size_t>(&step - resident.machine().graph->steps.data());
  const bool done = rules::OutcomeOf(resident.machine(), resident.instance,
                                     "#" + std::to_string(index)) == StepOutcome::kSucceeded;
  return std::string(done ? "{}" : "null");
}

}  // namespace dfsmr
