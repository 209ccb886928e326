// `status`: the overview, on one page.
#include <algorithm>
#include <chrono>
#include <map>

#include "dcli/call/views.h"
#include "dcli/commands/views.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace status_command {

constexpr auto kRenew = std::chrono::seconds(1);

std::string AgeOf(bool has, const google::protobuf::Duration& age) {
  return has ? DurationText(FromProto(age)) : "";
}

std::string BytesText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", amount, kUnits[unit]);
  return text;
}

std::string BackupText(const v1::BackupState& backup, const Look& look) {
  std::string text = "none yet";
  if (backup.has_last_time()) {
    text = When(backup.last_time(), look) + ", " + BytesText(backup.last_bytes());
  }
  return backup.error().empty() ? text : text + "; then one failed: " + backup.error();
}

void PrintServer(Context& context, const v1::Overview& overview) {
  const v1::ServerStatus& server = overview.server();
  Description lines;
  lines.Add("Server",
            "dsrv " + server.version() + " at " + server.address() + ", " + server.state());
  const Duration up = FromProto(overview.time()) - FromProto(server.start_time());
  lines.Add("Up for", DurationText(std::max(Duration(), up)));
  // Nobody tells how large a database is, and what it has free.
  const bool here = server.store_bytes() > 0 || server.free_bytes() > 0;
  lines.Add("Store", (here ? BytesText(server.store_bytes()) + ", " +
                                 BytesText(server.free_bytes()) + " free"
                           : std::string("in a database")) +
                         ", room " + server.room());
  if (server.has_backup()) {
    lines.Add("Backup", BackupText(server.backup(), context.look));
  }
  lines.Add("Commit p95", AgeOf(server.has_commit_p95(), server.commit_p95()));
  lines.Add("Feed", "from " + std::to_string(server.first_seq()) + " to " +
                        std::to_string(server.last_seq()) + ", " +
                        std::to_string(server.watchers()) + " watchers");
  lines.Add("Files", std::to_string(server.open_files()) + " of " +
                         std::to_string(server.max_files()) + " open");
  if (server.has_tls_expire_time()) {
    lines.Add("Certificate", "until " + TimeText(server.tls_expire_time()));
  }
  lines.Print(context.out, context.look);
}

// The minute that goes on, and as much of the one before as is missing to a minute.
uint64_t LastMinute(const v1::Overview& overview) {
  const int last = overview.minutes_size() - 1;
  if (last < 0) return 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double missing = 1 - std::chrono::duration<double, std::ratio<60>>(
                                 now % std::chrono::minutes(1)).count();
  const uint64_t before = last > 0 ? overview.minutes(last - 1).transitions() : 0;
  return overview.minutes(last).transitions() +
         static_cast<uint64_t>(static_cast<double>(before) * missing);
}

void PrintCounts(Context& context, const v1::Overview& overview) {
  const v1::Tally& now = overview.now();
  const uint64_t transitions = LastMinute(overview);
  Description lines;
  lines.Add("Instances", std::to_string(now.running()) + " running, " +
                             std::to_string(now.paused()) + " paused, " +
                             std::to_string(now.scheduled()) + " scheduled, " +
                             std::to_string(now.stopped()) + " stopped");
  const std::string oldest = AgeOf(now.has_oldest_ready(), now.oldest_ready());
  lines.Add("Work", std::to_string(now.ready()) + " ready" +
                        (oldest.empty() ? "" : " (oldest " + oldest + ")") + ", " +
                        std::to_string(now.claimed()) + " claimed, " +
                        std::to_string(now.waiting()) + " waiting, " + std::to_string(now.held()) +
                        " held");
  lines.Add("Workers", std::to_string(overview.workers()) + ", of them " +
                           std::to_string(overview.agents()) + " agents connected");
  lines.Add("Transitions", std::to_string(transitions) + " in the last minute");
  context.out << '\n';
  lines.Print(context.out, context.look);
}

void PrintTables(Context& context, const v1::Overview& overview) {
  Table queues({"QUEUE", "READY", "OLDEST"});
  for (const v1::QueueTally& queue : overview.queues()) {
    if (queue.ready() == 0) continue;
    queues.Add({queue.queue(), std::to_string(queue.ready()),
                AgeOf(queue.has_oldest_ready(), queue.oldest_ready())});
  }
  Table machines({"MACHINE", "RUNNING", "PAUSED", "READY", "HELD", "FAILED", "BREAKER"});
  for (const v1::MachineRow& machine : overview.machines()) {
    machines.Add({machine.id(), std::to_string(machine.now().running()),
                  std::to_string(machine.now().paused()), std::to_string(machine.now().ready()),
                  std::to_string(machine.now().held()), std::to_string(machine.failed_hour()),
                  machine.breaker()});
  }
  Table limits({"LIMIT", "HELD", "MAX", "WAITING"});
  for (const v1::Limit& limit : overview.limits()) {
    limits.Add({limit.key(), std::to_string(limit.held()),
                limit.has_max() ? std::to_string(limit.max()) : "",
                std::to_string(limit.waiting())});
  }
  Table troubles({"TROUBLE", "MACHINE", "NODE", "COUNT", "SINCE", "FILTER"});
  for (const v1::Trouble& trouble : overview.troubles()) {
    troubles.Add({v1::Trouble::Kind_Name(trouble.kind()), trouble.machine(), trouble.node(),
                  std::to_string(trouble.count()), When(trouble.since(), context.look),
                  trouble.filter()});
  }
  for (const Table* table : {&queues, &machines, &limits, &troubles}) {
    if (table->empty()) continue;
    context.out << '\n';
    table->Print(context.out, context.look);
  }
}

int ShowOnce(Context& context, const v1::GetOverviewRequest& request) {
  const auto overview = context.client->views().GetOverview(request);
  if (!overview) return context.Fail(overview.error());
  if (context.Print(*overview)) return kSucceeded;
  if (context.names()) {
    for (const v1::MachineRow& machine : overview->machines()) context.out << machine.id() << '\n';
    return kSucceeded;
  }
  PrintServer(context, *overview);
  // One server has nothing more to say, and an older one does not know the call.
  const auto cluster = context.client->views().GetCluster({});
  if (cluster && cluster->servers_size() > 1) {
    context.out << '\n';
    PrintServers(context, *cluster);
    context.out << '\n';
  }
  PrintCounts(context, *overview);
  PrintTables(context, *overview);
  return kSucceeded;
}

}  // namespace status_command

int Status(Context& context, const StatusOptions& options) {
  v1::GetOverviewRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(options.machine);
  if (!options.watch) return status_command::ShowOnce(context, request);
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  for (;;) {
    // On a terminal the page stands in the place of the one before.
    if (context.look.width > 0) context.out << "\x1b[H\x1b[2J";
    const int status = status_command::ShowOnce(context, request);
    context.out.flush();
    if (status != kSucceeded) return status;
    if (canceller.SleepFor(status_command::kRenew)) return kInterrupted;
  }
}

}  // namespace dfsmr::cli
