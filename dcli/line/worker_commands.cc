#include "dcli/commands/agents.h"
#include "dcli/line/command_line.h"

namespace dfsmr::cli {

void CommandLine::AddWorkCommand() {
  Command("work", "[MACHINE [NODE]] [flags] -- COMMAND [ARG...]", "Run COMMAND for each task", Work,
          work_)
      .Argument("MACHINE", Word::kMachine, &work_->machine, false)
      .Argument("NODE", Word::kNode, &work_->node, false)
      .Flag("--action", "ACTION", &work_->action, "only this action")
      .Flag("--queue", "QUEUE", &work_->queue, "only from this queue")
      .Flag("--jobs", "N", &work_->jobs, "so many at once (default 1)")
      .Flag("--once", &work_->once, "wait for one task, do it, end")
      .Flag("--worker", "NAME", &work_->worker, "the name to claim under")
      .Flag("--middleware", "NAME=COMMAND", &work_->middleware,
            "what NAME wraps around a task: COMMAND gets the rest as its arguments")
      .Flag("--capability", "WORD", &work_->capabilities,
            "what it has, for runs_on; may be repeated")
      .Flag("--logs", &work_->logs, "send what commands write to the server: dcli logs")
      .Example("work crawler crawl --jobs 4 -- ./crawl.sh")
      .Example("work --action vm.create --middleware audit=./audit.sh -- ./create.sh");
}

void CommandLine::AddAgentCommands() {
  auto agent = std::make_shared<AgentOptions>();
  Command("agent", "[--package NAME]... [--workers FILE] [flags]",
          "Take tasks on this machine and run their commands, until it is told to end",
          ServeAsAgent, agent)
      .Flag("--workers", "FILE", &agent->workers, "what it runs: `workers:` as in package.yaml")
      .Flag("--package", "NAME", &agent->packages,
            "the packages that it serves (default all, none with --workers); may be repeated")
      .Flag("--queue", "QUEUE", &agent->queues, "takes only from this queue; may be repeated")
      .Flag("--action", "ACTION", &agent->actions, "takes only this action; may be repeated")
      .Flag("--capability", "WORD", &agent->capabilities,
            "what it has, for runs_on and requires; may be repeated")
      .Flag("--jobs", "N", &agent->jobs, "so many operations at once (default: its CPUs)")
      .Flag("--name", "NAME", &agent->name, "its name, one agent's at a time (default: host name)")
      .Flag("--label", "KEY=VALUE", &agent->labels, "a label; may be repeated")
      .Flag("--cache", "DIR", &agent->cache, "where packages are unpacked; agents may share it")
      .Flag("--cache-mb", "N", &agent->cache_mb, "how large that may grow (default 2048)")
      .Flag("--trusted-keys", "FILE", &agent->trusted_keys,
            "runs only packages that a key of FILE (allowed_signers) has signed")
      .Flag("--begin-within", "DURATION", &agent->begin_within,
            "how long a task may take until it is begun (default 30s)")
      .Flag("--keep-for", "DURATION", &agent->keep_for,
            "how long its tasks wait for it when it is cut off (default 10s)")
      .Flag("--grace", "DURATION", &agent->grace,
            "after SIGTERM: how long it finishes what it has (default 5m)")
      .Flag("--once", &agent->once, "end after one task")
      .Flag("--idle-exit", "DURATION", &agent->idle_exit, "end after so long without a task")
      .Flag("--wrap", "COMMAND", &agent->wrap, "stands in front of every command line")
      .Flag("--pass-env", "NAME", &agent->pass_env,
            "a variable of its own that commands see; may be repeated")
      .Flag("--middleware", "NAME=COMMAND", &agent->middleware,
            "what NAME wraps around a task: COMMAND gets the rest as its arguments")
      .Flag("--env-file", "FILE", &agent->env_file,
            "values of secrets, lines NAME=VALUE: it does not ask the server for these")
      .Flag("--no-logs", &agent->no_logs, "do not send what commands write")
      .Flag("--print", &agent->print, "print what commands write")
      .Flag("--check", &agent->check, "check the flags and FILE, and end")
      .Example("agent --package etl --jobs 4 --name h1")
      .Example("agent --workers workers.yaml --jobs 4 --name h1")
      .Example("agent --workers workers.yaml --check");

  AddAgentsCommands();
}

// What operators ask of agents.
void CommandLine::AddAgentsCommands() {
  auto agents = std::make_shared<AgentsOptions>();
  Command("agents", "[list|[show] NAME|drain NAME|undrain NAME|evict NAME]",
          "List agents, show one, or have one take no more", Agents, agents)
      .Argument("ACTION", Word::kAgentAction, &agents->action, false)
      .Argument("NAME", Word::kAgent, &agents->name, false)
      .Flag("--state", "STATE", &agents->state, "list: active, draining, drained, lost, offline")
      .Flag("--capability", "WORD", &agents->capabilities, "list: that have this; may be repeated")
      .Flag("--label", "KEY=VALUE", &agents->labels, "list: with this label; may be repeated")
      .Flag("--reason", "TEXT", &agents->reason, "drain: why")
      .Flag("--wait", &agents->wait, "drain: wait until it has nothing in hand")
      .Example("agents --state lost")
      .Example("agents show h1")
      .Example("agents drain h1 --reason 'a new disk' --wait");

  auto ps = std::make_shared<PsOptions>();
  Command("ps", "[INSTANCE]", "List what runs on which agent, leftovers too", Ps, ps)
      .Argument("INSTANCE", Word::kInstance, &ps->instance, false)
      .Flag("--agent", "NAME", &ps->agent, "what this agent has in hand")
      .Example("ps")
      .Example("ps site-7 -o json");
}

}  // namespace dfsmr::cli
