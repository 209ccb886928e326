// What was measured, by name, and the medians and ratios of it.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/case.h"

namespace dfsmr::bench {

using Figures = std::map<std::string, double>;

// 0 when there is none.
inline double At(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

inline Figures Medians(const std::vector<Figures>& rounds) {
  std::map<std::string, std::vector<double>> columns;
  for (const Figures& figures : rounds) {
    for (const auto& [name, value] : figures) columns[name].push_back(value);
  }
  Figures medians;
  for (auto& [name, values] : columns) medians[name] = Median(std::move(values));
  return medians;
}

struct Ratio {
  double median = 0;
  double least = 0;
  double most = 0;
};

struct Outcome {
  Case load;
  std::vector<Figures> rounds;  // dsrv's
  std::vector<Figures> others;  // what it was run in turns with, in each of the rounds
  Figures subject;              // medians, and what was measured once
  Figures other;

  // Of neighbouring turns; zeros where there is no such figure.
  Ratio RatioOf(const std::string& name) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const double below = At(others[i], name);
      if (below > 0) ratios.push_back(At(rounds[i], name) / below);
    }
    if (ratios.empty()) return {};
    const auto [least, most] = std::ranges::minmax(ratios);
    return {Median(ratios), least, most};
  }

  bool Reached(const Goal& goal) const {
    const double ratio = RatioOf(goal.figure).median;
    return ratio >= goal.at_least && (goal.at_most == 0 || ratio <= goal.at_most);
  }
  bool ReachedAll() const {
    return std::ranges::all_of(load.goals, [this](const Goal& goal) { return Reached(goal); });
  }
};

}  // namespace dfsmr::bench
