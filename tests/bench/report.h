// What bench says: a JSON line for programs, and a table for people.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/figures.h"
#include "tests/bench/options.h"

namespace dfsmr::bench {

// The stages of a transition, as figures of CPU time, and what they are called.
struct Stage {
  const char* figure;
  const char* name;
};
inline constexpr Stage kStages[] = {
    {"wire_us", "wire"},     {"decide_us", "decide"}, {"encode_us", "encode"},
    {"commit_us", "commit"}, {"reply_us", "reply"},   {"background_us", "compaction"},
};

inline std::string OtherName(const Case& c) { return c.against_floor() ? "floor" : c.against; }

inline nlohmann::ordered_json ToJson(const Options& options, const Outcome& outcome) {
  const Case& c = outcome.load;
  nlohmann::ordered_json json;
  json["case"] = c.name;
  json["against"] = OtherName(c);
  json["callers"] = c.callers;
  json["batch"] = c.batch;
  if (c.per_second > 0) json["per_second_due"] = c.per_second;
  json["seconds"] = options.seconds;
  json["rounds"] = options.rounds;
  json["dsrv"] = outcome.subject;
  json["other"] = outcome.other;
  for (const auto& [name, value] : outcome.other) {
    const Ratio ratio = outcome.RatioOf(name);
    if (ratio.most > 0) {
      json["ratio"][name] = {{"median", ratio.median}, {"min", ratio.least}, {"max", ratio.most}};
    }
  }
  for (const Goal& goal : c.goals) {
    nlohmann::ordered_json told = {{"figure", goal.figure}, {"at_least", goal.at_least}};
    if (goal.at_most > 0) told["at_most"] = goal.at_most;
    told["reached"] = outcome.Reached(goal);
    json["goals"].push_back(told);
  }
  return json;
}

class Table {
 public:
  static void PrintHeader() {
    std::fprintf(stderr, "dsrv/what it is compared with; per transition where no unit says else\n");
    std::fprintf(stderr, kRow, "case", "against", "rate/s", "ratio [min..max]", "goal", "p50 ms",
                 "p99 ms", "p99.9 ms", "CPU us", "ratio", "rows", "disk bytes", "per commit",
                 "flushes", "RSS MiB", "busy");
  }

  static void PrintRow(const Outcome& outcome) {
    const auto pair = [&outcome](const std::string& name, int digits) {
      char text[64];
      std::snprintf(text, sizeof(text), "%.*f/%.*f", digits, At(outcome.subject, name), digits,
                    At(outcome.other, name));
      return std::string(text);
    };
    const Ratio rate = outcome.RatioOf("rate");
    const Case& c = outcome.load;
    const char* goal = c.goals.empty() ? "-" : outcome.ReachedAll() ? "met" : "MISSED";
    std::fprintf(stderr, kRow, c.name.c_str(), OtherName(c).c_str(), pair("rate", 0).c_str(),
                 rate.most == 0 ? "-" : Span(rate).c_str(), goal,
                 pair("p50_ms", 2).c_str(), pair("p99_ms", 1).c_str(), pair("p999_ms", 1).c_str(),
                 pair("cpu_us", 1).c_str(), Text("%.2f", outcome.RatioOf("cpu_us").median).c_str(),
                 pair("rows", 1).c_str(), pair("disk_bytes", 0).c_str(),
                 pair("items_per_commit", 1).c_str(), pair("disk_flushes", 3).c_str(),
                 pair("rss_mib", 0).c_str(), pair("other_cpus", 2).c_str());
    PrintNotes(outcome);
  }

  // Where the server's CPU time goes, stage by stage.
  static void PrintStages(const std::vector<Outcome>& outcomes) {
    std::fprintf(stderr, "\n%-24s %8s", "server CPU us", "in all");
    for (const Stage& stage : kStages) std::fprintf(stderr, " %10s", stage.name);
    std::fprintf(stderr, " %12s %10s\n", "(fsync wait)", "commit ms");
    for (const Outcome& outcome : outcomes) {
      PrintStages(outcome.load.name, outcome.subject);
      if (outcome.load.against_floor()) PrintStages(outcome.load.name + " floor", outcome.other);
    }
  }

 private:
  static constexpr char kRow[] =
      "%-13s %-12s %15s %18s %6s %11s %11s %12s %13s %5s %9s %12s %13s %12s %10s %10s\n";

  static std::string Span(const Ratio& ratio) {
    return Text("%.2f [%.2f..%.2f]", ratio.median, ratio.least, ratio.most);
  }

  template <typename... Values>
  static std::string Text(const char* format, Values... values) {
    char text[128];
    std::snprintf(text, sizeof(text), format, values...);
    return text;
  }

  static void PrintNotes(const Outcome& outcome) {
    const Figures& subject = outcome.subject;
    const Case& c = outcome.load;
    if (c.kind == Case::Kind::kRelay) {
      std::fprintf(stderr,
                   "  from a report to the next task in a waiter's hands %.2f ms, %.2f times one "
                   "fsync, its commit %.2f ms; from the report's acknowledgement %.2f ms\n",
                   At(subject, "p50_ms"), outcome.RatioOf("p50_ms").median,
                   At(subject, "commit_ms"), At(subject, "after_reply_p50_ms"));
    }
    if (c.resident > 0) {
      std::fprintf(stderr,
                   "  %.0f bytes of memory for each of %lld residents; first task %.1f s after a "
                   "restart, without them %.1f s\n",
                   At(subject, "bytes_each"), static_cast<long long>(c.resident),
                   At(subject, "restart_s"), At(outcome.other, "restart_s"));
    }
    if (c.watchers > 0) {
      std::fprintf(stderr, "  %.2f us of CPU for each change and watcher\n",
                   At(subject, "us_per_change_and_watcher"));
    }
  }

  static void PrintStages(const std::string& name, const Figures& figures) {
    std::fprintf(stderr, "%-24s %8.1f", name.c_str(), At(figures, "cpu_us"));
    for (const Stage& stage : kStages) std::fprintf(stderr, " %10.1f", At(figures, stage.figure));
    std::fprintf(stderr, " %12.1f %10.2f\n", At(figures, "fsync_wait_us"),
                 At(figures, "commit_ms"));
  }
};

}  // namespace dfsmr::bench
