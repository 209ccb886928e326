#include "fsm/yaml/runs_on.h"

#include <algorithm>
#include <array>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kRunsOnKeys = {"capability", "agent"};
constexpr std::string_view kRunsOnExample = "{capability: [gpu, arm64], agent: \"${params.host}\"}";
constexpr std::string_view kAgentExample = "\"${params.host}\"";

bool ReadCapabilities(const Field& field, std::vector<std::string>* out) {
  if (field.value.IsList() && field.value.items.size() > limits::kCapabilities) {
    field.Fail("expected at most " + std::to_string(limits::kCapabilities) + " capabilities, not " +
               std::to_string(field.value.items.size()));
    return false;
  }
  std::vector<std::string> words;
  if (!ReadNames(field, "capability", &words)) return false;
  out->clear();
  for (std::string& word : words) {
    if (std::ranges::find(*out, word) == out->end()) out->push_back(std::move(word));
  }
  return true;
}

bool ReadAgent(const Field& field, std::string* out) {
  std::string agent;
  if (!ReadTextTemplate(field, kAgentExample, &agent)) return false;
  if (!Refers(agent) && !ValidWorkerName(agent)) {
    field.Fail("agent " + Quoted(agent) + " is no worker's name: 1 to " +
               std::to_string(limits::kWorkerName) + " printable characters");
    return false;
  }
  *out = std::move(agent);
  return true;
}

}  // namespace

bool ReadRunsOn(const Field& field, RunsOn* out) {
  if (!field.value.IsMap() || field.value.entries.empty()) {
    field.Fail("expected " + std::string(kRunsOnExample) + ", not " +
               (field.value.IsMap() ? "an empty map" : Describe(field.value)));
    return false;
  }
  Keys keys(field, kRunsOnKeys, "a runs_on has capability and agent");
  RunsOn runs_on;
  bool sound = true;
  if (auto key = keys.Take("capability")) sound = ReadCapabilities(*key, &runs_on.capabilities);
  if (auto key = keys.Take("agent")) sound = ReadAgent(*key, &runs_on.agent) && sound;
  if (!sound) return false;
  *out = std::move(runs_on);
  return true;
}

}  // namespace dfsmr
