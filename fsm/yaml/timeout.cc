#include "fsm/yaml/timeout.h"

#include <array>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kStrategies = {"percentile", "fixed"};

bool Strategy(const Field& field, TimeoutKeys* keys) {
  size_t choice = 0;
  if (!ReadWord(field, kStrategies, &choice)) return false;
  keys->strategy = static_cast<TimeoutPolicy::Strategy>(choice);
  return true;
}

bool Timeout(const Field& field, TimeoutKeys* keys) {
  double value = 0;
  if (field.value.IsScalar() && ParseDuration(field.value.text)) {
    field.Fail(Quoted(field.value.text) + " has a unit; 'timeout' is a bare number, percent or "
               "(with 'timeout_strategy: fixed') seconds");
    return false;
  }
  if (!ReadNumber(field, "a bare number (percent, or seconds with 'timeout_strategy: fixed')",
                  &value)) {
    return false;
  }
  if (value < 0) {
    field.Fail("timeout " + Quoted(field.value.text) + " is negative");
    return false;
  }
  keys->timeout = value;
  return true;
}

bool Limit(const Field& field, std::optional<Duration>* to) {
  Duration value{};
  if (!ReadDuration(field, &value)) return false;
  if (value == Duration::zero()) {
    field.Fail("expected a duration above zero; 'timeout: 0.0' is what never times out");
    return false;
  }
  *to = value;
  return true;
}
bool Initial(const Field& field, TimeoutKeys* keys) { return Limit(field, &keys->initial); }
bool Min(const Field& field, TimeoutKeys* keys) { return Limit(field, &keys->min); }
bool Max(const Field& field, TimeoutKeys* keys) { return Limit(field, &keys->max); }

struct TimeoutKey {
  std::string_view name;
  bool (*read)(const Field&, TimeoutKeys*);
};
constexpr std::array<TimeoutKey, 5> kTimeoutParts = {{
    {"timeout_strategy", Strategy},
    {"timeout", Timeout},
    {"timeout_initial", Initial},
    {"timeout_min", Min},
    {"timeout_max", Max},
}};

}  // namespace

bool TimeoutReading::Read(std::string_view key, const Field& field) {
  for (const TimeoutKey& known : kTimeoutParts) {
    if (known.name != key) continue;
    if (key == "timeout") timeout_given = true;
    if (known.read(field, &keys)) places[known.name] = {field.At(), field.path};
    return true;
  }
  return false;
}

TimeoutPolicy TimeoutReading::Judge(bool partial, Reporter* reporter) const {
  std::vector<TimeoutProblem> problems;
  TimeoutPolicy policy = PolicyOf(keys, &problems);
  for (TimeoutProblem& problem : problems) {
    if (problem.key == "timeout_strategy" && (timeout_given || partial)) continue;
    if (problem.key == "timeout" && !keys.strategy && partial) continue;
    const Place& place = places.at(problem.key);
    reporter->Error(place.at, place.path, std::move(problem.message));
  }
  return policy;
}

}  // namespace dfsmr
