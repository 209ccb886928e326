// sim_messages: runs engines that send one another messages, from seeds, until one goes wrong or
// time is up, and tells what was met.
//
//   sim_messages --seed 7 --trace    replays one
//   sim_messages --seeds 1000        the first thousand
//   sim_messages --seconds 600       as many as fit in so much time of a processor
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

#include "tests/sim/messages/message_sim.h"
#include "tests/sim/messages/scenes.h"

namespace dfsmr::message_sim {
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
    "a change brings a trigger its item",
    "a change is read again",
    "a disk has no room",
    "a follower begins",
    "a follower ends with what it follows",
    "a former engine's messages are told",
    "a group finishes",
    "a group is paused since members failed",
    "a group is told what to do",
    "a limit lets one in",
    "a limit lets one never in",
    "a machine's limit lets one in",
    "a message comes twice",
    "a message is lost",
    "a message is not applied yet",
    "a message overtakes another",
    "a message was applied before",
    "a number is set for those that run",
    "a quota is full",
    "a schedule sends a transition",
    "a schedule starts an instance",
    "a start is refused by what home says",
    "a start with a report is refused elsewhere",
    "a store is joined",
    "a task waits for a place",
    "a write is done, and fails",
    "a write is torn",
    "an answer is lost",
    "an engine crashes",
    "an engine ends with its disk",
    "an engine is taken over",
    "an instance is started with a report",
    "many messages in one turn",
    "one begins as home has said",
    "one gives way to another",
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
  std::map<std::string, uint64_t> hits;
  uint64_t records = 0;
};

Outcome RunSeed(uint64_t seed, bool trace) {
  std::snprintf(g_running, sizeof g_running, "seed %lu", seed);
  alarm(60);
  Outcome outcome;
  try {
    MessageSim sim(seed, trace);
    outcome.problem = sim.Run();
    if (outcome.problem.empty()) outcome.problem = PlayScenes(seed, trace);
    outcome.hits = sim.hits();
    outcome.records = sim.records();
  } catch (const std::exception& error) {
    outcome.problem = error.what();
  }
  alarm(0);
  if (!outcome.problem.empty()) {
    std::printf("seed %lu: %s\n  replay: sim_messages --seed %lu --trace\n", seed,
                outcome.problem.c_str(), seed);
    std::fflush(stdout);
  }
  return outcome;
}

int RunAll(const Flags& flags) {
  // Of this process, so that seeds do not depend on what else the machine does.
  const auto elapsed = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  std::map<std::string, uint64_t> hits;
  uint64_t records = 0, seed = flags.from;
  for (; flags.seeds == 0 || seed < flags.from + flags.seeds; ++seed) {
    if (flags.seconds > 0 && elapsed() > flags.seconds) break;
    const Outcome outcome = RunSeed(seed, flags.trace);
    if (!outcome.problem.empty()) return 1;
    records += outcome.records;
    for (const auto& [what, times] : outcome.hits) hits[what] += times;
    if (seed % 100 != 0) continue;
    const Outcome again = RunSeed(seed, false);
    if (again.records != outcome.records || again.hits != outcome.hits) {
      std::printf("seed %lu: it does not replay\n", seed);
      return 1;
    }
  }
  bool missing = false;
  for (const char* what : kMet) {
    if (!flags.trace) std::printf("%12lu  %s\n", hits[what], what);
    missing = missing || hits[what] == 0;
  }
  std::printf("%lu stores up to %lu, %lu records in the feeds, %.1f s\n", seed - flags.from,
              seed - 1, records, elapsed());
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
      std::printf("unknown flag %s; see the first lines of tests/sim/messages/main.cc\n",
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
}  // namespace dfsmr::message_sim

int main(int argc, char** argv) { return dfsmr::message_sim::Main(argc, argv); }
