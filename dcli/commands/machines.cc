#include <algorithm>
#include <map>

#include "dcli/call/pages.h"
#include "dcli/commands/commands.h"
#include "dcli/view/describe.h"
#include "dcli/view/graph.h"
#include "dcli/view/steps.h"

namespace dfsmr::cli {
namespace {

std::string Count(uint64_t n) { return std::to_string(n); }

std::string TimeoutText(const v1::NodeStats& stats) {
  return stats.has_timeout_now() ? DurationText(FromProto(stats.timeout_now())) : "none";
}

void PrintNodes(Context& context, const v1::Machine& machine) {
  std::vector<std::string> header = {"NODE",    "KIND", "READY",     "CLAIMED",
                                     "WAITING", "HELD", "COMPLETED", "TIMED OUT",
                                     "P50",     "P95",  "TIMEOUT"};
  if (context.wide()) header.insert(header.end(), {"ACTION", "QUEUE"});
  header.push_back("TRANSITIONS");
  Table table(header);
  for (const v1::Node& node : machine.nodes()) {
    if (node.kind() == "system" && !context.wide()) continue;  // in every machine
    const v1::NodeStats& stats = node.stats();
    const bool work = node.kind() == "work" || node.kind().empty();
    std::vector<std::string> row = {node.id(),
                                    node.kind() + (node.start() ? ", start" : ""),
                                    Count(stats.ready()),
                                    Count(stats.claimed()),
                                    Count(stats.waiting()),
                                    Count(stats.held()),
                                    Count(stats.completed()),
                                    Count(stats.timed_out()),
                                    stats.has_p50() ? DurationText(FromProto(stats.p50())) : "",
                                    stats.has_p95() ? DurationText(FromProto(stats.p95())) : "",
                                    work ? TimeoutText(stats) : ""};
    if (context.wide()) row.insert(row.end(), {node.action(), node.queue()});
    row.push_back(TransitionsText(node));
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
}

using NodesById = std::map<std::string, const v1::Node*>;

const v1::NodeStats& StatsOf(const NodesById& nodes, const std::string& id) {
  static const v1::NodeStats kNone;
  const auto found = nodes.find(id);
  return found == nodes.end() ? kNone : found->second->stats();
}

std::string OrNone(uint64_t count) { return count > 0 ? Count(count) : ""; }

std::vector<std::string> RowOf(Context& context, const NodesById& nodes, const v1::Node& step,
                               const std::string& after) {
  const v1::NodeStats& stats = step.stats();
  const std::string& path = step.id();
  const uint64_t held = StatsOf(nodes, path + "/error").held() +
                        StatsOf(nodes, path + "/finalize/error").held();
  std::vector<std::string> row = {step.action(),
                                  OrNone(stats.ready()),
                                  OrNone(stats.claimed()),
                                  OrNone(stats.waiting()),
                                  OrNone(StatsOf(nodes, path + "/suspended").waiting()),
                                  OrNone(held),
                                  Count(stats.completed()),
                                  stats.has_p50() ? DurationText(FromProto(stats.p50())) : "",
                                  stats.has_p95() ? DurationText(FromProto(stats.p95())) : "",
                                  step.kind() == "work" ? TimeoutText(stats) : ""};
  if (context.wide()) row.push_back(step.queue());
  row.push_back(after);
  return row;
}

// A plan by its steps: what was written, not what it was compiled to.
void PrintPlan(Context& context, const v1::Machine& machine) {
  NodesById nodes;
  for (const v1::Node& node : machine.nodes()) nodes[node.id()] = &node;
  const Drawing flow = FlowOf(machine);
  std::map<std::string, std::string> after;
  for (const GraphEdge& edge : flow.edges) {
    std::string& before = after[edge.to];
    before += (before.empty() ? "" : ", ") + edge.from;
  }
  std::vector<std::string> paths;
  for (const GraphNode& step : flow.nodes) {
    if (!step.id.starts_with('/') && StepOfNode(step.id) == step.id) paths.push_back(step.id);
  }
  std::vector<std::string> header = {"STEP",      "ACTION", "READY",     "CLAIMED", "WAITING",
                                     "SUSPENDED", "HELD",   "COMPLETED", "P50",     "P95",
                                     "TIMEOUT"};
  if (context.wide()) header.push_back("QUEUE");
  header.push_back("AFTER");
  Table table(header);
  for (const auto& [name, path] : LinesOf(TreeOf(paths))) {
    std::vector<std::string> row = {name};
    if (path >= 0) {
      const std::string& id = paths[static_cast<size_t>(path)];
      const auto cells = RowOf(context, nodes, *nodes[id], after[id]);
      row.insert(row.end(), cells.begin(), cells.end());
    }
    table.Add(std::move(row));
  }
  if (!table.empty()) table.Print(context.out, context.look);
  if (context.wide()) {
    context.out << '\n';
    PrintNodes(context, machine);
  }
}

void PrintMachine(Context& context, const v1::Machine& machine) {
  const v1::MachineStats& stats = machine.stats();
  const bool plan = IsPlan(machine);
  Description text;
  text.Add(machine.kind() == "plan" ? "Plan" : plan ? "Action" : "Machine",
           MachineText(machine.id(), machine.version()));
  if (!plan) text.Add("Kind", machine.kind());
  text.Add("Package", PackageText(machine.package()));
  if (machine.retired()) text.Add("Retired", "its package no longer has it, or is not active");
  text.Add("Upgrades", machine.upgrade_strategy());
  text.Add("Defined", When(machine.define_time(), context.look));
  text.Add("Instances", Count(stats.running()) + " running, " + Count(stats.scheduled()) +
                            " scheduled, " + Count(stats.paused()) + " paused, " +
                            Count(stats.stopped()) + " stopped");
  text.Add("Retries", PercentText(stats.retry_rate()));
  text.Add("Breaker", stats.breaker());
  text.Print(context.out, context.look);
  context.out << '\n';
  plan ? PrintPlan(context, machine) : PrintNodes(context, machine);
}

int Describe(Context& context, const std::string& subject) {
  const auto ref = ParseMachineRef(subject);
  if (!ref) return context.FailUsage(ref.error());
  v1::GetMachineRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(ref->id);
  request.set_version(ref->version);
  const auto machine = context.client->GetMachine(request);
  if (!machine) return context.Fail(machine.error());
  if (context.Print(*machine)) return kSucceeded;
  if (context.names()) {
    context.out << machine->id() << '\n';
  } else {
    PrintMachine(context, *machine);
  }
  return kSucceeded;
}

Result<v1::ListMachinesResponse> ListAll(Context& context, bool all_versions) {
  v1::ListMachinesRequest request;
  request.set_namespace_(context.name_space);
  request.set_all_versions(all_versions);
  return AllPages(request,
                  [&context](const auto& one) { return context.client->ListMachines(one); });
}

void PrintTable(Context& context, const v1::ListMachinesResponse& list) {
  std::vector<std::string> header = {"MACHINE", "VERSION", "KIND",    "RUNNING", "SCHEDULED",
                                     "PAUSED",  "STOPPED", "RETRIES", "BREAKER"};
  if (context.wide()) header.push_back("UPGRADES");
  header.push_back("DEFINED");
  Table table(header);
  for (const v1::Machine& machine : list.machines()) {
    const v1::MachineStats& stats = machine.stats();
    std::vector<std::string> row = {machine.id(),
                                    "v" + std::to_string(machine.version()),
                                    machine.kind(),
                                    Count(stats.running()),
                                    Count(stats.scheduled()),
                                    Count(stats.paused()),
                                    Count(stats.stopped()),
                                    PercentText(stats.retry_rate()),
                                    stats.breaker()};
    if (context.wide()) row.push_back(machine.upgrade_strategy());
    row.push_back(When(machine.define_time(), context.look));
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
}

}  // namespace

int Machines(Context& context, const MachinesOptions& options) {
  if (!options.machine.empty()) return Describe(context, options.machine);
  const auto list = ListAll(context, options.all_versions);
  if (!list) return context.Fail(list.error());
  if (context.Print(*list)) return kSucceeded;
  if (context.names()) {
    for (const v1::Machine& machine : list->machines()) context.out << machine.id() << '\n';
  } else if (list->machines_size() == 0) {
    context.Note("no machine is defined here yet; dcli define FILE loads one");
  } else {
    PrintTable(context, *list);
  }
  return kSucceeded;
}

}  // namespace dfsmr::cli
