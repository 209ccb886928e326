#include "dcli/line/cli.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "dcli/commands/schedules.h"
#include "dcli/commands/triggers.h"
#include "dcli/line/command_line.h"
#include "dcli/line/completion.h"
#include "dcli/text/text.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

// What is wrong with a word: what is sent must be UTF-8. A file may have any name; the words after
// "--" are another command's.
std::optional<std::string> WrongWord(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!InvalidUtf8(word)) continue;
    std::error_code ignored;
    if (std::filesystem::exists(word, ignored)) continue;
    return "\"" + Escaped(word) + "\" is not UTF-8";
  }
  return std::nullopt;
}

}  // namespace

void CommandLine::AddGlobals() {
  const auto from_environment = [](const char* name, std::string* to) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') *to = value;
  };
  from_environment("DFSMR_SERVER", &globals_.server);
  from_environment("DFSMR_NAMESPACE", &globals_.name_space);
  app_.add_option("--server", globals_.server)->take_last();
  app_.add_option("--namespace", globals_.name_space)->take_last();
  app_.add_option("-o", globals_.output)->take_last();
  app_.add_option("--timeout", globals_.timeout)->take_last();
  Credentials& credentials = globals_.credentials;
  app_.add_option("--token-file", credentials.token_file)->take_last();
  app_.add_option("--tls-ca", credentials.ca)->take_last();
  app_.add_option("--tls-cert", credentials.cert)->take_last();
  app_.add_option("--tls-key", credentials.key)->take_last();
  app_.add_flag("--insecure", credentials.insecure);
  app_.add_flag("--no-color", globals_.no_color);
  grammar_.globals = {
      {{"--server"}, "HOST:PORT", "where dsrv is (DFSMR_SERVER; default localhost:3004)"},
      {{"--namespace"}, "NS", "the namespace to work in (DFSMR_NAMESPACE; default \"default\")"},
      {{"-o"}, "FORMAT", "table (default), wide, json, yaml or name"},
      {{"--timeout"}, "DURATION", "how long a call may take (default 20s); not for waits, streams"},
      {{"--token-file"}, "FILE", "your token (DFSMR_TOKEN_FILE; or DFSMR_TOKEN, the token itself)"},
      {{"--tls-ca"}, "FILE|system", "TLS: who signs the server's certificate (DFSMR_TLS_CA)"},
      {{"--tls-cert"}, "FILE", "mutual TLS: your certificate (DFSMR_TLS_CERT)"},
      {{"--tls-key"}, "FILE", "and its key (DFSMR_TLS_KEY)"},
      {{"--insecure"}, "", "send the token to another machine without TLS"},
      {{"--no-color"}, "", "no colours (also NO_COLOR)"},
      {{"-h", "--help"}, "", "help for the command"},
      {{"--version"}, "", "the version of dcli"},
  };
}

void CommandLine::AddDefinitionCommands() {
  auto define = std::make_shared<DefineOptions>();
  Command("define", "FILE|DIR|-...", "Load machines from YAML files", Define, define)
      .Arguments("FILE", Word::kFile, &define->sources, true)
      .Flag("--dry-run", &define->dry_run, "say what would happen and change nothing")
      .Example("define crawler.yaml")
      .Example("define machines/ --dry-run");

  auto check = std::make_shared<DefineOptions>();
  Command("check", "FILE|DIR|-...", "Check YAML files without a server", CheckSources, check)
      .Arguments("FILE", Word::kFile, &check->sources, true)
      .Example("check machines/");

  auto machines = std::make_shared<MachinesOptions>();
  Command("machines", "[ID|ID@VERSION]", "List machines, or describe one with its nodes", Machines,
          machines)
      .Argument("ID", Word::kMachine, &machines->machine, false)
      .Flag("--all-versions", &machines->all_versions, "list old versions too")
      .Example("machines")
      .Example("machines crawler");

  auto graph = std::make_shared<GraphOptions>();
  Command("graph", "ID|FILE|INSTANCE", "Draw a machine, or where an instance stands in it", Graph,
          graph)
      .Argument("SUBJECT", Word::kSubject, &graph->subject)
      .Flag("--format", "FORMAT", &graph->format, "mermaid (default), dot or svg")
      .Flag("--machine", "ID", &graph->machine, "which machine of a file that holds several")
      .Flag("--flow", &graph->flow, "of a plan: its steps and their order, not its nodes")
      .Example("graph crawler")
      .Example("graph infra --flow")
      .Example("graph crawler.yaml --format svg > crawler.svg");
}

void CommandLine::AddInstanceCommands() {
  auto start = std::make_shared<StartOptions>();
  Command("start", "MACHINE|--flow FILE [KEY=VALUE|KEY:=JSON...]", "Start an instance", Start,
          start)
      .Argument("MACHINE", Word::kMachine, &start->machine, false)
      .Arguments("PAIRS", Word::kAnything, &start->pairs, false)
      .Flag("--params", "JSON", &start->params, "parameters as one JSON object")
      .Flag("--id", "ID", &start->id, "its id; starting it again is then harmless")
      .Flag("--at", "TIME", &start->at, "start then: 2026-01-31T08:00:00Z, or +30m")
      .Flag("--before", "TIME", &start->before, "fail if it could not start before then")
      .Flag("--hold", &start->hold, "start when it is resumed")
      .Flag("--after", "INSTANCE", &start->after,
            "start when this one has stopped with SUCCESS; may be repeated")
      .Flag("--after-any", "INSTANCE", &start->after_any,
            "start when this one has stopped, however it did; may be repeated")
      .Flag("--flow", "FILE|-", &start->flow, "instead of MACHINE: the steps to run, YAML or JSON")
      .Flag("--priority", "N", &start->priority, "higher is handed out first")
      .Flag("--force", &start->force, "begin past all limits, and count")
      .Flag("--on-conflict", "WORD", &start->on_conflict,
            "without room under a limit: wait, latest, skip, fail, cancel, replace")
      .Flag("--label", "KEY=VALUE", &start->labels, "a label; may be repeated")
      .Flag("--wait-after-fail", "DURATION", &start->wait_after_fail,
            "of a plan: how long others go on after a failure, in place of what it says")
      .Flag("--group", "GROUP", &start->group, "a member of this group; the first one makes it")
      .Flag("--count", "N", &start->count, "start N of them")
      .Flag("--wait", &start->wait, "follow it to its end; exit 0 when that is SUCCESS, else 1")
      .Flag("--dry-run", &start->dry_run,
            "walk it without effects; exit 0 for SUCCESS and WARNING, else 1")
      .Flag("--answer", "NODE=TRANSITION|JSON", &start->answers,
            "what is reported there in the dry run; may be repeated")
      .Example("start crawler url=https://example.org depth:=2 --wait")
      .Example("start infra site=north 'hosts:=[\"a\",\"b\"]' --after backup-7 --wait")
      .Example("start --flow steps.yaml name=web")
      .Example("start ship --dry-run --answer 'check={\"transition\":\"bad\",\"times\":1}'");

  AddReadingCommands();
}

// What reads instances.
void CommandLine::AddReadingCommands() {
  auto instances = std::make_shared<InstancesOptions>();
  Command("instances", "[TERM...]", "List instances", Instances, instances)
      .Arguments("TERM", Word::kAnything, &instances->terms, false)
      .Flag("--machine", "ID", &instances->machine, "of this machine")
      .Flag("--node", "NODE", &instances->node, "that stand on this node")
      .Flag("--state", "STATE", &instances->state, "scheduled, planning, running, paused, stopped")
      .Flag("--result", "RESULT", &instances->result,
            "pending, success, warning, error, cancelled, aborted")
      .Flag("--parent", "INSTANCE", &instances->parent, "that a step of this one started")
      .Flag("--group", "GROUP", &instances->group, "members of this group")
      .Flag("--package", "P[@V]", &instances->package, "pinned to this package, or version of it")
      .Flag("--label", "KEY=VALUE", &instances->labels, "with this label; may be repeated")
      .Flag("--dry-run", &instances->dry_run, "with dry runs")
      .Flag("--limit", "N", &instances->limit, "at most so many (default 100; 0: all)")
      .Flag("--order", "ORDER", &instances->order,
            "id (default); or changed, started, and with '-' in front the latest first")
      .Example("instances --machine crawler --state paused")
      .Example("instances machine:crawler is:held changed:-1h.. --order=-changed");

  auto show = std::make_shared<InstanceOptions>();
  Command("show", "INSTANCE", "Show one instance: where it stands, who has it, what leads on", Show,
          show)
      .Argument("INSTANCE", Word::kInstance, &show->instance)
      .Flag("--steps", &show->steps, "with -o json and -o yaml: its nodes and steps too")
      .Example("show crawl-42")
      .Example("show infra-7 --steps -o json");

  auto history = std::make_shared<InstanceOptions>();
  Command("history", "INSTANCE", "Show all that happened to an instance", History, history)
      .Argument("INSTANCE", Word::kInstance, &history->instance)
      .Example("history crawl-42");

  auto logs = std::make_shared<LogsOptions>();
  Command("logs", "INSTANCE", "Read what the operations of an instance write", Logs, logs)
      .Argument("INSTANCE", Word::kInstance, &logs->instance)
      .Flag("--step", "NODE", &logs->step, "of this step or node")
      .Flag("--visit", "V", &logs->visit, "of this visit")
      .Flag("--attempt", "N", &logs->attempt, "of this attempt")
      .Flag("--tail", "N", &logs->tail, "only so many last lines, and what comes")
      .Flag("--follow", &logs->follow, "until it has ended")
      .Flag("--after", "CURSOR", &logs->after, "from this cursor on")
      .Example("logs site-7 --step build --tail 20 --follow");

  auto changes = std::make_shared<ChangesOptions>();
  Command("changes", "", "Watch what happens", Changes, changes)
      .Flag("--after", "CURSOR", &changes->after, "from this cursor on; 0: from the oldest kept")
      .Flag("--machine", "ID", &changes->machine, "to this machine")
      .Flag("--instance", "ID", &changes->instance, "to this instance")
      .Flag("--kind", "KIND", &changes->kinds, "started, finished, ...; may be repeated")
      .Flag("--dry-run", &changes->dry_run, "with those of dry runs")
      .Flag("--no-follow", &changes->no_follow, "end at the present")
      .Example("changes --machine crawler --kind finished")
      .Example("changes --after 0 --no-follow -o json");
}

void CommandLine::AddClaimCommands() {
  auto ready = std::make_shared<ReadyOptions>();
  Command("ready", "[MACHINE [NODE]]", "Claim work", Ready, ready)
      .Argument("MACHINE", Word::kMachine, &ready->machine, false)
      .Argument("NODE", Word::kNode, &ready->node, false)
      .Flag("--action", "ACTION", &ready->action, "only this action")
      .Flag("--queue", "QUEUE", &ready->queue, "only from this queue")
      .Flag("--capability", "WORD", &ready->capabilities, "that it has; may be repeated")
      .Flag("--max", "N", &ready->max, "at most so many claims (default 1)")
      .Flag("--wait", "DURATION", &ready->wait, "wait so long for the first one (at most 5m)")
      .Flag("--worker", "NAME", &ready->worker, "the name to claim under")
      .Example("ready crawler crawl --wait 30s -o json");

  auto transition = std::make_shared<TransitionOptions>();
  AddBulkFlags(
      Command("transition", "INSTANCE|--filter FILTER TRANSITION [KEY=VALUE|KEY:=JSON...]",
              "Report on a claim, or move an instance from outside", Transition, transition)
          .Argument("INSTANCE", Word::kInstance, &transition->instance)
          .Argument("TRANSITION", Word::kTransition, &transition->transition, false)
          .Arguments("PAIRS", Word::kAnything, &transition->pairs, false)
          .Flag("--params", "JSON", &transition->params, "parameters for the next node")
          .Flag("--claim", "CLAIM", &transition->claim, "report as the holder of this claim")
          .Flag("--node", "NODE", &transition->node, "which node, when it stands on several")
          .Flag("--output", "JSON", &transition->output, "kept as the node's output")
          .Flag("--error", "TEXT", &transition->error, "what went wrong")
          .Flag("--error-kind", "KIND", &transition->error_kind, "with error: what a retry goes by")
          .Flag("--retry-after", "DURATION", &transition->retry_after,
                "with error: when to try again")
          .Flag("--fatal", &transition->fatal, "with error: do not try again")
          .Flag("--wake-after", "DURATION", &transition->wake_after, "with suspend: wake by itself")
          .Flag("--child", "MACHINE[=JSON]", &transition->children,
                "with suspend: start it with these params and wait for it; may be repeated")
          .Flag("--children-concurrency", "N", &transition->children_concurrency,
                "how many at once")
          .Example("transition crawl-42 ok links:=17 --claim C")
          .Example("transition infra-7 approved --node web.vm by=ann")
          .Example("transition infra-7 patch --node web.vm --params '{\"size\": 2}'"),
      &transition->bulk);

  auto relinquish = std::make_shared<ClaimOptions>();
  Command("relinquish", "INSTANCE", "Give work back, so that others can have it", Relinquish,
          relinquish)
      .Argument("INSTANCE", Word::kInstance, &relinquish->instance)
      .Flag("--claim", "CLAIM", &relinquish->claim, "only this one (default: all of the instance)")
      .Example("relinquish crawl-42 --claim C");

  auto extend = std::make_shared<ClaimOptions>();
  Command("extend", "INSTANCE --claim CLAIM", "Heartbeat: keep a claim", Extend, extend)
      .Argument("INSTANCE", Word::kInstance, &extend->instance)
      .Flag("--claim", "CLAIM", &extend->claim, "the claim")
      .Flag("--by", "DURATION", &extend->by, "from now (default: the node's timeout)")
      .Example("extend crawl-42 --claim C --by 5m");
  app_.get_subcommand("extend")->get_option("--claim")->required();
}

void CommandLine::AddControlCommands() {
  auto pause = std::make_shared<ControlOptions>();
  AddBulkFlags(Command("pause", "INSTANCE|--filter FILTER", "Hand out nothing more of an instance",
                       Pause, pause)
                   .Argument("INSTANCE", Word::kInstance, &pause->instance, false)
                   .Example("pause crawl-42")
                   .Example("pause --filter 'machine:crawler state:running' --dry-run"),
               &pause->bulk);

  auto resume = std::make_shared<ControlOptions>();
  AddBulkFlags(
      Command("resume", "INSTANCE|--filter FILTER",
              "Let what is paused, held or was cancelled go on", Resume, resume)
          .Argument("INSTANCE", Word::kInstance, &resume->instance, false)
          .Flag("--node", "NODE", &resume->node, "only what is held there")
          .Flag("--force", &resume->force, "also hand out again what is claimed and not reported")
          .Example("resume crawl-42")
          .Example("resume crawl-42 --force")
          .Example("resume infra-7 --node web.vm")
          .Example("resume --filter 'is:held error:\"no space\"' --yes --reason 'more disk'"),
      &resume->bulk);

  auto skip = std::make_shared<ControlOptions>();
  AddBulkFlags(
      Command("skip", "INSTANCE [STEP]|--filter FILTER", "Go on without what is held", Skip, skip)
          .Argument("INSTANCE", Word::kInstance, &skip->instance, false)
          .Argument("STEP", Word::kStep, &skip->step, false)
          .Flag("--node", "NODE", &skip->node, "only what is held there: the same as STEP")
          .Example("skip crawl-42")
          .Example("skip infra-7 web.vm"),
      &skip->bulk);

  auto cancel = std::make_shared<ControlOptions>();
  AddBulkFlags(
      Command("cancel", "INSTANCE|--filter FILTER", "Stop an instance; claimed work may end first",
              Cancel, cancel)
          .Argument("INSTANCE", Word::kInstance, &cancel->instance, false)
          .Flag("--force", &cancel->force, "do not wait for claimed work")
          .Flag("--kill", &cancel->kill, "have its agents kill it, and wait until it is gone")
          .Example("cancel crawl-42 --force"),
      &cancel->bulk);
  CLI::App* app = app_.get_subcommand("cancel");
  app->get_option("--kill")->excludes(app->get_option("--force"));
}

void CommandLine::AddTriggersCommand() {
  auto triggers = std::make_shared<TriggersOptions>();
  Command("triggers",
          "[NAME] | fire|show|history|retry|drop|pause|resume|delete NAME [ID...]",
          "List triggers, bring them items, pause and retry them", Triggers, triggers)
      .Argument("ACTION", Word::kTriggerAction, &triggers->action, false)
      .Arguments("WORDS", Word::kAnything, &triggers->words, false)
      .Flag("--failed", &triggers->failed, "list: those with dead letters or failing polls")
      .Flag("--on", "SOURCE", &triggers->on, "fire: which of several sources brings the item")
      .Flag("--item", "JSON", &triggers->item, "fire: the item, as its source would bring it")
      .Flag("--outcome", "OUTCOME", &triggers->outcomes,
            "history: started, sent, exists, skipped, missed, expired, failed, dropped")
      .Flag("--limit", "N", &triggers->limit, "history: at most so many (default 100; 0: all)")
      .Flag("--all", &triggers->all, "retry, drop: all that are FAILED")
      .Flag("--note", "TEXT", &triggers->note, "pause: why")
      .Flag("--skip", &triggers->skip, "resume: what came meanwhile is passed over")
      .Example("triggers deploy-after-build")
      .Example("triggers fire push --item '{\"body\": {\"after\": \"4f2a\"}}'")
      .Example("triggers history push --outcome failed")
      .Example("triggers resume push --skip");
}

void CommandLine::AddSchedulesCommand() {
  auto schedules = std::make_shared<SchedulesOptions>();
  Command("schedules",
          "[NAME | show|next|run|backfill|history|retry|drop|pause|resume|delete NAME ...]",
          "List schedules, tell their times, run, pause and retry them", Schedules, schedules)
      .Argument("ACTION", Word::kScheduleAction, &schedules->action, false)
      .Arguments("WORDS", Word::kAnything, &schedules->words, false)
      .Flag("-n", "N", &schedules->count, "next: so many times (default 10)")
      .Flag("--after", "TIME", &schedules->after, "next: after this time (default: now)")
      .Flag("--params", "JSON", &schedules->params, "run: its keys win over the schedule's params")
      .Flag("--overlap", "WORD", &schedules->overlap,
            "run: allow, wait, latest, skip, cancel or replace")
      .Flag("--wait", &schedules->wait, "run, backfill: follow it to its end; exit 0 for SUCCESS")
      .Flag("--from", "TIME", &schedules->from, "backfill: from this time or date on")
      .Flag("--to", "TIME", &schedules->to, "backfill: up to this time or date")
      .Flag("--max-running", "N", &schedules->max_running, "backfill: so many at once (default 1)")
      .Flag("--again", "WHICH", &schedules->again, "backfill: failed or all run again")
      .Flag("--reverse", &schedules->reverse, "backfill: newest first")
      .Flag("--priority", "N", &schedules->priority, "backfill: of its instances")
      .Flag("--dry-run", &schedules->dry_run, "backfill: only tell the times")
      .Flag("--outcome", "OUTCOME", &schedules->outcomes,
            "history: started, missed, failed, ...; may be repeated")
      .Flag("--limit", "N", &schedules->limit, "history: at most so many (default 100; 0: all)")
      .Flag("--all", &schedules->all, "retry, drop: all that are FAILED")
      .Flag("--note", "TEXT", &schedules->note, "pause: why")
      .Example("schedules nightly")
      .Example("schedules next nightly.yaml -n 3")
      .Example("schedules run nightly day=2026-01-31 --wait")
      .Example("schedules backfill nightly --from 2026-01-01 --to 2026-01-31 --dry-run")
      .Example("schedules pause nightly --note 'the disk is full'");
}

void CommandLine::AddLimitsCommand() {
  auto limits = std::make_shared<LimitsOptions>();
  Command("limits", "[[show] KEY|set KEY|reset KEY|delete NAME]",
          "List limits, show who holds and awaits one, or set its numbers", Limits, limits)
      .Argument("ACTION", Word::kAnything, &limits->action, false)
      .Argument("KEY", Word::kAnything, &limits->key, false)
      .Flag("--max", "N|none", &limits->max, "set: so many hold it at once; 0 lets nobody in")
      .Flag("--rate", "N/DURATION|none", &limits->rate, "set: so many begin in such a time")
      .Flag("--burst", "N", &limits->burst, "set: so many at once after a rest")
      .Flag("--note", "TEXT", &limits->note, "set: why")
      .Flag("--prefix", "TEXT", &limits->prefix, "list: keys that begin so")
      .Flag("--waited-for", &limits->waited_for, "list: only those that somebody waits for")
      .Example("limits env/prod")
      .Example("limits set queue:mail --max 0 --note 'the relay is down'")
      .Example("limits set env/prod --max 2 --rate 10/1h")
      .Example("limits reset queue:mail");
}

void CommandLine::AddClockCommand() {
  auto clock = std::make_shared<ClockOptions>();
  Command("clock", "[advance DURATION|--to TIME|--next]",
          "Tell the server's time; let a virtual clock advance", Clock, clock)
      .Argument("ACTION", Word::kClockAction, &clock->action, false)
      .Argument("DURATION", Word::kAnything, &clock->by, false)
      .Flag("--to", "TIME", &clock->to, "to this time: 2026-12-31T00:00:00Z, or +90d")
      .Flag("--next", &clock->next, "to the next time at which something is due")
      .Example("clock")
      .Example("clock advance 1d")
      .Example("clock advance --next");
}

void CommandLine::AddGroupsCommand() {
  auto groups = std::make_shared<GroupsOptions>();
  Command("groups", "[[show] NAME|set NAME|pause NAME|resume NAME|cancel NAME|wait NAME]",
          "List groups, or set one, or give an order to all its members", Groups, groups)
      .Argument("ACTION", Word::kAnything, &groups->action, false)
      .Argument("NAME", Word::kAnything, &groups->name, false)
      .Flag("--max-running", "N|none", &groups->max_running, "set: so many members run at once")
      .Flag("--stop-on-fail", "N", &groups->stop_on_fail,
            "set: pause it after so many failed members; 0: never")
      .Flag("--members", &groups->members,
            "pause, resume: also those that run, or those that are paused")
      .Flag("--force", &groups->force, "cancel: do not wait for claimed work")
      .Flag("--kill", &groups->kill, "cancel: have its workers kill it")
      .Flag("--note", "TEXT", &groups->note, "pause, resume, cancel: why")
      .Example("groups set import --max-running 4 --stop-on-fail 3")
      .Example("groups pause import --note 'the disk is full'")
      .Example("groups wait import");
  CLI::App* app = app_.get_subcommand("groups");
  app->get_option("--kill")->excludes(app->get_option("--force"));
}

void CommandLine::AddNamespaceCommand() {
  auto space = std::make_shared<NamespaceOptions>();
  Command("namespace",
          "list|show [NAME]|create NAME|set NAME KEY=VALUE…|freeze NAME|thaw NAME|delete NAME",
          "Namespaces: their quotas and use; freeze or delete one", Namespace, space)
      .Argument("ACTION", Word::kNamespaceAction, &space->action)
      .Argument("NAME", Word::kAnything, &space->name, false)
      .Arguments("KEY=VALUE", Word::kAnything, &space->settings, false)
      .Flag("--wait", &space->wait,
            "freeze: until nothing is claimed; delete: until all of it is gone")
      .Flag("--drain", "DURATION", &space->drain,
            "delete: so long claimed work may go on; 30s without it")
      .Flag("--yes", &space->yes, "delete: do not ask for the name again")
      .Flag("--dry-run", &space->dry_run, "delete: show what there is, and delete nothing")
      .Flag("--force", &space->force, "set require-signatures: also if that blocks versions in use")
      .Example("namespace create acme live-instances=10000 starts-per-second=50")
      .Example("namespace set acme retention=30d ready-tasks=")
      .Example("namespace show acme")
      .Example("namespace freeze acme --wait")
      .Example("namespace delete acme --drain 1m --yes");
}

void CommandLine::AddTokenCommand() {
  auto token = std::make_shared<TokenOptions>();
  Command("token", "create|list|revoke ID|whoami", "Say who may do what: tokens and their roles",
          Token, token)
      .Argument("ACTION", Word::kTokenAction, &token->action)
      .Argument("ID", Word::kAnything, &token->id, false)
      .Flag("--role", "ROLE", &token->role, "create: viewer, worker, operator or admin")
      .Flag("--name", "TEXT", &token->name, "create: what it is for")
      .Flag("--machine", "ID", &token->machines,
            "create, for a worker: of this machine only; may be repeated")
      .Flag("--queue", "QUEUE", &token->queues,
            "create, for a worker: of this queue only; may be repeated")
      .Flag("--secret", "PATTERN", &token->secrets,
            "create, for a worker: it may read this secret, or those that begin so (db-*); may be "
            "repeated")
      .Flag("--expires", "TIME", &token->expires, "create: 2026-12-31T00:00:00Z, or +90d")
      .Example("token create --role worker --machine crawler --expires +90d > crawler.token")
      .Example("token create --role worker --secret db --secret 'customer-*' > agent.token")
      .Example("token create --role admin --namespace '*' --name ann > ann.token")
      .Example("token list")
      .Example("token revoke 5f0c2a7be911");
}

void CommandLine::AddCompletion() {
  struct Options {
    const Grammar* grammar;
    std::string shell;
  };
  auto options = std::make_shared<Options>(Options{&grammar_, ""});
  int (*run)(Context&, const Options&) = [](Context& context, const Options& given) {
    const auto script = CompletionScript(given.shell, *given.grammar);
    if (!script) return context.FailUsage(script.error());
    context.out << *script;
    return kSucceeded;
  };
  Command("completion", "bash|zsh|fish", "Print a completion script for a shell", run, options)
      .Argument("SHELL", Word::kShell, &options->shell)
      .Example("completion bash > ~/.local/share/bash-completion/completions/dcli");
}

// The index of the command among the words; flags may stand before it.
std::optional<size_t> CommandLine::FindCommand(const std::vector<std::string>& words) const {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) return i;
    const FlagShape* flag = FlagOf(grammar_, nullptr, words[i]);
    if (flag != nullptr && ValueIsNext(*flag, words[i])) ++i;
  }
  return std::nullopt;
}

// The words after "--" are the command that `work` runs: they are not parsed.
void CommandLine::TakeWorkCommand(std::vector<std::string>* words) {
  const auto dashes = std::find(words->begin(), words->end(), "--");
  if (dashes == words->end()) return;
  work_->command.assign(dashes + 1, words->end());
  words->erase(dashes, words->end());
}

int CommandLine::Help(const CommandShape* command) {
  context_.out << (command == nullptr ? HelpOf(grammar_) : HelpOf(grammar_, *command));
  return kSucceeded;
}

int CommandLine::BadUsage(const CLI::ParseError& error, const std::vector<std::string>& words,
                          const CommandShape* command) {
  static const CommandShape kNone{.name = "dcli"};
  if (command == nullptr) command = &kNone;
  std::vector<std::string> known;
  for (const FlagShape& flag : command->flags) known.push_back(flag.names.back());
  for (const FlagShape& flag : grammar_.globals) known.push_back(flag.names.back());
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].starts_with('-') || words[i].size() == 1) continue;
    const FlagShape* flag = FlagOf(grammar_, command, words[i]);
    if (flag == nullptr) {
      const std::string name = words[i].substr(0, words[i].find('='));
      // One dash and a colon: it may have been meant as a term of a filter.
      const bool term = !name.starts_with("--") && name.find(':') != name.npos;
      return context_.Fail(
          kBadUsage, command->name + " has no flag " + name +
                         (term ? "; a term that begins with a dash comes after --, or is written "
                                 "not:" + name.substr(1)
                               : DidYouMean(name, known)));
    }
    if (ValueIsNext(*flag, words[i])) ++i;
  }
  const std::vector<std::string> extra = app_.remaining(true);
  if (!extra.empty()) {
    const std::string word = Unmarked(extra.front());
    return context_.Fail(kBadUsage, command->name + " does not take \"" + word + "\"");
  }
  return context_.Fail(kBadUsage, command->name + ": " + error.what());
}

// Marks the words that are arguments: neither flags nor their values.
std::vector<std::string> CommandLine::MarkArguments(std::vector<std::string> words,
                                                    const CommandShape* command) const {
  bool flags = true;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") flags = false;
    const bool is_flag = flags && words[i].size() > 1 && words[i].starts_with('-');
    if (!is_flag) words[i] = Marked(words[i]);
    const FlagShape* flag = is_flag ? FlagOf(grammar_, command, words[i]) : nullptr;
    if (flag != nullptr && ValueIsNext(*flag, words[i])) ++i;
  }
  return words;
}

int CommandLine::Parse(std::vector<std::string> words, const CommandShape* command) {
  const std::vector<std::string> marked = MarkArguments(words, command);
  std::vector<std::string> reversed(marked.rbegin(), marked.rend());  // as CLI11 wants them
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return Help(command);
  } catch (const CLI::CallForVersion&) {
    context_.out << "dcli " << kVersion << '\n';
    return kSucceeded;
  } catch (const CLI::ParseError& error) {
    return BadUsage(error, words, command);
  }
  const auto applied = context_.Apply(globals_);
  if (!applied) return context_.FailUsage(applied.error());
  const int status = run_();
  return status == kSucceeded && context_.incomplete ? kRefused : status;
}

int CommandLine::Run(std::vector<std::string> words) {
  const auto place = FindCommand(words);
  if (!place) {
    if (!words.empty()) return Parse(std::move(words), nullptr);
    context_.err << HelpOf(grammar_);
    return kBadUsage;
  }
  const std::string& name = words[*place];
  if (name == "__complete") {
    Complete(grammar_, {words.begin() + static_cast<ptrdiff_t>(*place) + 1, words.end()},
             context_.out);
    return kSucceeded;
  }
  if (const auto wrong = WrongWord(words)) return context_.Fail(kBadUsage, *wrong);
  const bool general = *place + 1 == words.size() || words[*place + 1].starts_with('-');
  if (name == "help" && general) return Help(nullptr);
  const std::string& wanted = name == "help" ? words[*place + 1] : name;
  const CommandShape* command = grammar_.Find(wanted);
  if (command == nullptr) {
    return context_.Fail(kBadUsage, "there is no command \"" + wanted + "\"" +
                                        DidYouMean(wanted, grammar_.CommandNames()));
  }
  if (name == "help") return Help(command);
  context_.command = name;
  if (name == "work") TakeWorkCommand(&words);
  return Parse(std::move(words), command);
}

int RunCommandLine(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Context context(out, err);
  return CommandLine(context).Run({argv + 1, argv + argc});
}

}  // namespace dfsmr::cli
