// A machine as a drawing, in Mermaid or DOT. The same input always gives the same text.
#pragma once

#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "fsm/machine/machine.h"

namespace dfsmr::cli {

struct GraphNode {
  std::string id;
  std::string kind;  // as runner.proto's Node.kind
  bool start = false;
  bool final = false;
  std::string result;                // of a final node, if it is not a success
  std::vector<std::string> remarks;  // lines under the name, such as how many instances stand there
  bool marked = false;               // an instance stands here
  std::string fill;                  // a colour, "#ccffcc"; empty: none
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};
struct GraphEdge {
  std::string from;
  std::string transition;  // empty: an arrow without a label
  std::string to;
  friend bool operator==(const GraphEdge&, const GraphEdge&) = default;
};
struct Drawing {
  std::string title;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
};

// A machine as a server describes it, with the number of instances on each node.
Drawing DrawingOf(const v1::Machine& machine);
// An instance, with the nodes marked on which it stands. `nodes` is its graph.
Drawing DrawingOf(const v1::Instance& instance,
                  const google::protobuf::RepeatedPtrField<v1::Node>& nodes);
// A machine from a file.
Drawing DrawingOf(const Machine& machine);

// The steps of an instance, with an arrow from each step to those that wait for it.
Drawing FlowOf(const v1::Instance& instance);
// The steps of a plan, from the nodes that it was compiled to, with the number of instances on
// each. Gates are drawn as arrows from step to step, except where nobody could follow so many
// arrows.
Drawing FlowOf(const v1::Machine& machine);

// Start nodes are round (Mermaid: stadium), final ones have a double border, delays are hexagons,
// manual and held nodes slanted, gates diamonds, work is a box.
std::string Mermaid(const Drawing& drawing);
std::string Dot(const Drawing& drawing);
// Drawn by Graphviz. kNotFound: its `dot` is not installed.
Result<std::string> Svg(const Drawing& drawing);

}  // namespace dfsmr::cli
