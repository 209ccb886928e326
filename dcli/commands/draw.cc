#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "dcli/commands/commands.h"
#include "dcli/commands/sources.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "dcli/view/graph.h"
#include "fsm/condition/condition.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr::cli {
namespace {

int PrintDrawing(Context& context, const Drawing& drawing, const std::string& format) {
  if (format == "svg") {
    const auto svg = Svg(drawing);
    if (!svg) {
      return context.Fail(kRefused, svg.error().message,
                          "install graphviz, or take --format dot and draw it elsewhere");
    }
    context.out << *svg;
  } else {
    context.out << (format == "dot" ? Dot(drawing) : Mermaid(drawing));
  }
  return kSucceeded;
}

// The machine as a server would show it, with the fields that drawings need.
v1::Machine WireOf(const Machine& machine) {
  v1::Machine wire;
  wire.set_id(machine.id);
  wire.set_kind(std::string(KindName(machine.defined_as)));
  for (const Node& node : machine.nodes) {
    v1::Node* to = wire.add_nodes();
    to->set_id(node.id);
    to->set_kind(std::string(Name(node.kind)));
    to->set_action(node.settings->action);
    const std::vector<ConditionPtr>& choices = node.settings->choices;
    for (size_t i = 0; i < node.transitions.size(); ++i) {
      const Edge& edge = node.transitions[i];
      v1::Edge* arrow = to->add_transitions();
      if (i < choices.size() && choices[i]) arrow->set_condition(TextOf(*choices[i]));
      arrow->set_transition(edge.transition);
      for (const NodeIndex target : edge.targets) arrow->add_targets(machine.nodes[target].id);
    }
  }
  return wire;
}

int NoSteps(Context& context, const std::string& what) {
  return context.Fail(kRefused, what + " is not a plan: it has no steps to draw",
                      "without --flow its nodes are drawn");
}

int DrawMachine(Context& context, const v1::Machine& machine, const GraphOptions& options) {
  if (!options.flow) return PrintDrawing(context, DrawingOf(machine), options.format);
  if (!IsPlan(machine)) return NoSteps(context, machine.id());
  return PrintDrawing(context, FlowOf(machine), options.format);
}

int DrawDefinition(Context& context, const Machine& machine, const GraphOptions& options) {
  if (context.names()) {
    context.out << Escaped(machine.id) << '\n';
    return kSucceeded;
  }
  if (context.Print(WireOf(machine))) return kSucceeded;
  if (options.flow) return DrawMachine(context, WireOf(machine), options);
  return PrintDrawing(context, DrawingOf(machine), options.format);
}

int DrawFile(Context& context, const GraphOptions& options) {
  const auto sources = ReadSources({options.subject});
  if (!sources) return context.FailUsage(sources.error());
  std::vector<std::string> ids;
  std::optional<Machine> chosen;
  const std::vector<Compiled> compiled = CompileSources(
      *sources, std::chrono::floor<Duration>(std::chrono::system_clock::now()));
  for (size_t i = 0; i < sources->size(); ++i) {
    const Source& source = (*sources)[i];
    const Compiled* parsed = &compiled[i];
    for (const Diagnostic& diagnostic : parsed->diagnostics) {
      if (diagnostic.error) context.err << Escaped(Format(diagnostic)) << '\n';
    }
    if (!parsed->ok()) return context.Fail(kRefused, source.name + " has errors");
    for (size_t d = 0; d < parsed->definitions.size(); ++d) {
      const Machine& machine = parsed->definitions[d];
      // In a file with a plan and its actions, the plan is drawn unless --machine names an action.
      if (options.machine.empty() ? machine.action() != nullptr : options.machine != machine.id) {
        continue;
      }
      ids.push_back(machine.id);
      if (chosen) continue;
      chosen = machine;
      if (!parsed->compiled[d]) continue;
      chosen->nodes = parsed->compiled[d]->nodes;
      chosen->names = parsed->compiled[d]->names;
      chosen->graph = parsed->compiled[d]->graph;
    }
  }
  if (ids.size() > 1 && options.machine.empty()) {
    return context.Fail(kBadUsage, options.subject + " holds several machines: " + Join(ids, ", "),
                        "say which with --machine");
  }
  if (!chosen) {
    return context.Fail(kBadUsage, "there is no machine \"" + options.machine + "\" in " +
                                       options.subject + DidYouMean(options.machine, ids));
  }
  return DrawDefinition(context, *chosen, options);
}

Result<v1::Machine> GetMachine(Context& context, const std::string& id, uint32_t version) {
  v1::GetMachineRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(id);
  request.set_version(version);
  return context.client->GetMachine(request);
}

// An instance that is not planned yet has no steps of its own: those of its plan are drawn.
int DrawSteps(Context& context, const v1::Instance& instance, const GraphOptions& options) {
  if (instance.steps_size() > 0) {
    return PrintDrawing(context, FlowOf(instance), options.format);
  }
  const auto machine = GetMachine(context, instance.machine(), instance.version());
  if (!machine || !IsPlan(*machine)) return NoSteps(context, instance.id());
  return DrawMachine(context, *machine, options);
}

int DrawInstance(Context& context, const GraphOptions& options) {
  v1::GetInstanceRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(options.subject);
  request.set_with_nodes(true);
  auto instance = context.client->GetInstance(request);
  if (!instance && instance.error().code == Code::kNotFound) {
    return context.Fail(kRefused,
                        "there is no file, machine or instance \"" + options.subject + "\"",
                        "dcli machines and dcli instances list what there is");
  }
  if (!instance) return context.Fail(instance.error());
  if (context.Print(*instance)) return kSucceeded;
  if (context.names()) {
    context.out << Escaped(instance->id()) << '\n';
    return kSucceeded;
  }
  if (options.flow) return DrawSteps(context, *instance, options);
  if (instance->nodes_size() == 0) {
    const auto machine = GetMachine(context, instance->machine(), instance->version());
    if (!machine) return context.Fail(machine.error());
    *instance->mutable_nodes() = machine->nodes();
  }
  return PrintDrawing(context, DrawingOf(*instance, instance->nodes()), options.format);
}

// A folder with the name of a machine is taken for the machine, unless it is written as a path.
bool IsFile(const std::string& subject) {
  if (subject == "-") return true;
  struct stat found {};
  if (stat(subject.c_str(), &found) != 0) return false;
  return !S_ISDIR(found.st_mode) || subject == "." || subject.find('/') != std::string::npos;
}

// True when a machine may have this name; else the server need not be asked.
std::optional<MachineRef> PossibleMachine(const std::string& subject) {
  const auto ref = ParseMachineRef(subject);
  if (!ref || subject.find('/') != std::string::npos) return std::nullopt;
  return *ref;
}

}  // namespace

int Graph(Context& context, const GraphOptions& options) {
  static const std::vector<std::string> kFormats = {"mermaid", "dot", "svg"};
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    return context.Fail(kBadUsage, "there is no format \"" + options.format + "\"" +
                                       DidYouMean(options.format, kFormats) +
                                       " (known: " + Join(kFormats, ", ") + ")");
  }
  if (IsFile(options.subject)) return DrawFile(context, options);
  if (const auto ref = PossibleMachine(options.subject)) {
    const auto machine = GetMachine(context, ref->id, ref->version);
    if (machine) {
      if (context.Print(*machine)) return kSucceeded;
      if (context.names()) {
        context.out << Escaped(machine->id()) << '\n';
        return kSucceeded;
      }
      return DrawMachine(context, *machine, options);
    }
    const Code code = machine.error().code;
    const bool no_name =
        code == Code::kInvalidArgument;  // instances may have names that machines may not
    if (code != Code::kNotFound && !no_name) return context.Fail(machine.error());
  }
  return DrawInstance(context, options);
}

}  // namespace dfsmr::cli
