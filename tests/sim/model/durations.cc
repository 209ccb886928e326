#include "tests/sim/model/durations.h"

#include <algorithm>
#include <cmath>

#include "tests/sim/model/feed.h"

namespace dfsmr::model {
namespace {

constexpr size_t kEnough = 20;
constexpr size_t kPerAttemptUnderWay = 4;

using Samples = std::vector<Event::Sample>;

// Numbers are kept with three digits, and an engine's clock runs a little ahead.
Duration Least(double us) { return Duration(static_cast<int64_t>(us * 0.99) - 100); }
Duration Most(double us) { return Duration(static_cast<int64_t>(us * 1.01) + 100); }

// A late report's duration stands in place of what it was told to have outlasted.
Samples Counted(const Samples& told, bool retry) {
  Samples samples;
  for (const Event::Sample& one : told) {
    if (one.retry != retry) continue;
    const auto outlasted = [&](const auto& o) { return o.censored && o.took == one.replaces; };
    const auto at = std::find_if(samples.rbegin(), samples.rend(), outlasted);
    if (one.replaces == Duration()) {
      samples.push_back(one);
    } else if (at != samples.rend()) {
      *at = one;
    }
  }
  std::ranges::sort(samples, [](const auto& a, const auto& b) {
    return std::pair(a.took, a.censored) < std::pair(b.took, b.censored);
  });
  return samples;
}

// Where the survival function falls to what lies beyond the percentile, by one sample more or less.
Durations::Range QuantileOf(const Samples& samples, double percent) {
  const auto count = static_cast<double>(samples.size());
  const double beyond = 1 - percent / 100;
  const double few = std::clamp(beyond * count / 4, 1.0, 10.0);  // too few to go on with
  const double longest = std::max(0.0, static_cast<double>(samples.back().took.count()));
  double survival = 1, left = count;
  std::optional<double> from, to;
  for (const Event::Sample& one : samples) {
    const auto took = std::max(0.0, static_cast<double>(one.took.count()));
    if (!one.censored) survival *= 1 - 1 / left;
    left -= 1;
    if (!from && (survival <= beyond + 1.01 / count || left < few + 1)) from = took;
    if (!to && survival <= beyond - 2.01 / count && left > few) to = took;
  }
  // None lasted that long for sure: as long as the longest, and up to twice as long.
  return {Least(from.value_or(longest)), Most(to.value_or(2 * longest))};
}

Durations::Range Both(const Durations::Range& a, const Durations::Range& b) {
  return {std::min(a.from, b.from), std::max(a.to, b.to)};
}

}  // namespace

void Durations::Learn(const std::vector<Event>& turn) {
  for (auto& [key, attempts] : attempts_) attempts.before = attempts.told.size();
  for (const Event& event : turn) {
    if (IsDry(event)) continue;  // nobody learns from those
    for (const Event::Sample& one : event.samples) {
      attempts_[{event.machine, one.node}].told.push_back(one);
    }
  }
}

void Durations::Perhaps(const std::string& machine, const Event::Sample& late) {
  attempts_[{machine, late.node}].perhaps.push_back(late);
}

// What is shown may be of a moment within the turn, or as old as a 32nd of the samples; and of what
// may count, a crash may have taken the first or the last, and left one of those that it took. When
// much may count, so may anything be.
template <typename Of>
std::optional<Durations::Range> Durations::Any(const std::string& machine, const std::string& node,
                                               const Of& of) const {
  std::optional<Range> any;
  const auto found = attempts_.find({machine, node});
  if (found == attempts_.end()) return any;
  const Attempts& attempts = found->second;
  const size_t all = attempts.told.size();
  const size_t least = attempts.before - std::min(attempts.before, all / 32);
  const size_t late = attempts.perhaps.size();
  if (late > 4) return Range{{}, Duration::max()};
  const size_t cuts = 2 * late + 1;  // the first ones, then the last ones
  for (size_t n = 0; n < (all + 1 - least) * cuts * (late + 1); ++n) {
    const size_t k = least + n / cuts / (late + 1), cut = n % cuts, left = n / cuts % (late + 1);
    Samples told(attempts.told.begin(), attempts.told.begin() + static_cast<long>(k));
    for (size_t i = 0; i < late; ++i) {
      const bool counts = cut <= late ? i < cut : i >= cut - late;
      if (counts || i == left) told.push_back(attempts.perhaps[i]);
    }
    const std::optional<Range> one = of(Counted(told, false), Counted(told, true));
    if (one) any = any ? Both(*any, *one) : *one;
  }
  return any;
}

std::optional<Durations::Range> Durations::Quantile(const std::string& machine,
                                                    const std::string& node,
                                                    double percent) const {
  return Any(machine, node, [&](const Samples& first, const Samples&) -> std::optional<Range> {
    if (first.empty()) return std::nullopt;
    return QuantileOf(first, percent);
  });
}

// Until a node has 20 samples, and 4 for each attempt under way, it is the initial one. Of retries
// the pages say nothing else: they may be given more time, as retries take.
Durations::Range Durations::Timeout(const std::string& machine, const std::string& node,
                                    const TimeoutPolicy& policy, bool retry,
                                    std::pair<size_t, size_t> under_way) const {
  if (policy.strategy == TimeoutPolicy::Strategy::kFixed) {
    const Duration fixed(static_cast<int64_t>(policy.value * 1e6));
    return {fixed, fixed};
  }
  const Range initial{policy.initial, policy.initial};
  const size_t few = std::max(kEnough, kPerAttemptUnderWay * under_way.second);
  const size_t enough = std::max(kEnough, kPerAttemptUnderWay * under_way.first);
  const auto of = [&](const Samples& first, const Samples& retries) -> std::optional<Range> {
    Range range = initial;
    if (first.size() >= enough) range = QuantileOf(first, policy.value);
    if (first.size() >= enough && first.size() < few) range = Both(initial, range);
    if (retry && retries.size() >= kEnough) {
      range.to = std::max(range.to, QuantileOf(retries, policy.value).to);
    }
    return range;
  };
  const Range range = Any(machine, node, of).value_or(initial);
  return {std::clamp(range.from, policy.min, policy.max),
          std::clamp(range.to, policy.min, policy.max)};
}

}  // namespace dfsmr::model
