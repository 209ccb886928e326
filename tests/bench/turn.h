// The load of a case on one server for some seconds, and what that cost.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/callers.h"
#include "tests/bench/case.h"
#include "tests/bench/figures.h"
#include "tests/bench/loop.h"
#include "tests/bench/options.h"
#include "tests/bench/process.h"
#include "tests/bench/server.h"

namespace dfsmr::bench {

inline double OwnCpuUs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

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
    if (options_.tiny) return RunTiny();
    StartAll();
    Sleep(options_.warm_up_seconds + (case_.idle_polls + case_.watchers > 0 ? 1 : 0));
    const Snapshot before = Take();
    SetRecording(true);
    Sleep(options_.seconds);
    SetRecording(false);
    const Snapshot after = Take();
    return Conclude(before, after);
  }

 private:
  // Until something has been done: a moment may be too short for that on a busy machine.
  Figures RunTiny() {
    SetRecording(true);
    const Snapshot before = Take();
    StartAll();
    Snapshot after = before;
    const auto patience = Clock::now() + std::chrono::seconds(20);
    do {
      Sleep(options_.seconds);
      after = Take();
    } while (after.counters.at("commits") == before.counters.at("commits") &&
             Clock::now() < patience);
    return Conclude(before, after);
  }

  struct Snapshot {
    Clock::time_point time;
    Usage server;
    double client_cpu_us = 0;
    double machine_cpu_us = 0;
    std::optional<double> flushes;
    std::map<std::string, double> counters;
  };

  Figures Conclude(const Snapshot& before, const Snapshot& after) {
    End();
    if (total_.errors > 0) {
      server_.GiveUp(std::to_string(total_.errors) + " calls failed, first: " +
                     total_.first_error);
    }
    return Evaluate(before, after);
  }

  void StartAll() {
    for (const auto& loop : loops_) loop->Start();
    started_ = true;
  }

  Snapshot Take() {
    auto counters = server_.Counters();
    return {Clock::now(),   server_.usage(),              OwnCpuUs(),
            MachineCpuUs(), DiskFlushes(server_.path()), std::move(counters)};
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
      Starter::Plan plan{.machine = "big",
                         .id_prefix = IdPrefix("big", i),
                         .params = NumbersUpTo(case_.planner_steps),
                         .beside = true,
                         .steps = case_.planner_steps};
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
    if (!case_.lifecycle || case_.starts) return;
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
    // A relay's callers know each other, so they have one thread.
    Loop* loop = LoopFor(case_.kind == Case::Kind::kRelay ? 0 : number);
    loop->Add(MakeCaller(loop, ChannelFor(number), number));
  }

  Worker::Plan PlanOf(int number) const {
    Worker::Plan plan{.name = "worker-" + std::to_string(number),
                      .batch = case_.batch,
                      .node_params_bytes = case_.node_params_bytes};
    if (case_.per_second > 0) {
      plan.period_seconds = case_.callers * case_.batch / case_.per_second;
      plan.phase = static_cast<double>(number) / case_.callers;
    }
    if (case_.starts) {
      plan.last_node = "n" + std::to_string(case_.nodes - 1);
      plan.id_prefix = IdPrefix("next", number);
      plan.params = ParamsOf(case_);
    } else if (case_.lifecycle) {
      plan.starter = starters_[static_cast<std::size_t>(number % options_.client_threads)];
    }
    return plan;
  }

  std::unique_ptr<Caller> MakeCaller(Loop* loop, const ChannelPtr& channel, int number) {
    const Worker::Plan plan = PlanOf(number);
    switch (case_.kind) {
      case Case::Kind::kUnary: return std::make_unique<UnaryWorker>(loop, channel, plan);
      case Case::Kind::kReport: return std::make_unique<ReportWorker>(loop, channel, plan);
      case Case::Kind::kWork: return std::make_unique<StreamWorker>(loop, channel, plan);
      case Case::Kind::kRelay: return std::make_unique<Relay>(loop, channel, plan, &baton_);
      case Case::Kind::kStart: break;
    }
    return std::make_unique<Starter>(loop, channel,
                                     Starter::Plan{.machine = "bench",
                                                   .id_prefix = IdPrefix("start", number),
                                                   .batch = case_.batch,
                                                   .params = ParamsOf(case_),
                                                   .steps = case_.batch == 1 ? case_.steps : 0});
  }

  void SetRecording(bool recording) {
    for (const auto& loop : loops_) loop->SetRecording(recording);
  }

  void End() {
    if (!std::exchange(started_, false)) return;
    for (const auto& loop : loops_) loop->Stop();
    server_.Await(loops_, 30);
    for (const auto& loop : loops_) {
      const Tally tally = loop->Join();
      total_.transitions += tally.transitions;
      total_.finished += tally.finished;
      total_.started += tally.started;
      total_.empty += tally.empty;
      total_.fed += tally.fed;
      if (total_.errors == 0) total_.first_error = tally.first_error;
      total_.errors += tally.errors;
      total_.latencies.Add(tally.latencies);
      total_.gaps.Add(tally.gaps);
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
    figures["rate"] = items / seconds;
    figures["transitions_per_s"] = static_cast<double>(total_.transitions) / seconds;
    figures["instances_per_s"] =
        static_cast<double>(starting ? total_.started : total_.finished) / seconds;
    figures["empty_replies_per_s"] = static_cast<double>(total_.empty) / seconds;
    figures["feed_messages_per_s"] = static_cast<double>(total_.fed) / seconds;
    figures["p50_ms"] = total_.latencies.Percentile(0.5) / 1e3;
    figures["p99_ms"] = total_.latencies.Percentile(0.99) / 1e3;
    figures["p999_ms"] = total_.latencies.Percentile(0.999) / 1e3;
    figures["max_ms"] = total_.latencies.Percentile(1) / 1e3;
    if (case_.kind == Case::Kind::kRelay) {
      figures["after_reply_p50_ms"] = total_.gaps.Percentile(0.5) / 1e3;
      figures["after_reply_p99_ms"] = total_.gaps.Percentile(0.99) / 1e3;
    }
    AddCosts(before, after, items, &figures);
    AddCounters(before, after, items, &figures);
    return figures;
  }

  static void AddCosts(const Snapshot& before, const Snapshot& after, double items,
                       Figures* figures) {
    const double seconds = std::chrono::duration<double>(after.time - before.time).count();
    const double server_us = after.server.cpu_us - before.server.cpu_us;
    const double client_us = after.client_cpu_us - before.client_cpu_us;
    const double machine_us = after.machine_cpu_us - before.machine_cpu_us;
    (*figures)["cpu_us"] = server_us / items;
    (*figures)["client_cpu_us"] = client_us / items;
    (*figures)["other_cpus"] = (machine_us - server_us - client_us) / (seconds * 1e6);
    (*figures)["background_us"] =
        (after.server.background_us - before.server.background_us) / items;
    (*figures)["disk_bytes"] = (after.server.write_bytes - before.server.write_bytes) / items;
    (*figures)["rss_mib"] = after.server.rss_bytes / (1 << 20);
    if (before.flushes && after.flushes) {
      (*figures)["disk_flushes"] = (*after.flushes - *before.flushes) / items;
    }
  }

  // The stages that the server does not time itself are gRPC's threads: wire.
  static void AddCounters(const Snapshot& before, const Snapshot& after, double items,
                          Figures* figures) {
    for (const auto& [name, value] : after.counters) {
      (*figures)[name] = (value - At(before.counters, name)) / items;
    }
    Figures& all = *figures;
    all["long_turns"] *= items;  // a number of turns, not a cost of items
    all["wire_us"] = std::max(0.0, all["cpu_us"] - all["decide_us"] - all["encode_us"] -
                                       all["commit_us"] - all["reply_us"] - all["background_us"]);
    if (all["commits"] > 0) {
      all["items_per_commit"] = 1 / all["commits"];
      all["commit_ms"] = all["write_us"] / all["commits"] / 1e3;
    }
    all["fsync_wait_us"] = std::max(0.0, all["write_us"] - all["commit_us"]);
    all["rows"] = all["puts"] + all["deletes"];
  }

  const Options& options_;
  const Case& case_;
  Server& server_;
  const int round_;
  bool started_ = false;
  Relay::Baton baton_;
  std::vector<ChannelPtr> channels_;
  std::vector<std::unique_ptr<Loop>> loops_;  // the first is the bystanders'
  std::vector<Starter*> starters_;            // owned by their loops
  Tally total_;
};

}  // namespace dfsmr::bench
