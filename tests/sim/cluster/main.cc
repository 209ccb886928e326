// sim_cluster: runs clusters from seeds until one goes wrong or time is up, and tells what was met.
//
//   sim_cluster --seed 7 --trace    replays one
//   sim_cluster --seeds 1000        the first thousand
//   sim_cluster --seconds 600       as many as fit in so much time of a processor
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sim/cluster/cluster_sim.h"

namespace dfsmr::cluster_sim {
namespace {

struct Flags {
  uint64_t from = 1;
  uint64_t seeds = 0;  // 0: no end
  double seconds = 0;  // of the processor; 0: no end
  bool trace = false;
  bool all_faults = false;
};

// Each of these must have been met in a long run.
constexpr const char* kMet[] = {
    "a call comes to one that is not the owner",
    "a call finds nobody",
    "a call is lost with its owner",
    "a call is passed on",
    "a call waits while its partition is given",
    "a commit is in doubt, or refused",
    "a commit of a former owner is refused",
    "a partition is given while others go on",
    "a partition is handed over",
    "a partition is taken",
    "a partition is taken by hand",
    "a server does not know whether it has given a partition",
    "a server finds itself buried",
    "a server is cut from the database",
    "a server is killed",
    "a server is paused",
    "a server is cut off while an answer is on its way",
    "a server is paused while an answer is on its way",
    "a server leaves in order",
    "a server loses several partitions at once",
    "a server owns several partitions",
    "a server starts",
    "a server that has lost something starts anew",
    "a server that owns several partitions is to end",
    "a silent server is buried",
    "an answer waits for the lease",
    "asked of the database in vain",
    "done by the database long after it was asked",
    "done by the database, and never answered",
    "the database is away",
    "the database's clock leaps",
    "two servers are cut apart",
    "what became of a commit stays unknown",
};

char g_running[64];

void Died(int signal) {
  const char* how = signal == SIGALRM ? " hangs\n" : " died\n";
  (void)!write(STDERR_FILENO, g_running, std::strlen(g_running));
  (void)!write(STDERR_FILENO, how, std::strlen(how));
  std::_Exit(1);
}

// A failed REQUIRE of the world, which is no doctest here.
void Failed(const doctest::AssertData& failed) {
  throw std::runtime_error(std::string(failed.m_file) + ":" + std::to_string(failed.m_line) + ": " +
                           failed.m_expr);
}

struct Outcome {
  std::string problem;
  std::vector<Database::Ledger> ledgers;  // by partition
  uint64_t commits = 0;
};

Outcome RunSeed(uint64_t seed, bool trace, std::map<std::string, uint64_t>* hits) {
  std::snprintf(g_running, sizeof g_running, "seed %lu", seed);
  alarm(120);
  Outcome outcome;
  try {
    ClusterSim sim(seed, trace);
    outcome.problem = sim.Run();
    outcome.ledgers = sim.ledgers();
    outcome.commits = sim.commits();
    for (const auto& [what, times] : sim.hits()) (*hits)[what] += times;
  } catch (const std::exception& error) {
    outcome.problem = error.what();
  }
  alarm(0);
  if (!outcome.problem.empty()) {
    std::printf("seed %lu: %s\n  replay: sim_cluster --seed %lu --trace\n", seed,
                outcome.problem.c_str(), seed);
    std::fflush(stdout);
  }
  return outcome;
}

int RunAll(const Flags& flags) {
  // Of this process, so that seeds do not depend on what else the machine does.
  const auto elapsed = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  std::map<std::string, uint64_t> hits;
  uint64_t records = 0, commits = 0, seed = flags.from;
  for (; flags.seeds == 0 || seed < flags.from + flags.seeds; ++seed) {
    if (flags.seconds > 0 && elapsed() > flags.seconds) break;
    const Outcome outcome = RunSeed(seed, flags.trace, &hits);
    if (!outcome.problem.empty()) return 1;
    for (const auto& ledger : outcome.ledgers) records += ledger.size();
    commits += outcome.commits;
    std::map<std::string, uint64_t> ignored;
    if (seed % 100 == 0 && RunSeed(seed, false, &ignored).ledgers != outcome.ledgers) {
      std::printf("seed %lu: it does not replay\n", seed);
      return 1;
    }
  }
  bool missing = false;
  for (const char* what : kMet) {
    if (!flags.trace) std::printf("%12lu  %s\n", hits[what], what);
    missing = missing || hits[what] == 0;
  }
  std::printf("%lu clusters up to %lu, %lu commits, %lu records in the feeds, %.1f s\n",
              seed - flags.from, seed - 1, commits, records, elapsed());
  if (missing && flags.all_faults) std::printf("some of it was never met\n");
  return missing && flags.all_faults ? 1 : 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool last = i + 1 == argc;
    if (flag == "--trace") {
      flags.trace = true;
    } else if (flag == "--all-faults") {
      flags.all_faults = true;
    } else if (flag == "--seed" && !last) {
      flags.from = std::strtoull(argv[++i], nullptr, 10);
      flags.seeds = 1;
    } else if (flag == "--from" && !last) {
      flags.from = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seeds" && !last) {
      flags.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seconds" && !last) {
      flags.seconds = std::strtod(argv[++i], nullptr);
    } else {
      std::printf("unknown flag %s; see the first lines of tests/sim/cluster/main.cc\n",
                  flag.c_str());
      return 2;
    }
  }
  for (int signal : {SIGABRT, SIGSEGV, SIGALRM}) std::signal(signal, Died);
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler(Failed);
  return RunAll(flags);
}

}  // namespace
}  // namespace dfsmr::cluster_sim

int main(int argc, char** argv) { return dfsmr::cluster_sim::Main(argc, argv); }
