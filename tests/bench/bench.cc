// Runs dsrv and its floor, or dsrv under another load, in turns, each in a directory and a process
// of its own, and prints what it measured: a JSON line and a table row for each case. Absolute
// figures move with whatever else the machine does; the ratios, taken from neighbouring turns, much
// less, and more rounds make them steadier. ("busy" is how many CPUs neighbours kept so meanwhile.)
// Turns of under 4 s hide what flushes and compactions cost: they would fall between the turns.
// Exits with 1 when something failed or missed its goal.
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/cases.h"
#include "tests/bench/drawing.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace dfsmr::bench {
namespace {

std::vector<Case> Chosen(const Options& options) {
  std::vector<Case> chosen;
  for (const std::string& glob : options.cases) {
    const std::size_t before = chosen.size();
    for (const Case& c : AllCases()) {
      const bool named = fnmatch(glob.c_str(), c.name.c_str(), 0) == 0;
      const bool is_new = std::ranges::find(chosen, c.name, &Case::name) == chosen.end();
      // A glob that happens to match does not ask for minutes.
      if (named && is_new && (!c.slow || glob == c.name || options.tiny)) chosen.push_back(c);
    }
    if (chosen.size() == before) {
      throw std::runtime_error("no further case is called " + glob + "; --list names them");
    }
  }
  if (options.cases.empty()) {
    for (const Case& c : AllCases()) {
      if (options.goals ? c.key : !c.slow || options.tiny) chosen.push_back(c);
    }
  }
  if (options.tiny) std::ranges::transform(chosen, chosen.begin(), Tiny);
  return chosen;
}

bool RunCases(const Options& options) {
  std::ofstream file;
  if (!options.json.empty()) file.open(options.json);
  if (!file) throw std::runtime_error("cannot write to " + options.json);
  std::ostream& lines = options.json.empty() ? std::cout : file;
  bool all_well = true;
  std::vector<Outcome> drawn;
  Table::PrintHeader();
  for (const Case& c : Chosen(options)) {
    try {
      const Options timed = LongEnough(options, c);
      Outcome outcome = Measurement(timed, c).Run();
      lines << ToJson(timed, outcome).dump() << std::endl;
      Table::PrintRow(outcome);
      all_well = all_well && outcome.ReachedAll();
      if (c.drawn) drawn.push_back(std::move(outcome));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%-13s %s\n", c.name.c_str(), error.what());
      all_well = false;
      if (interrupted) return false;
    }
  }
  if (!drawn.empty()) Table::PrintStages(drawn);
  if (!options.figure.empty()) Drawing(drawn).Save(options.figure);
  return all_well;
}

void AddFlags(CLI::App* app, Options* options) {
  app->add_option("--case", options->cases, "names or globs of cases; without it all quick ones");
  app->add_flag("--goals", options->goals, "only the cases that say whether it is good enough");
  app->add_flag("--tiny", options->tiny, "make the cases so small that they measure nothing");
  app->add_option("--seconds", options->seconds, "of each turn")->capture_default_str();
  app->add_option("--warm-up", options->warm_up_seconds, "seconds before it")
      ->capture_default_str();
  app->add_option("--rounds", options->rounds, "turns of each server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--channels", options->channels, "connections of the callers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--client-threads", options->client_threads, "threads of the callers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--dsrv", options->dsrv, "the server")->capture_default_str();
  app->add_option("--dsrv-arg", options->dsrv_arguments, "further argument for it; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--floor", options->floor, "the floor")->capture_default_str();
  app->add_option("--dir", options->directory, "where the databases go")->capture_default_str();
  app->add_option("--json", options->json, "file for the JSON lines; else they are printed");
  app->add_option("--figure", options->figure, "SVG to draw: the CPU time by stage");
}

}  // namespace
}  // namespace dfsmr::bench

int main(int argc, char** argv) {
  dfsmr::bench::Options options;
  const auto beside = std::filesystem::canonical("/proc/self/exe").parent_path();
  options.dsrv = beside / "dsrv";
  options.floor = beside / "floor";
  bool list = false;
  CLI::App app("Measures dsrv against its floor, in turns, under the same load.");
  app.add_flag("--list", list, "name all cases and end");
  dfsmr::bench::AddFlags(&app, &options);
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const auto& c : dfsmr::bench::AllCases()) std::printf("%s\n", c.name.c_str());
    return 0;
  }
  std::signal(SIGINT, [](int) { dfsmr::bench::interrupted = true; });
  std::signal(SIGTERM, [](int) { dfsmr::bench::interrupted = true; });
  try {
    return dfsmr::bench::RunCases(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
