// Breaks a real dsrv in the ways that the world would, and says which promise did not hold.
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <random>

#include "tests/chaos/chaos.h"
#include "tests/chaos/load.h"

int main(int argc, char** argv) {
  using namespace dfsmr::chaos;
  Options options;
  options.dsrv = std::filesystem::canonical("/proc/self/exe").parent_path() / "dsrv";
  options.directory = std::filesystem::temp_directory_path();
  options.seed = std::random_device{}();
  CLI::App app("Breaks dsrv in the ways that the world would, and audits what it promised.");
  app.require_subcommand(1);
  app.add_option("--dsrv", options.dsrv, "the server")->capture_default_str();
  app.add_option("--dir", options.directory, "where its data goes")->capture_default_str();
  app.add_option("--seed", options.seed, "of what is random; default: another one each time");

  int kills = 20;
  auto* kill = app.add_subcommand("kill", "kill -9 again and again under load, then an audit");
  kill->add_option("--rounds", kills, "how often")->capture_default_str();
  uint64_t operations = 100'000;
  double between_kills = 4;
  auto* linear =
      app.add_subcommand("linear", "concurrent calls against a sequential specification");
  linear->add_option("--operations", operations, "how many")->capture_default_str();
  linear->add_option("--between-kills", between_kills, "seconds")->capture_default_str();
  double seconds = 60;
  bool brief = false;
  auto* overload = app.add_subcommand("overload", "ten times the load, and clients that misbehave");
  overload->add_option("--seconds", seconds, "of ten times the load")->capture_default_str();
  overload->add_flag("--brief", brief, "fewer clients that misbehave");
  double minutes = 60;
  double rate = 0;
  auto* soak = app.add_subcommand("soak", "70 % of the load for long: all must stay flat");
  soak->add_option("--minutes", minutes, "how long")->capture_default_str();
  soak->add_option("--rate", rate, "instances a second; default: 70 % of what is measured");
  std::string address;
  int callers = 8;
  auto* beside = app.add_subcommand("beside", "somebody else's calls, while another one overloads");
  beside->add_option("--address", address)->required();
  beside->add_option("--callers", callers)->capture_default_str();
  beside->add_option("--seconds", seconds)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    if (*kill) Kill(options, kills);
    if (*linear) Linear(options, operations, between_kills);
    if (*overload) Overload(options, seconds, brief);
    if (*beside) Beside(address, callers, seconds);
    if (*soak) Soak(options, minutes, rate);
    return 0;
  } catch (const std::exception& error) {
    std::printf("chaos: a promise does not hold (seed %llu):\n  %s\n",
                static_cast<unsigned long long>(options.seed), error.what());
    return 1;
  }
}
