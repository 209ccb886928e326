// A case from its begin to its end: two servers, turn about.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "tests/bench/cases.h"
#include "tests/bench/figures.h"
#include "tests/bench/options.h"
#include "tests/bench/server.h"
#include "tests/bench/sync_probe.h"
#include "tests/bench/turn.h"

namespace dfsmr::bench {

inline Case CaseNamed(const Options& options, const std::string& name) {
  const std::vector<Case> all = AllCases();
  const auto found = std::ranges::find(all, name, &Case::name);
  if (found == all.end()) throw std::runtime_error("no case " + name);
  return options.tiny ? Tiny(*found) : *found;
}

inline Options LongEnough(Options options, const Case& c) {
  options.seconds = std::max(options.seconds, c.least_seconds);
  return options;
}

class Measurement {
 public:
  Measurement(const Options& options, const Case& c)
      : options_(options), case_(c), server_(options, c, false) {
    if (case_.against_floor()) {
      other_.emplace(options, c, true);
    } else if (case_.against != kFsync) {
      other_.emplace(options, CaseNamed(options, case_.against), false);
    }
  }

  Outcome Run() {
    Outcome outcome{.load = case_};
    for (int round = 0; round < options_.rounds; ++round) {
      server_.Stock(round);
      if (other_) other_->Stock(round);
      server_.Settle();
      if (other_) other_->Settle();
      outcome.rounds.push_back(Turn(options_, &server_, round).Run());
      server_.Settle();
      outcome.others.push_back(OthersTurn(round));
    }
    outcome.subject = Medians(outcome.rounds);
    outcome.other = Medians(outcome.others);
    if (case_.resident > 0) WeighResidents(&outcome);
    if (case_.watchers > 0) WeighWatchers(&outcome);
    return outcome;
  }

 private:
  Figures OthersTurn(int round) {
    if (other_) {
      Figures figures = Turn(options_, &*other_, round).Run();
      other_->Settle();
      return figures;
    }
    constexpr std::size_t kRecordBytes = 600;
    const Histogram times = ProbeSync(server_.path(), kRecordBytes, options_.seconds / 2);
    return {{"p50_ms", times.Percentile(0.5) / 1e3},
            {"p99_ms", times.Percentile(0.99) / 1e3},
            {"p999_ms", times.Percentile(0.999) / 1e3},
            {"max_ms", times.Percentile(1) / 1e3}};
  }

  // After a restart memory holds what it must and little that just happens to be there.
  void WeighResidents(Outcome* outcome) {
    for (const auto& [server, figures] :
         {std::pair{&server_, &outcome->subject}, std::pair{&*other_, &outcome->other}}) {
      (*figures)["restart_s"] = server->Restart();
      (*figures)["restart_rss_mib"] = server->usage().rss_bytes / (1 << 20);
    }
    const double more_mib =
        At(outcome->subject, "restart_rss_mib") - At(outcome->other, "restart_rss_mib");
    outcome->subject["bytes_each"] =
        more_mib * (1 << 20) / static_cast<double>(case_.resident);
  }

  // A change that were serialised for each watcher would show here.
  void WeighWatchers(Outcome* outcome) const {
    const double more_us = At(outcome->subject, "cpu_us") - At(outcome->other, "cpu_us");
    outcome->subject["us_per_change_and_watcher"] =
        more_us / At(outcome->subject, "records") / case_.watchers;
  }

  const Options& options_;
  const Case case_;
  Server server_;
  std::optional<Server> other_;
};

}  // namespace dfsmr::bench
