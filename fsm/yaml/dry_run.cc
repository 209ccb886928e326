#include "fsm/yaml/dry_run.h"

#include <algorithm>
#include <array>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kDryRunKeys = {"transition", "output"};
constexpr std::array<std::string_view, 4> kOfAction = {"ok", "error", "suspend", "planned"};

bool ReadOutput(const Field& field, std::string* out) {
  if (!field.value.IsMap()) {
    field.Fail("expected the output as a map, such as {id: vm-1}, not " + Describe(field.value));
    return false;
  }
  std::string json = JsonText(field.value);
  if (json.size() > limits::kJson) {
    field.Fail("the output has " + std::to_string(json.size()) + " bytes; the limit is " +
               std::to_string(limits::kJson));
    return false;
  }
  *out = std::move(json);
  return true;
}

}  // namespace

bool ReadDryRun(const Field& field, DryRunRule* out) {
  if (field.value.IsScalar() && field.value.text == "worker") {
    *out = {.worker = true, .transition = {}, .output = {}};
    return true;
  }
  if (!field.value.IsMap() || field.value.entries.empty()) {
    field.Fail(
        "expected worker, when workers do it in a dry run, too, or what the server reports "
        "in their place, such as {transition: ok, output: {id: vm-1}}; not " +
        (field.value.IsMap() ? std::string("an empty map") : Describe(field.value)));
    return false;
  }
  Keys keys(field, kDryRunKeys, "a dry_run has transition and output");
  DryRunRule rule;
  bool sound = true;
  if (auto key = keys.Take("transition")) sound = ReadName(*key, "transition", &rule.transition);
  if (auto key = keys.Take("output")) sound = ReadOutput(*key, &rule.output) && sound;
  if (!sound) return false;
  *out = std::move(rule);
  return true;
}

bool ReadDryRunOfAction(const Field& field, DryRunRule* out) {
  DryRunRule rule;
  if (!ReadDryRun(field, &rule)) return false;
  const bool known =
      rule.transition.empty() || std::ranges::find(kOfAction, rule.transition) != kOfAction.end();
  if (!known) {
    field.Fail("an action has no transition " + Quoted(rule.transition) +
               " to report in a dry run; it has ok, error, suspend and, when a worker plans it, "
               "planned");
    return false;
  }
  *out = std::move(rule);
  return true;
}

}  // namespace dfsmr
