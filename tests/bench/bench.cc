// Runs dsrv and its floor, or dsrv under another load, in turns, each in a directory and a process of
// its own, and prints what it measured: a JSON line on standard output and a table row on standard
// error for each case. Absolute figures move with whatever else the machine does; the ratios, taken
// from neighbouring turns, much less, and more rounds make them steadier. ("other CPUs" is how many
// of them neighbours kept busy meanwhile.) Turns of under 4 s hide what flushes and compactions
// cost: they would fall between the turns. Exits with 1 when something failed or missed its goal.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.grpc.pb.h"
#include "tests/bench/callers.h"
#include "tests/bench/cases.h"
#include "tests/bench/loop.h"
#include "tests/bench/process.h"

namespace dfsmr::bench {
namespace {

using std::chrono::milliseconds;

struct Options {
  double seconds = 4;
  double warm_up_seconds = 0.5;
  int rounds = 3;
  int channels = 4;
  int client_threads = 1;
  std::vector<std::string> cases = {"unary64", "report16x10"};
  std::string dsrv;
  std::vector<std::string> dsrv_arguments;
  std::string floor;
  std::string directory = std::filesystem::temp_directory_path();
};

std::atomic<bool> interrupted = false;

// In slices, so that an interrupt still cleans up after itself.
void Sleep(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    if (interrupted) throw std::runtime_error("interrupted");
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - Clock::now());
    std::this_thread::sleep_for(std::clamp<std::chrono::microseconds>(left, {}, milliseconds(50)));
  }
}

double OwnCpuUs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// ---- One server --------------------------------------------------------------------------------

// dsrv or the floor, ready for a case: machines defined, instances started.
class Server {
 public:
  Server(const Options& options, const Case& c, bool is_floor)
      : options_(options),
        case_(c),
        is_floor_(is_floor),
        folder_(options.directory),
        address_("127.0.0.1:" + std::to_string(FreePort())),
        child_(Command(), folder_.path() + "/log") {
    AwaitAnswer();
    Define();
    if (c.instances > 0) {
      Seed(c.children() ? "parent" : "bench", "first", c.instances);
    } else if (c.kind != Case::Kind::kStart && c.stock == 0) {
      Seed("bench", "first", std::max<int64_t>(2'000, int64_t{4} * c.callers * c.batch));
    }
    if (!is_floor && c.resident > 0) Seed("idle", "idle", c.resident);
  }

  // What a turn is to use up.
  void Stock(int round) {
    if (case_.stock > 0) Seed("bench", "stock" + std::to_string(round), case_.stock / case_.steps);
  }

  const Case& load() const { return case_; }
  bool is_floor() const { return is_floor_; }
  const std::string& path() const { return folder_.path(); }
  Usage usage() const { return UsageOf(child_.pid()); }

  ChannelPtr Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

  // Until nothing is left of the last turn, so that it does not disturb the other server's.
  void Settle() const {
    constexpr double kIdleUs = 20'000;
    double before = usage().cpu_us;
    for (int tries = 0; tries < 50; ++tries) {
      Sleep(0.1);
      const double now = usage().cpu_us;
      if (now - before < kIdleUs) return;
      before = now;
    }
  }

  // Waits for loops that were told to stop; a server that does not answer them is put down.
  void Await(const std::vector<std::unique_ptr<Loop>>& loops, double patience_seconds) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(patience_seconds);
    for (const auto& loop : loops) {
      while (!loop->ended()) {
        if (interrupted || Clock::now() > deadline) {
          put_down_ = true;
          child_.Kill();
        }
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }

  [[noreturn]] void GiveUp(const std::string& why) const {
    const std::string which = is_floor_ ? "floor" : "dsrv";
    const std::string note = put_down_ ? " (it did not answer in time and was put down)" : "";
    throw std::runtime_error(which + ": " + why + note + "\n" + child_.Output());
  }

 private:
  std::vector<std::string> Command() const {
    std::vector<std::string> command = {is_floor_ ? options_.floor : options_.dsrv, "--addr",
                                        address_, "--data", folder_.path() + "/data"};
    if (!is_floor_) {
      command.insert(command.end(), options_.dsrv_arguments.begin(), options_.dsrv_arguments.end());
      return command;
    }
    const int stop_every = case_.lifecycle ? case_.nodes : 0;
    const int params_bytes = static_cast<int>(ParamsOf(case_).size());
    for (const auto& [flag, value] : {std::pair{"--params-bytes", params_bytes},
                                      std::pair{"--node-params-bytes", case_.node_params_bytes},
                                      std::pair{"--stop-every", stop_every}}) {
      command.insert(command.end(), {flag, std::to_string(value)});
    }
    return command;
  }

  void AwaitAnswer() {
    const ChannelPtr channel = Connect();
    for (int tries = 0; tries < 200; ++tries) {
      const auto soon = std::chrono::system_clock::now() + milliseconds(100);
      if (channel->WaitForConnected(soon)) return;
      if (!child_.Running()) GiveUp("ended at once");
      if (interrupted) GiveUp("interrupted");
    }
    GiveUp("does not listen on " + address_);
  }

  void Define() {
    Stub stub(Connect());
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::DefineRequest request;
    v1::DefineResponse response;
    request.set_source(Definitions(case_));
    request.set_source_name("bench.yaml");
    const grpc::Status status = stub.Define(&context, request, &response);
    if (!status.ok()) GiveUp("Define: " + status.error_message());
  }

  void Seed(const std::string& machine, const std::string& name, int64_t count) {
    constexpr int kStarters = 4;
    constexpr int kMessageBytes = 2 << 20;
    const std::string params = ParamsOf(case_);
    const int most = kMessageBytes / (static_cast<int>(params.size()) + 100);
    std::vector<std::unique_ptr<Loop>> loops;
    loops.push_back(std::make_unique<Loop>());
    for (int i = 0; i < kStarters; ++i) {
      Starter::Plan plan{.machine = machine,
                         .id_prefix = name + "-" + std::to_string(i) + "-",
                         .batch = std::clamp(most, 2, 1'000),
                         .params = params,
                         .owed = (count + i) / kStarters};
      loops[0]->Add(std::make_unique<Starter>(loops[0].get(), Connect(), std::move(plan)));
    }
    loops[0]->Start();
    loops[0]->Stop();  // starters finish what they owe
    Await(loops, 60 + static_cast<double>(count) / 1'000);
    const Tally tally = loops[0]->Join();
    if (tally.errors > 0) GiveUp("starting instances: " + tally.first_error);
  }

  const Options& options_;
  const Case& case_;
  const bool is_floor_;
  const Folder folder_;
  const std::string address_;
  Child child_;
  bool put_down_ = false;
};

// ---- One turn ----------------------------------------------------------------------------------

using Figures = std::map<std::string, double>;

double Percentile(std::vector<uint32_t>* values, double share) {
  if (values->empty()) return 0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values->size() - 1));
  const auto at = values->begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// The load of a case on one server, for some seconds.
class Turn {
 public:
  Turn(const Options& options, Server* server, int round)
      : options_(options), case_(server->load()), server_(*server), round_(round) {
    AddBystanders();
    for (int i = 0; i < options.client_threads; ++i) AddLoop();
    for (int i = 0; i < options.channels; ++i) channels_.push_back(server->Connect());
    AddStarters();
    for (int i = 0; i < case_.callers; ++i) AddCaller(i);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { End(); }

  Figures Run() {
    for (const auto& loop : loops_) loop->Start();
    started_ = true;
    Sleep(options_.warm_up_seconds + (case_.idle_polls + case_.watchers > 0 ? 1 : 0));
    const Snapshot before = Take();
    SetRecording(true);
    Sleep(options_.seconds);
    SetRecording(false);
    const Snapshot after = Take();
    End();
    if (total_.errors > 0) {
      server_.GiveUp(std::to_string(total_.errors) + " calls failed, first: " +
                      total_.first_error);
    }
    return Evaluate(before, after);
  }

 private:
  struct Snapshot {
    Clock::time_point time;
    Usage server;
    double client_cpu_us = 0;
    double machine_cpu_us = 0;
    std::optional<double> flushes;
  };

  Snapshot Take() const {
    return {Clock::now(), server_.usage(), OwnCpuUs(), MachineCpuUs(),
            DiskFlushes(server_.path())};
  }

  Loop* AddLoop() {
    loops_.push_back(std::make_unique<Loop>());
    return loops_.back().get();
  }

  // Those that wait beside the load have a thread and connections of their own.
  void AddBystanders() {
    constexpr int kPollsPerConnection = 1'000;
    Loop* loop = AddLoop();
    ChannelPtr channel;
    for (int i = 0; i < case_.idle_polls; ++i) {
      if (i % kPollsPerConnection == 0) channel = server_.Connect();
      loop->Add(std::make_unique<IdlePoll>(loop, channel));
    }
    if (server_.is_floor()) return;  // it has no feed
    for (int i = 0; i < case_.watchers; ++i) {
      loop->Add(std::make_unique<Watcher>(loop, server_.Connect()));
    }
    for (int i = 0; i < case_.planners; ++i) {
      Starter::Plan plan{.machine = "big", .id_prefix = IdPrefix("big", i),
                         .params = NumbersUpTo(kMostSteps), .beside = true};
      loop->Add(std::make_unique<Starter>(loop, server_.Connect(), std::move(plan)));
    }
  }

  Loop* LoopFor(int caller) const {
    return loops_[static_cast<std::size_t>(1 + caller % options_.client_threads)].get();
  }
  const ChannelPtr& ChannelFor(int caller) const {
    return channels_[static_cast<std::size_t>(caller % options_.channels)];
  }
  std::string IdPrefix(const std::string& kind, int number) const {
    return kind + std::to_string(round_) + "-" + std::to_string(number) + "-";
  }

  // One for each thread, as callers share nothing across threads.
  void AddStarters() {
    if (!case_.lifecycle) return;
    for (int i = 0; i < options_.client_threads; ++i) {
      Starter::Plan plan{.machine = case_.children() ? "parent" : "bench",
                         .id_prefix = IdPrefix("next", i),
                         .batch = 100,
                         .params = ParamsOf(case_),
                         .owed = 0,
                         .ends = case_.children() ? case_.steps : 1};
      auto starter = std::make_unique<Starter>(LoopFor(i), ChannelFor(i), std::move(plan));
      starters_.push_back(starter.get());
      LoopFor(i)->Add(std::move(starter));
    }
  }

  void AddCaller(int number) {
    Loop* loop = LoopFor(number);
    loop->Add(MakeCaller(loop, ChannelFor(number), number));
  }

  std::unique_ptr<Caller> MakeCaller(Loop* loop, const ChannelPtr& channel, int number) const {
    Worker::Plan plan{.name = "worker-" + std::to_string(number),
                      .batch = case_.batch,
                      .node_params_bytes = case_.node_params_bytes};
    if (case_.lifecycle) {
      plan.starter = starters_[static_cast<std::size_t>(number % options_.client_threads)];
    }
    switch (case_.kind) {
      case Case::Kind::kUnary: return std::make_unique<UnaryWorker>(loop, channel, plan);
      case Case::Kind::kReport: return std::make_unique<ReportWorker>(loop, channel, plan);
      case Case::Kind::kWork: return std::make_unique<StreamWorker>(loop, channel, plan);
      case Case::Kind::kStart: break;
    }
    return std::make_unique<Starter>(loop, channel,
                                     Starter::Plan{.machine = "bench",
                                                   .id_prefix = IdPrefix("start", number),
                                                   .batch = case_.batch,
                                                   .params = ParamsOf(case_)});
  }

  void SetRecording(bool recording) {
    for (const auto& loop : loops_) loop->SetRecording(recording);
  }

  void End() {
    if (!std::exchange(started_, false)) return;
    for (const auto& loop : loops_) loop->Stop();
    server_.Await(loops_, 30);
    for (const auto& loop : loops_) {
      Tally tally = loop->Join();
      total_.transitions += tally.transitions;
      total_.finished += tally.finished;
      total_.started += tally.started;
      total_.empty += tally.empty;
      total_.fed += tally.fed;
      if (total_.errors == 0) total_.first_error = tally.first_error;
      total_.errors += tally.errors;
      total_.latencies_us.insert(total_.latencies_us.end(), tally.latencies_us.begin(),
                                 tally.latencies_us.end());
    }
  }

  Figures Evaluate(const Snapshot& before, const Snapshot& after) {
    const double seconds = std::chrono::duration<double>(after.time - before.time).count();
    const bool starting = case_.kind == Case::Kind::kStart;
    const double per_start = std::max(case_.steps, 1);
    const double items = starting ? per_start * static_cast<double>(total_.started)
                                  : static_cast<double>(total_.transitions);
    if (items == 0) server_.GiveUp("did nothing in " + std::to_string(seconds) + " s");
    Figures figures;
    figures["transitions_per_s"] = static_cast<double>(total_.transitions) / seconds;
    figures["instances_per_s"] =
        static_cast<double>(starting ? total_.started : total_.finished) / seconds;
    if (case_.steps > 0) {
      figures["steps_planned_per_s"] =
          case_.steps * static_cast<double>(total_.started) / seconds;
    }
    figures["empty_replies_per_s"] = static_cast<double>(total_.empty) / seconds;
    figures["feed_messages_per_s"] = static_cast<double>(total_.fed) / seconds;
    figures["p50_ms"] = Percentile(&total_.latencies_us, 0.5) / 1e3;
    figures["p99_ms"] = Percentile(&total_.latencies_us, 0.99) / 1e3;
    figures["p999_ms"] = Percentile(&total_.latencies_us, 0.999) / 1e3;
    figures["max_ms"] = Percentile(&total_.latencies_us, 1) / 1e3;
    figures["cpu_us"] = (after.server.cpu_us - before.server.cpu_us) / items;
    figures["client_cpu_us"] = (after.client_cpu_us - before.client_cpu_us) / items;
    figures["other_cpus"] = ((after.machine_cpu_us - before.machine_cpu_us) -
                             (after.server.cpu_us - before.server.cpu_us) -
                             (after.client_cpu_us - before.client_cpu_us)) /
                            (seconds * 1e6);
    figures["write_bytes"] = (after.server.write_bytes - before.server.write_bytes) / items;
    figures["rss_mib"] = after.server.rss_bytes / (1 << 20);
    if (before.flushes && after.flushes) {
      figures["disk_flushes"] = (*after.flushes - *before.flushes) / items;
    }
    return figures;
  }

  const Options& options_;
  const Case& case_;
  Server& server_;
  const int round_;
  bool started_ = false;
  std::vector<ChannelPtr> channels_;
  std::vector<std::unique_ptr<Loop>> loops_;  // the first is the bystanders'
  std::vector<Starter*> starters_;            // owned by their loops
  Tally total_;
};

// ---- One case ----------------------------------------------------------------------------------

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Figures Medians(const std::vector<Figures>& rounds) {
  std::map<std::string, std::vector<double>> columns;
  for (const Figures& figures : rounds) {
    for (const auto& [name, value] : figures) columns[name].push_back(value);
  }
  Figures medians;
  for (auto& [name, values] : columns) medians[name] = Median(std::move(values));
  return medians;
}

struct Outcome {
  Figures server;
  Figures floor;  // or of what it was run against
  std::vector<double> rate_ratios;  // of each round, ascending

  double rate_ratio() const { return Median(rate_ratios); }
};

std::string RateOf(const Case& c) {
  if (c.kind == Case::Kind::kStart && c.steps > 0) return "steps_planned_per_s";
  return c.kind == Case::Kind::kStart ? "instances_per_s" : "transitions_per_s";
}

Case CaseNamed(const std::string& name) {
  const std::vector<Case> all = AllCases();
  const auto found = std::ranges::find(all, name, &Case::name);
  if (found == all.end()) throw std::runtime_error("no case " + name + "; --list names them");
  return *found;
}

Outcome Measure(const Options& options, const Case& c) {
  const Case other = c.against.empty() ? c : CaseNamed(c.against);
  Server server(options, c, false);
  Server floor(options, other, c.against.empty());
  std::vector<Figures> server_rounds;
  std::vector<Figures> floor_rounds;
  Outcome outcome;
  for (int round = 0; round < options.rounds; ++round) {
    server.Stock(round);
    floor.Stock(round);
    server.Settle();
    floor.Settle();
    server_rounds.push_back(Turn(options, &server, round).Run());
    server.Settle();
    floor_rounds.push_back(Turn(options, &floor, round).Run());
    floor.Settle();
    outcome.rate_ratios.push_back(server_rounds.back().at(RateOf(c)) /
                                  floor_rounds.back().at(RateOf(other)));
  }
  std::sort(outcome.rate_ratios.begin(), outcome.rate_ratios.end());
  outcome.server = Medians(server_rounds);
  outcome.floor = Medians(floor_rounds);
  return outcome;
}

nlohmann::ordered_json ToJson(const Options& options, const Case& c, const Outcome& outcome) {
  nlohmann::ordered_json json;
  json["case"] = c.name;
  json["callers"] = c.callers;
  json["batch"] = c.batch;
  json["seconds"] = options.seconds;
  json["rounds"] = options.rounds;
  json["dsrv"] = outcome.server;
  json[c.against.empty() ? "floor" : c.against] = outcome.floor;
  json["ratio"]["rate"] = outcome.rate_ratio();
  json["ratio"]["rate_min"] = outcome.rate_ratios.front();
  json["ratio"]["rate_max"] = outcome.rate_ratios.back();
  for (const auto& [name, value] : outcome.floor) {
    const auto of_server = outcome.server.find(name);
    if (name == RateOf(c) || value == 0 || of_server == outcome.server.end()) continue;
    json["ratio"][name] = of_server->second / value;
  }
  if (c.goal > 0) {
    json["goal"] = c.goal;
    json["reached"] = outcome.rate_ratio() >= c.goal;
  }
  return json;
}

constexpr char kRow[] =
    "%-23s %15s %18s %6s %11s %11s %11s %11s %9s %9s %11s %9s %11s %10s\n";

void PrintHeader() {
  std::fprintf(stderr, kRow, "dsrv/floor", "rate/s", "ratio [min..max]", "goal", "p50 ms", "p99 ms",
               "p99.9 ms", "max ms", "CPU us", "(client)", "bytes", "RSS MiB", "flushes",
               "other CPUs");
}

void PrintRow(const Case& c, const Outcome& outcome) {
  const auto pair = [&outcome](const std::string& name, int digits) {
    char text[64];
    const auto value = [&name](const Figures& figures) {
      const auto found = figures.find(name);
      return found == figures.end() ? 0.0 : found->second;
    };
    std::snprintf(text, sizeof(text), "%.*f/%.*f", digits, value(outcome.server), digits,
                  value(outcome.floor));
    return std::string(text);
  };
  char ratio[64];
  std::snprintf(ratio, sizeof(ratio), "%.2f [%.2f..%.2f]", outcome.rate_ratio(),
                outcome.rate_ratios.front(), outcome.rate_ratios.back());
  const char* goal = c.goal == 0                        ? "-"
                     : outcome.rate_ratio() >= c.goal ? "met"
                                                        : "MISSED";
  std::fprintf(stderr, kRow, (c.against.empty() ? c.name : c.name + "/" + c.against).c_str(),
               pair(RateOf(c), 0).c_str(), ratio, goal, pair("p50_ms", 2).c_str(),
               pair("p99_ms", 1).c_str(), pair("p999_ms", 1).c_str(), pair("max_ms", 0).c_str(),
               pair("cpu_us", 0).c_str(), pair("client_cpu_us", 0).c_str(),
               pair("write_bytes", 0).c_str(), pair("rss_mib", 0).c_str(),
               pair("disk_flushes", 3).c_str(), pair("other_cpus", 2).c_str());
}

std::vector<Case> Chosen(const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{"all"}) return AllCases();
  std::vector<Case> chosen;
  for (const std::string& name : names) chosen.push_back(CaseNamed(name));
  return chosen;
}

bool RunCases(const Options& options) {
  bool all_well = true;
  PrintHeader();
  for (const Case& c : Chosen(options.cases)) {
    try {
      const Outcome outcome = Measure(options, c);
      PrintRow(c, outcome);
      std::printf("%s\n", ToJson(options, c, outcome).dump().c_str());
      std::fflush(stdout);
      all_well = all_well && outcome.rate_ratio() >= c.goal;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%-23s %s\n", c.name.c_str(), error.what());
      all_well = false;
      if (interrupted) break;
    }
  }
  return all_well;
}

}  // namespace
}  // namespace dfsmr::bench

int main(int argc, char** argv) {
  using dfsmr::bench::Options;
  Options options;
  const auto beside = std::filesystem::canonical("/proc/self/exe").parent_path();
  options.dsrv = beside / "dsrv";
  options.floor = beside / "floor";
  bool list = false;
  CLI::App app("Measures dsrv against its floor, in turns, under the same load.");
  app.add_option("--case", options.cases, "cases to run, or all")->capture_default_str();
  app.add_flag("--list", list, "name all cases and end");
  app.add_option("--seconds", options.seconds, "of each turn")->capture_default_str();
  app.add_option("--warm-up", options.warm_up_seconds, "seconds before it")->capture_default_str();
  app.add_option("--rounds", options.rounds, "turns of each server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--channels", options.channels, "connections of the callers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--client-threads", options.client_threads, "threads of the callers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dsrv", options.dsrv, "the server")->capture_default_str();
  app.add_option("--dsrv-arg", options.dsrv_arguments, "further argument for it; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--floor", options.floor, "the floor")->capture_default_str();
  app.add_option("--dir", options.directory, "where the databases go")->capture_default_str();
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
