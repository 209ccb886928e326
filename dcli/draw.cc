#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "dcli/commands.h"
#include "dcli/graph.h"
#include "dcli/sources.h"
#include "dcli/text.h"
#include "fsm/yaml.h"

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

int DrawFile(Context& context, const GraphOptions& options) {
  const auto sources = ReadSources({options.subject});
  if (!sources) return context.FailUsage(sources.error());
  std::vector<std::string> ids;
  std::optional<Drawing> drawing;
  for (const Source& source : *sources) {
    const Parsed parsed = ParseDefinitions(source.text, source.name);
    for (const Diagnostic& diagnostic : parsed.diagnostics) {
      if (diagnostic.error) context.err << Escaped(Format(diagnostic)) << '\n';
    }
    if (!parsed.ok()) return context.Fail(kRefused, source.name + " has errors");
    for (const Definition& definition : parsed.definitions) {
      ids.push_back(definition.machine.id);
      const bool wanted = options.machine.empty() || options.machine == definition.machine.id;
      if (wanted && !drawing) drawing = DrawingOf(definition.machine);
    }
  }
  if (ids.size() > 1 && options.machine.empty()) {
    return context.Fail(kBadUsage, options.subject + " holds several machines: " + Join(ids, ", "),
                        "say which with --machine");
  }
  if (!drawing) {
    return context.Fail(kBadUsage, "there is no machine \"" + options.machine + "\" in " +
                                       options.subject + DidYouMean(options.machine, ids));
  }
  return PrintDrawing(context, *drawing, options.format);
}

Result<v1::Machine> GetMachine(Context& context, const std::string& id, uint32_t version) {
  v1::GetMachineRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(id);
  request.set_version(version);
  return context.client->GetMachine(request);
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
  if (instance->nodes_size() == 0) {
    const auto machine = GetMachine(context, instance->machine(), instance->version());
    if (!machine) return context.Fail(machine.error());
    *instance->mutable_nodes() = machine->nodes();
  }
  return PrintDrawing(context, DrawingOf(*instance, instance->nodes()), options.format);
}

// A folder that happens to be called like a machine is not meant, unless it is written as one.
bool IsFile(const std::string& subject) {
  if (subject == "-") return true;
  struct stat found {};
  if (stat(subject.c_str(), &found) != 0) return false;
  return !S_ISDIR(found.st_mode) || subject == "." || subject.find('/') != std::string::npos;
}

// Whether a machine can be called so at all; a server need not be asked for what cannot be.
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
      return PrintDrawing(context, DrawingOf(*machine), options.format);
    }
    const Code code = machine.error().code;
    const bool no_name = code == Code::kInvalidArgument;  // instances may be called what it may not
    if (code != Code::kNotFound && !no_name) return context.Fail(machine.error());
  }
  return DrawInstance(context, options);
}

}  // namespace dfsmr::cli
