#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "dcli/agent/agent.h"
#include "dcli/agent/beside.h"
#include "dcli/agent/host.h"
#include "dcli/commands/agents.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "fsm/base/fit.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

constexpr int kMostSlots = 1'000;
constexpr size_t kMostCapabilities = 64;
constexpr size_t kMostLabels = 64;
using std::chrono::milliseconds;

// A duration of a flag, between two others.
Result<Duration> Between(const char* flag, const std::string& text, Duration least, Duration most) {
  const auto duration = ParseDuration(text);
  if (!duration) return BadUsage(std::string(flag) + ": " + duration.error().message);
  if (*duration >= least && *duration <= most) return *duration;
  return BadUsage(std::string(flag) + " is from " + DurationText(least) + " to " +
                  DurationText(most) + ", not " + text);
}

// The words of a command line of the agent's own, the program found on PATH or here.
Result<std::vector<std::string>> CommandWords(const std::string& what, const std::string& line) {
  std::vector<std::string> words;
  for (std::string& word : Split(line, ' ')) {
    if (!word.empty()) words.push_back(std::move(word));
  }
  if (words.empty()) return BadUsage(what + " needs a command");
  char here[PATH_MAX] = ".";
  if (getcwd(here, sizeof here) == nullptr) return BadUsage("there is no current directory");
  const std::string program = FindProgram(words[0], here);
  if (program.empty()) return BadUsage("cannot run " + words[0] + " of " + what + ": not found");
  words[0] = program;
  return words;
}

Result<std::string> FileText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (file) return text.str();
  return BadUsage("cannot read " + path);
}

std::string FolderOf(const std::string& path) {
  char whole[PATH_MAX] = "";
  if (realpath(path.c_str(), whole) == nullptr) return "/";
  const std::string text = whole;
  return text.substr(0, std::max<size_t>(text.rfind('/'), 1));
}

// Where packages are unpacked without --cache.
std::string DefaultCache() {
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && *caches == '/') return std::string(caches) + "/dfsmr";
  if (geteuid() == 0) return "/var/cache/dfsmr";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/dfsmr";
  const passwd* user = getpwuid(geteuid());
  return std::string(user != nullptr ? user->pw_dir : "") + "/.cache/dfsmr";
}

class Planner {
 public:
  Planner(Context& context, const AgentOptions& options) : context_(context), options_(options) {}

  // Fails with bad usage. What is wrong with the file of workers is in `diagnostics`.
  Result<AgentPlan> Make(std::vector<Diagnostic>* diagnostics) {
    plan_.surroundings.cgroups = options_.check ? Cgroups() : Cgroups::Find();
    for (const auto& step : {&Planner::TakeNames, &Planner::TakeTimes, &Planner::TakeCapabilities,
                             &Planner::TakeCommands, &Planner::TakePackages,
                             &Planner::TakeSecrets}) {
      const auto taken = (this->*step)();
      if (!taken) return taken.error();
    }
    const auto workers = TakeWorkers(diagnostics);
    if (!workers) return workers.error();
    const auto actions = TakeActions();
    if (!actions) return actions.error();
    return plan_;
  }

 private:
  Result<Ok> TakeNames() {
    v1::Register& registration = plan_.registration;
    *registration.mutable_host() = ThisHost();
    registration.mutable_host()->set_cgroups(plan_.surroundings.cgroups.limits());
    const bool named = options_.name != AgentOptions::kHostName;
    registration.set_name(named ? options_.name : registration.host().hostname());
    if (!ValidName(registration.name()) || ReservedName(registration.name())) {
      return BadUsage("\"" + registration.name() +
                      "\" cannot be the name of an agent: letters, "
                      "digits, '.', '_' and '-', a letter or digit first; --name gives another");
    }
    registration.set_session(NewSession());
    plan_.open.set_namespace_(context_.name_space);
    registration.set_version(kVersion);
    const auto labels = ParseLabels(options_.labels, registration.mutable_labels());
    if (!labels) return labels.error();
    if (options_.labels.size() > kMostLabels) return BadUsage("at most 64 labels");
    const int cpus = static_cast<int>(registration.host().cpus());
    const int jobs =
        options_.jobs == AgentOptions::kCpus ? std::min(cpus, kMostSlots) : options_.jobs;
    if (jobs < 1 || jobs > kMostSlots) return BadUsage("--jobs must be from 1 to 1000");
    plan_.open.set_max_tasks(jobs);
    if (options_.once) plan_.open.set_max_tasks(1);
    if (options_.cache_mb < 1) return BadUsage("--cache-mb must be at least 1");
    Surroundings& surroundings = plan_.surroundings;
    surroundings.agent = registration.name();
    surroundings.server = context_.client->server();
    surroundings.name_space = context_.name_space.empty() ? "default" : context_.name_space;
    const char* folder = std::getenv("TMPDIR");
    plan_.base_folder = folder != nullptr && *folder == '/' ? folder : "/tmp";
    plan_.once = options_.once;
    plan_.logs = !options_.no_logs;
    plan_.print = options_.print;
    return Ok{};
  }

  Result<Ok> TakeTimes() {
    using std::chrono::hours;
    using std::chrono::minutes;
    using std::chrono::seconds;
    const auto begin = Between("--begin-within", options_.begin_within, seconds(1), minutes(10));
    if (!begin) return begin.error();
    const auto keep = Between("--keep-for", options_.keep_for, seconds(0), minutes(5));
    if (!keep) return keep.error();
    const auto grace = Between("--grace", options_.grace, seconds(0), hours(24 * 365));
    if (!grace) return grace.error();
    *plan_.open.mutable_begin_within() = ToProto(*begin);
    *plan_.open.mutable_keep_for() = ToProto(*keep);
    plan_.grace = std::chrono::duration_cast<milliseconds>(*grace);
    if (options_.idle_exit.empty()) return Ok{};
    const auto idle = Between("--idle-exit", options_.idle_exit, seconds(0), hours(24 * 365));
    if (!idle) return idle.error();
    plan_.idle_exit = std::chrono::duration_cast<milliseconds>(*idle);
    return Ok{};
  }

  Result<Ok> TakeCapabilities() {
    std::set<std::string> words = {"linux", plan_.registration.host().arch()};
    if (plan_.surroundings.cgroups.limits()) words.insert("cgroup");
    for (const std::string& word : options_.capabilities) {
      if (!ValidName(word)) {
        return BadUsage("--capability \"" + word +
                        "\" is no name: letters, digits, '.', '_' and "
                        "'-', a letter or digit first");
      }
      words.insert(word);
    }
    if (words.size() > kMostCapabilities) {
      return BadUsage("an agent has at most 64 capabilities, its own included");
    }
    for (const std::string& word : words) plan_.open.add_capabilities(word);
    for (const std::string& queue : options_.queues) {
      const auto problem = NameProblem("queue", queue);
      if (problem) return BadUsage("--queue: " + *problem);
      plan_.open.add_queues(queue);
    }
    return Ok{};
  }

  Result<Ok> TakeCommands() {
    Surroundings& surroundings = plan_.surroundings;
    if (!options_.wrap.empty()) {
      auto words = CommandWords("--wrap", options_.wrap);
      if (!words) return words.error();
      surroundings.wrap = *std::move(words);
    }
    for (const std::string& name : options_.pass_env) {
      if (name.empty() || name.find('=') != name.npos) {
        return BadUsage("--pass-env \"" + name + "\" is not the name of a variable");
      }
      if (const char* value = std::getenv(name.c_str())) {
        surroundings.passed.push_back(name + "=" + value);
      }
    }
    for (const std::string& pair : options_.middleware) {
      const size_t equals = pair.find('=');
      if (equals == pair.npos || equals == 0 || equals + 1 == pair.size()) {
        return BadUsage("--middleware \"" + pair + "\" is not NAME=COMMAND");
      }
      auto words = CommandWords("--middleware", pair.substr(equals + 1));
      if (!words) return words.error();
      surroundings.middleware[pair.substr(0, equals)] = *std::move(words);
    }
    return Ok{};
  }

  Result<Ok> TakeSecrets() {
    if (options_.env_file.empty()) return Ok{};
    const auto text = FileText(options_.env_file);
    if (!text) return text.error();
    auto own = ParseEnvFile(*text, options_.env_file);
    if (!own) return BadUsage(own.error().message);
    plan_.own_secrets = *std::move(own);
    return Ok{};
  }

  Result<Ok> TakePackages() {
    PackagePlan& packages = plan_.packages;
    packages.names = options_.packages;
    for (const std::string& name : packages.names) {
      const auto problem = name == "*" ? std::nullopt : PackageNameProblem(name);
      if (problem) return BadUsage("--package: " + *problem);
    }
    if (packages.names.empty() && options_.workers.empty()) packages.names = {"*"};
    std::error_code nowhere;
    packages.cache = std::filesystem::absolute(
        options_.cache.empty() ? DefaultCache() : options_.cache, nowhere);
    packages.cache_bytes = static_cast<uint64_t>(options_.cache_mb) << 20;
    packages.trusted_keys = options_.trusted_keys;
    if (!options_.trusted_keys.empty()) {
      const auto loaded = TrustedKeys(options_.trusted_keys).Load();
      if (!loaded) return BadUsage("--trusted-keys: " + loaded.error().message);
    }
    if (packages.names.empty()) return Ok{};
    plan_.open.set_dry_run(true);
    // What only some actions are taken of is asked for by these: to name the packages, too, would
    // be to ask for all that they serve.
    if (options_.actions.empty()) {
      for (const std::string& name : packages.names) plan_.open.add_packages(name);
    }
    if (options_.check) return Ok{};
    const auto opened = PackageCache(packages.cache, packages.cache_bytes).Open();
    if (opened) return Ok{};
    return BadUsage(opened.error().message + "; --cache gives another folder for packages");
  }

  Result<Ok> TakeWorkers(std::vector<Diagnostic>* diagnostics) {
    if (options_.workers.empty()) return Ok{};
    const auto text = FileText(options_.workers);
    if (!text) return text.error();
    WorkersFile file =
        ParseWorkers(*text, options_.workers, FolderOf(options_.workers), diagnostics);
    if (HasErrors(*diagnostics)) return Ok{};
    for (const Worker& worker : file.workers) {
      for (const std::string& word : worker.required) {
        const auto& own = plan_.open.capabilities();
        if (std::ranges::find(own, word) != own.end()) continue;
        return BadUsage("the worker " + worker.name + " of " + options_.workers + " requires " +
                        word + ", which this agent does not have; " + HowToHave(word));
      }
      if (worker.dry_run) plan_.open.set_dry_run(true);
    }
    plan_.workers = std::move(file.workers);
    plan_.surroundings.middleware.merge(file.middleware);  // the flags win
    return Ok{};
  }

  std::string HowToHave(const std::string& word) const {
    if (word != "cgroup") return "--capability " + word + " says that it has";
    const std::string& why = plan_.surroundings.cgroups.why_not();
    return "it has that where it can limit memory, cpu and processes: in a control group (cgroup "
           "v2) that is delegated to it with these controllers, as systemd does it with "
           "Delegate=yes" +
           (why.empty() ? "" : "; here, " + why);
  }

  // What the workers serve, but nothing else than --action says.
  Result<Ok> TakeActions() {
    std::set<std::string> actions;
    const auto& wanted = options_.actions;
    for (const std::string& action : wanted) {
      const auto problem = ActionPatternProblem(action);
      if (problem) return BadUsage("--action: " + *problem + "; it takes NAME, NAME.* and *");
    }
    for (const Worker& worker : plan_.workers) {
      for (const std::string& pattern : worker.serves) {
        if (wanted.empty()) actions.insert(pattern);
        for (const std::string& action : wanted) {
          if (Fit(pattern, action) > 0)
            actions.insert(action);
          else if (Fit(action, pattern) > 0)
            actions.insert(pattern);
        }
      }
    }
    if (!plan_.packages.names.empty()) actions.insert(wanted.begin(), wanted.end());
    if (!plan_.workers.empty() && actions.empty()) {
      return BadUsage("no worker of " + options_.workers + " serves " + Join(wanted, ", "));
    }
    for (const std::string& action : actions) plan_.open.add_actions(action);
    return Ok{};
  }

  Context& context_;
  const AgentOptions& options_;
  AgentPlan plan_;
};

int Refused(Context& context, const AgentOptions& options,
            const std::vector<Diagnostic>& diagnostics) {
  std::string lines;
  size_t errors = 0;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines += Format(diagnostic) + "\n";
    if (diagnostic.error) ++errors;
  }
  return context.Fail(kRefused,
                      options.workers + " cannot be used: " + std::to_string(errors) +
                          (errors == 1 ? " error" : " errors"),
                      "dcli agent --workers FILE --check checks it again", lines);
}

}  // namespace

namespace {

class InThisProcess : public AgentBeside {
 public:
  explicit InThisProcess(Agent& agent) : agent_(agent) {}
  void Serve(std::vector<std::string> packages) override { agent_.Serve(std::move(packages)); }
  void Print(std::string line) override { agent_.PrintLines(line + '\n', false); }
  void PrintError(std::string lines) override { agent_.PrintLines(std::move(lines), true); }

 private:
  Agent& agent_;
};

}  // namespace

int ServeBeside(Context& context, const AgentOptions& options,
                const std::function<void(AgentBeside&, const Canceller&)>& beside) {
  std::vector<Diagnostic> none;
  auto plan = Planner(context, options).Make(&none);
  if (!plan) return context.FailUsage(plan.error());
  signal(SIGPIPE, SIG_IGN);
  plan->awaits_packages = true;
  plan->packages.names.clear();
  plan->open.clear_packages();
  Canceller canceller;
  std::function<void()> start;
  plan->started = [&start] { start(); };
  Agent agent(context, *std::move(plan));
  InThisProcess handle(agent);
  std::thread thread;
  start = [&] { thread = std::thread([&] { beside(handle, canceller); }); };
  int status = kSucceeded;
  {
    const Interrupts interrupts([&](int count) {
      canceller.Cancel();
      agent.Interrupt(count);
    });
    status = agent.Run();
  }
  canceller.Cancel();
  if (thread.joinable()) thread.join();
  return status;
}

int ServeAsAgent(Context& context, const AgentOptions& options) {
  std::vector<Diagnostic> diagnostics;
  auto plan = Planner(context, options).Make(&diagnostics);
  if (HasErrors(diagnostics)) return Refused(context, options, diagnostics);
  if (!plan) return context.FailUsage(plan.error());
  for (const Diagnostic& diagnostic : diagnostics) context.Note(Format(diagnostic));
  if (options.check) {
    if (!context.names()) {
      const size_t count = plan->workers.size();
      context.out << (options.workers.empty() ? "the flags are fine"
                                              : options.workers + ": " + std::to_string(count) +
                                                    (count == 1 ? " worker" : " workers"))
                  << '\n';
    }
    return kSucceeded;
  }
  signal(SIGPIPE, SIG_IGN);  // a command need not read its standard input
  Agent agent(context, *std::move(plan));
  const Interrupts interrupts([&agent](int count) { agent.Interrupt(count); });
  return agent.Run();
}

}  // namespace dfsmr::cli
