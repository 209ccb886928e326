// sim: runs seeds until one fails or time is up, and tells which faults were met.
//
//   sim --seed 7 --trace        replays one
//   sim --seeds 10000           the first ten thousand
//   sim --seconds 600 --from 1  as many as fit in so much time of a processor
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>

#include "storage/rocks/rocks_store.h"
#include "tests/sim/agents.h"
#include "tests/sim/breaker.h"
#include "tests/sim/limits.h"
#include "tests/sim/packages.h"
#include "tests/sim/scenes.h"
#include "tests/sim/schedules.h"
#include "tests/sim/secrets.h"
#include "tests/sim/sim.h"
#include "tests/sim/spaces.h"
#include "tests/sim/triggers.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

struct Flags {
  uint64_t from = 1;
  uint64_t seeds = 0;    // 0: no end
  double seconds = 0;    // of the processor; 0: no end
  std::string kept;      // a file of seeds that found something once
  bool all_faults = false;
  bool trace = false;
  bool stores = false;
};

// What a seed that is running says when the process dies under it.
char g_running[64];

void Died(int signal) {
  const char* how = signal == SIGALRM ? " hangs\n" : " died\n";
  (void)!write(STDERR_FILENO, g_running, std::strlen(g_running));
  (void)!write(STDERR_FILENO, how, std::strlen(how));
  std::_Exit(1);
}

// A failed REQUIRE of the world, which is no doctest here.
void Failed(const doctest::AssertData& failed) {
  throw std::runtime_error(std::string(failed.m_file) + ":" + std::to_string(failed.m_line) +
                           ": " + failed.m_expr);
}

struct Outcome {
  std::string problem;
  Ledger ledger;
};

Outcome RunSeed(uint64_t seed, Store* below, bool trace, FaultCounts* hits) {
  std::snprintf(g_running, sizeof g_running, "seed %lu", seed);
  alarm(120);
  Outcome outcome;
  try {
    Sim sim(seed, below, trace);
    outcome.problem = sim.Run();
    outcome.ledger = sim.ledger();
    for (size_t i = 0; i < hits->size(); ++i) (*hits)[i] += sim.hits()[i];
    if (outcome.problem.empty() && !below) outcome.problem = ScheduleSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = TriggerSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = AgentSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = SpaceSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = PackageSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = SecretSim(seed, trace).Run();
    if (outcome.problem.empty() && !below) outcome.problem = LimitSim(seed, trace).Run();
    if (outcome.problem.empty() && !below && seed % 2 == 0) {
      outcome.problem = BreakerSim(seed).Run();
    }
    if (outcome.problem.empty() && !below) outcome.problem = PlayScenes(seed, trace);
  } catch (const std::exception& error) {
    outcome.problem = error.what();
  }
  alarm(0);
  if (!outcome.problem.empty()) {
    std::printf("seed %lu: %s\n  replay: make sim SEED=%lu\n", seed, outcome.problem.c_str(), seed);
    std::fflush(stdout);
  }
  return outcome;
}

bool PrintFaults(const FaultCounts& hits, bool all) {
  bool missing = false;
  for (size_t i = 0; i < hits.size(); ++i) {
    std::printf("%12lu  %s\n", hits[i], std::string(kFaultNames[i]).c_str());
    missing = missing || hits[i] == 0;
  }
  if (missing && all) std::printf("some faults were never met\n");
  return !(missing && all);
}

// Every now and then a seed is run twice: one that does not replay is worth nothing.
bool Replays(uint64_t seed, const Ledger& ledger) {
  FaultCounts ignored{};
  const bool same = RunSeed(seed, nullptr, false, &ignored).ledger == ledger;
  if (!same) std::printf("seed %lu: it does not replay\n", seed);
  return same;
}

int RunAll(const Flags& flags) {
  // Of this process, so that seeds do not depend on what else the machine does.
  const auto elapsed = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  FaultCounts hits{};
  uint64_t records = 0;
  uint64_t ran = 0;
  std::ifstream kept(flags.kept);
  for (std::string line; std::getline(kept, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    FaultCounts ignored{};
    if (!RunSeed(std::stoull(line), nullptr, false, &ignored).problem.empty()) return 1;
    ++ran;
  }
  uint64_t seed = flags.from;
  for (; flags.seeds == 0 || seed < flags.from + flags.seeds; ++seed) {
    if (flags.seconds > 0 && elapsed() > flags.seconds) break;
    const Outcome outcome = RunSeed(seed, nullptr, flags.trace, &hits);
    if (!outcome.problem.empty()) return 1;
    records += outcome.ledger.size();
    ++ran;
    if (seed % 200 == 0 && !Replays(seed, outcome.ledger)) return 1;
  }
  const bool good = flags.trace || PrintFaults(hits, flags.all_faults);
  std::printf("%lu seeds up to %lu, %lu records in the feeds, %.1f s\n", ran, seed - 1, records,
              elapsed());
  return good ? 0 : 1;
}

// The same commands, whatever lies below.
int CompareStores(const Flags& flags) {
  FaultCounts hits{};
  for (uint64_t seed = flags.from; seed < flags.from + flags.seeds; ++seed) {
    const TemporaryFolder folder;
    auto rocks = RocksStore::Open({.path = folder / "store", .cache_mb = 8, .memtable_mb = 1});
    if (!rocks) return std::printf("%s\n", rocks.error().message.c_str()), 1;
    const Outcome on_disk = RunSeed(seed, rocks->get(), false, &hits);
    const Outcome in_memory = RunSeed(seed, nullptr, false, &hits);
    if (!on_disk.problem.empty() || !in_memory.problem.empty()) return 1;
    if (on_disk.ledger != in_memory.ledger) {
      std::printf("seed %lu: RocksDB and memory tell different stories\n", seed);
      return 1;
    }
  }
  std::printf("%lu seeds tell the same story on RocksDB and in memory\n", flags.seeds);
  return 0;
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
    } else if (flag == "--stores") {
      flags.stores = true;
    } else if (flag == "--seed" && !last) {
      flags.from = std::strtoull(argv[++i], nullptr, 10);
      flags.seeds = 1;
    } else if (flag == "--from" && !last) {
      flags.from = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seeds" && !last) {
      flags.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--seconds" && !last) {
      flags.seconds = std::strtod(argv[++i], nullptr);
    } else if (flag == "--kept" && !last) {
      flags.kept = argv[++i];
    } else {
      std::fprintf(stderr,
                   "sim: '%s' is none of --seed N, --from N, --seeds N, --seconds N, --kept FILE, "
                   "--trace, --all-faults, --stores\n",
                   flag.c_str());
      return 2;
    }
  }
  for (int signal : {SIGABRT, SIGSEGV, SIGALRM, SIGFPE}) std::signal(signal, Died);
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler(Failed);
  return flags.stores ? CompareStores(flags) : RunAll(flags);
}

}  // namespace
}  // namespace dfsmr

int main(int argc, char** argv) { return dfsmr::Main(argc, argv); }
