#include <algorithm>

#include "dcli/commands.h"
#include "dcli/describe.h"

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

void PrintMachine(Context& context, const v1::Machine& machine) {
  const v1::MachineStats& stats = machine.stats();
  Description text;
  text.Add("Machine", MachineText(machine.id(), machine.version()));
  text.Add("Kind", machine.kind());
  text.Add("Upgrades", machine.upgrade_strategy());
  text.Add("Defined", When(machine.define_time(), context.look));
  text.Add("Instances", Count(stats.running()) + " running, " + Count(stats.scheduled()) +
                            " scheduled, " + Count(stats.paused()) + " paused, " +
                            Count(stats.stopped()) + " stopped");
  text.Add("Retries", PercentText(stats.retry_rate()));
  text.Add("Breaker", stats.breaker());
  text.Print(context.out, context.look);
  context.out << '\n';
  PrintNodes(context, machine);
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
  v1::ListMachinesResponse all;
  do {
    auto page = context.client->ListMachines(request);
    if (!page) return page;
    request.set_page_token(page->next_page_token());
    all.mutable_machines()->MergeFrom(page->machines());
  } while (!request.page_token().empty());
  return all;
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
