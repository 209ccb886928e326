// The commands that look at many instances, and change many at once.
#include "dcli/commands/bulks.h"
#include "dcli/commands/views.h"
#include "dcli/line/command_line.h"

namespace dfsmr::cli {

void CommandLine::AddViewCommands() {
  auto count = std::make_shared<CountOptions>();
  Command("count", "[TERM...]", "Count the instances that a filter finds", Count, count)
      .Arguments("TERM", Word::kAnything, &count->terms, false)
      .Flag("--by", "WHAT", &count->by, "state, result, machine or node: a number for each")
      .Example("count machine:crawler --by state")
      .Example("count state:running -- -node:crawl");

  auto status = std::make_shared<StatusOptions>();
  Command("status", "", "How it goes, and what needs somebody: on one page", Status, status)
      .Flag("--machine", "ID", &status->machine, "of this machine alone")
      .Flag("--watch", &status->watch, "renew it each second")
      .Example("status")
      .Example("status --namespace '*' -o json");

  auto cluster = std::make_shared<ClusterOptions>();
  Command("cluster", "", "Which servers share the store, and who serves what", ShowCluster, cluster)
      .Flag("--partitions", &cluster->partitions, "each partition, too, with its counts")
      .Flag("--check", &cluster->check, "exit with 1, and say why, when something is wrong")
      .Example("cluster --check")
      .Example("--server a:3004,b:3004 cluster --partitions");

  Command("doctor", "", "What is usually wrong, and how to mend it; exit 1 when anything is", Doctor,
          std::make_shared<DoctorOptions>())
      .Example("doctor")
      .Example("doctor --namespace payments -o json");

  auto console = std::make_shared<ConsoleOptions>();
  Command("console", "[INSTANCE|machine/ID]", "The console's address, for a browser", Console,
          console)
      .Argument("SUBJECT", Word::kInstance, &console->subject, false)
      .Flag("--http", "URL", &console->http,
            "where the console is (DFSMR_HTTP; default: port 3005 of the server)")
      .Example("console")
      .Example("console page-9");

  AddDetailCommands();
}

void CommandLine::AddDetailCommands() {
  auto queues = std::make_shared<QueuesOptions>();
  Command("queues", "", "What waits for workers, and who asks for it", Queues, queues)
      .Flag("--machine", "ID", &queues->machine, "of this machine")
      .Flag("--queue", "QUEUE", &queues->queue, "only this queue")
      .Example("queues --machine crawler");

  auto workers = std::make_shared<QueuesOptions>();
  Command("workers", "", "Who works: what each has in hand, and did in the last hour", Workers,
          workers)
      .Flag("--machine", "ID", &workers->machine, "that may work on this machine")
      .Flag("--queue", "QUEUE", &workers->queue, "that may take from this queue")
      .Example("workers");

  auto steps = std::make_shared<StepsOptions>();
  Command("steps", "INSTANCE [PATH]", "The steps of a plan, one level at a time", ShowSteps, steps)
      .Argument("INSTANCE", Word::kInstance, &steps->instance)
      .Argument("PATH", Word::kStep, &steps->under, false)
      .Flag("--state", "STATE", &steps->state, "only what has a step in this state: held, …")
      .Example("steps infra-7")
      .Example("steps infra-7 web --state held");

  auto durations = std::make_shared<DurationsOptions>();
  Command("durations", "MACHINE NODE", "How long attempts took, and the timeout made of that",
          Durations, durations)
      .Argument("MACHINE", Word::kMachine, &durations->machine)
      .Argument("NODE", Word::kNode, &durations->node)
      .Example("durations crawler crawl");

  auto bulks = std::make_shared<BulksOptions>();
  Command("bulk", "[ID] | stop ID", "Changes of many instances: list, show or stop them", Bulks,
          bulks)
      .Argument("ID", Word::kAnything, &bulks->action, false)
      .Argument("STOPPED", Word::kAnything, &bulks->id, false)
      .Example("bulk")
      .Example("bulk stop b3-17");
}

void CommandLine::AddBulkFlags(Row row, BulkOptions* bulk) {
  row.Flag("--filter", "FILTER", &bulk->filter, "in place of INSTANCE: all that it finds")
      .Flag("--dry-run", &bulk->dry_run, "with --filter: count, and change nothing")
      .Flag("--yes", &bulk->yes, "with --filter: do not ask")
      .Flag("--at-most", "N", &bulk->at_most, "with --filter: end when so many are changed")
      .Flag("--no-wait", &bulk->no_wait, "do not wait until all is done")
      .Flag("--reason", "TEXT", &bulk->reason, "why: kept in the history");
}

}  // namespace dfsmr::cli
