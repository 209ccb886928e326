#include "dcli/view/graph.h"

#include <signal.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "dcli/system/process.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "fsm/condition/condition.h"

namespace dfsmr::cli {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<v1::Node>;

void AddCount(uint64_t count, const char* what, std::vector<std::string>* parts) {
  if (count > 0) parts->push_back(std::to_string(count) + " " + what);
}

std::vector<std::string> CountsOf(const v1::NodeStats& stats) {
  std::vector<std::string> parts;
  AddCount(stats.ready(), "ready", &parts);
  AddCount(stats.claimed(), "claimed", &parts);
  AddCount(stats.waiting(), "waiting", &parts);
  AddCount(stats.held(), "held", &parts);
  if (parts.empty()) return {};
  return {Join(parts, ", ")};
}

void AddGraph(const Nodes& nodes, Drawing* drawing) {
  for (const v1::Node& node : nodes) {
    if (node.kind() == "system") continue;  // every machine has it, and instances only pass it
    drawing->nodes.push_back(
        {.id = node.id(), .kind = node.kind(), .start = node.start(), .final = node.final()});
    for (const v1::Edge& edge : node.transitions()) {
      for (const std::string& to : edge.targets()) {
        drawing->edges.push_back({node.id(), ChoiceText(edge), to});
      }
    }
  }
}

// Whether it is a word of Mermaid's, which cannot name a node.
bool IsKeyword(const std::string& id) {
  static const std::set<std::string> kWords = {
      "end",      "graph",   "flowchart", "subgraph",  "style", "linkstyle", "class",
      "classdef", "click",   "default",   "direction", "call",  "href",      "_self",
      "_blank",   "_parent", "_top",      "o",         "x"};
  return kWords.contains(Lower(id));
}

// Names for Mermaid: letters, digits and underscores, each once.
class MermaidIds {
 public:
  const std::string& Of(const std::string& id) {
    std::string& name = names_[id];
    if (!name.empty()) return name;
    name = id;
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (IsKeyword(name)) name += '_';
    while (!taken_.insert(name).second) name += '_';
    return name;
  }

 private:
  std::map<std::string, std::string> names_;
  std::set<std::string> taken_;
};

// Escapes a text for a quoted label. Names and remarks need no escapes, but an instance's id in a
// title may hold any printable character.
std::string MermaidText(const std::string& text) {
  std::string safe;
  for (const char c : Escaped(text)) {
    const bool special = std::string_view("\"#<>|").find(c) != std::string_view::npos;
    safe += special ? "#" + std::to_string(c) + ";" : std::string(1, c);
  }
  return safe;
}

std::string MermaidLabel(const std::string& transition) {
  const bool plain = std::all_of(transition.begin(), transition.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
  return plain && !IsKeyword(transition) ? transition : "\"" + MermaidText(transition) + "\"";
}

std::string DotText(const std::string& text) {
  std::string safe;
  for (const char c : Escaped(text)) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

std::vector<std::string> LinesOf(const GraphNode& node) {
  std::vector<std::string> lines = {node.id};
  if (!node.result.empty()) lines.push_back(node.result);
  lines.insert(lines.end(), node.remarks.begin(), node.remarks.end());
  return lines;
}

struct Shape {
  const char* open;  // Mermaid's brackets
  const char* close;
  const char* dot;  // DOT's attributes
  bool dashed = false;
};

Shape ShapeOf(const GraphNode& node) {
  if (node.final) return {"(((", ")))", "shape=ellipse, peripheries=2"};
  if (node.start) return {"([", "])", "shape=ellipse, penwidth=2"};
  if (node.kind == "delay") return {"{{", "}}", "shape=hexagon"};
  if (node.kind == "manual") return {"[/", "/]", "shape=parallelogram"};
  if (node.kind == "held") return {"[\\", "\\]", "shape=parallelogram", true};
  if (node.kind == "gate") return {"{", "}", "shape=diamond"};
  if (node.kind == "spawn") return {"[[", "]]", "shape=box, peripheries=2"};
  return {"[", "]", "shape=box"};
}

std::string DotStyle(const GraphNode& node) {
  const bool dashed = ShapeOf(node).dashed;
  const std::string fill = node.marked && node.fill.empty() ? "#ffdd66" : node.fill;
  if (fill.empty()) return dashed ? ", style=dashed" : "";
  return std::string(", style=") + (dashed ? "\"dashed,filled\"" : "filled") + ", fillcolor=\"" +
         fill + "\"";
}

std::string MermaidStyle(const GraphNode& node) {
  if (node.marked) return "fill:" + (node.fill.empty() ? "#fd6" : node.fill) + ",stroke-width:3px";
  return node.fill.empty() ? "" : "fill:" + node.fill;
}

const char* ResultText(Outcome result) {
  if (result == Outcome::kError) return "error";
  return result == Outcome::kWarning ? "warning" : "";
}

}  // namespace

Drawing DrawingOf(const v1::Machine& machine) {
  Drawing drawing{.title = MachineText(machine.id(), machine.version())};
  AddGraph(machine.nodes(), &drawing);
  for (GraphNode& node : drawing.nodes) {
    node.remarks = CountsOf(FindNode(machine.nodes(), node.id)->stats());
  }
  return drawing;
}

Drawing DrawingOf(const v1::Instance& instance, const Nodes& nodes) {
  Drawing drawing{.title = instance.id()};
  AddGraph(nodes, &drawing);
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < drawing.nodes.size(); ++i) places[drawing.nodes[i].id] = i;
  for (const v1::Token& token : instance.tokens()) {
    const auto [place, added] = places.try_emplace(token.node(), drawing.nodes.size());
    if (added) drawing.nodes.push_back({.id = token.node(), .kind = "system", .final = true});
    GraphNode& node = drawing.nodes[place->second];
    node.marked = true;
    const bool done = token.state() == v1::Token::DONE;
    node.remarks.push_back(Lower(done ? NameOf(instance.result()) : NameOf(token.state())));
  }
  return drawing;
}

Drawing DrawingOf(const Machine& machine) {
  Drawing drawing{.title = machine.id};
  for (const Node& node : machine.nodes) {
    const bool final = node.kind == NodeKind::kFinal;
    drawing.nodes.push_back({.id = node.id,
                             .kind = std::string(Name(node.kind)),
                             .start = node.start,
                             .final = final,
                             .result = final ? ResultText(node.result) : ""});
    const std::vector<ConditionPtr>& choices = node.settings->choices;
    for (size_t i = 0; i < node.transitions.size(); ++i) {
      const Edge& edge = node.transitions[i];
      const bool chosen = i < choices.size() && choices[i];
      const std::string label = edge.transition + (chosen ? " if " + TextOf(*choices[i]) : "");
      for (const NodeIndex target : edge.targets) {
        drawing.edges.push_back({node.id, label, machine.nodes[target].id});
      }
    }
  }
  return drawing;
}

std::string Mermaid(const Drawing& drawing) {
  MermaidIds ids;
  std::string text = "flowchart TD\n  %% " + Escaped(drawing.title) + "\n";
  for (const GraphNode& node : drawing.nodes) {
    std::vector<std::string> lines = LinesOf(node);
    for (std::string& line : lines) line = MermaidText(line);
    const Shape shape = ShapeOf(node);
    text += "  " + ids.Of(node.id) + shape.open + "\"" + Join(lines, "<br/>") + "\"" + shape.close +
            "\n";
  }
  for (const GraphEdge& edge : drawing.edges) {
    const std::string label =
        edge.transition.empty() ? "" : "|" + MermaidLabel(edge.transition) + "|";
    text += "  " + ids.Of(edge.from) + " -->" + label + " " + ids.Of(edge.to) + "\n";
  }
  for (const GraphNode& node : drawing.nodes) {
    const std::string style = MermaidStyle(node);
    if (!style.empty()) text += "  style " + ids.Of(node.id) + " " + style + "\n";
  }
  return text;
}

std::string Dot(const Drawing& drawing) {
  const std::string title = "\"" + DotText(drawing.title) + "\"";
  std::string text = "digraph " + title + " {\n  label=" + title +
                     ";\n  labelloc=t;\n"
                     "  node [fontname=\"sans-serif\"];\n"
                     "  edge [fontname=\"sans-serif\"];\n";
  for (const GraphNode& node : drawing.nodes) {
    std::vector<std::string> lines = LinesOf(node);
    for (std::string& line : lines) line = DotText(line);
    text += "  \"" + DotText(node.id) + "\" [label=\"" + Join(lines, "\\n") + "\", " +
            ShapeOf(node).dot + DotStyle(node) + "];\n";
  }
  for (const GraphEdge& edge : drawing.edges) {
    const std::string label =
        edge.transition.empty() ? "" : " [label=\"" + DotText(edge.transition) + "\"]";
    text += "  \"" + DotText(edge.from) + "\" -> \"" + DotText(edge.to) + "\"" + label + ";\n";
  }
  return text + "}\n";
}

Result<std::string> Svg(const Drawing& drawing) {
  signal(SIGPIPE, SIG_IGN);  // dot may end before it has read everything: that is reported below
  std::string svg;
  std::string complaint;
  auto process = Process::Start({.command = {"dot", "-Tsvg"},
                                 .environment = {},
                                 .input = Dot(drawing),
                                 .out = [&](std::string_view text) { svg += text; },
                                 .err = [&](std::string_view text) { complaint += text; }});
  if (!process) {
    return Error{process.error().code, Reason::kNone,
                 "Graphviz draws the SVG, and its program dot is not installed"};
  }
  while (!(*process)->Run(std::chrono::hours(1), -1)) continue;
  if ((*process)->status() == 0) return svg;
  return Error{Code::kInternal, Reason::kNone,
               "dot failed: " + StatusText((*process)->status()) + ": " + complaint};
}

}  // namespace dfsmr::cli
