#include "fsm/yaml/plan.h"

#include <algorithm>
#include <array>

#include "fsm/yaml/action.h"
#include "fsm/yaml/flow.h"
#include "fsm/yaml/schema.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 15> kPlanKeys = {
    "plan",      "description", "params",    "label",       "upgrade_strategy",
    "retention", "limit",       "singleton", "on_conflict", "hooks",
    "use",       "replace",     "without",   "flow",        "wait_after_fail"};
constexpr std::string_view kPlanHas =
    "a plan has plan, description, params, label, upgrade_strategy, retention, limit, singleton, "
    "on_conflict, wait_after_fail, hooks, use, replace, without and flow";
constexpr std::array<std::string_view, 3> kHookKeys = {"on", "action", "input"};
constexpr std::array<std::string_view, 9> kMoments = {
    "scheduled", "planning", "running", "paused", "stopped",
    "success",   "warning",  "failure", "cancelled"};
constexpr std::string_view kHookExample = "{on: [paused, failure], action: mail.send}";

void ReadPlanOn(const Field& field, std::vector<std::string>* to) {
  std::vector<size_t> choices(1);
  const bool sound = field.value.IsScalar() && !field.value.IsEmpty()
                         ? ReadWord(field, kMoments, &choices[0])
                         : ReadWords(field, kMoments, "[paused, failure]", &choices);
  if (!sound) return;
  for (size_t choice : choices) to->emplace_back(kMoments[choice]);
}

void ReadHook(const Field& field, HookSource* to) {
  to->written = WrittenAt(field);
  if (!field.value.IsMap()) {
    return field.Fail("expected a hook such as " + std::string(kHookExample) + ", not " +
                      Describe(field.value));
  }
  Keys keys(field, kHookKeys, "a hook has on, action and input");
  for (std::string_view key : {"on", "action"}) {
    if (keys.Has(key)) continue;
    field.Fail("the hook has no '" + std::string(key) + "'; write it as " +
               std::string(kHookExample));
  }
  if (auto key = keys.Take("on")) ReadPlanOn(*key, &to->on);
  if (auto key = keys.Take("action")) ReadName(*key, "action", &to->action);
  if (auto key = keys.Take("input")) ReadMapTemplate(*key, &to->input);
}

void ReadHooks(const Field& field, std::vector<HookSource>* to) {
  if (!field.value.IsList()) {
    return field.Fail("expected a list of hooks such as " + std::string(kHookExample) + ", not " +
                      Describe(field.value));
  }
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    ReadHook(field.Item(i), &to->emplace_back());
  }
}

// Reads all keys of a plan except `plan` and `flow`.
void ReadAround(const Keys& keys, PlanSource* to) {
  if (auto field = keys.Take("description")) ReadText(*field, &to->description);
  if (auto field = keys.Take("params")) ReadSchema(*field, "params", &to->params);
  if (auto field = keys.Take("label")) {
    ReadTextTemplate(*field, "\"machine ${params.name}\"", &to->label);
  }
  if (auto field = keys.Take("upgrade_strategy")) {
    ReadUpgradeStrategy(*field, &to->upgrade_strategy);
  }
  Duration retention{};
  if (auto field = keys.Take("retention"); field && ReadDuration(*field, &retention)) {
    to->retention = retention;
  }
  std::optional<OnConflict> on_conflict;
  to->limits = ReadLimits(keys, /*inherits=*/false, LimitAsker::kInstance, &on_conflict)
                   .value_or(LimitAsks());
  Duration wait{};
  if (auto field = keys.Take("wait_after_fail"); field && ReadDuration(*field, &wait)) {
    to->wait_after_fail = wait;
  }
  if (auto field = keys.Take("hooks")) ReadHooks(*field, &to->hooks);
  ReadMiddleware(keys, &to->middleware);
}

std::optional<PlanSource> ReadKeys(const YamlNode& root, bool given, Reporter* reporter) {
  const size_t errors = reporter->errors();
  PlanSource plan;
  plan.written.at = root.at;
  Keys keys(Field(root, "", reporter), kPlanKeys, kPlanHas);
  if (auto field = keys.Take("plan")) {
    plan.written = WrittenAt(*field);
    ReadName(*field, "plan", &plan.id);
  } else if (!given) {
    reporter->Error(root.at, "plan", "the document has no 'plan'; add 'plan: NAME'");
  }
  ReadAround(keys, &plan);
  if (auto field = keys.Take("flow")) {
    plan.flow = ReadFlow(*field, given);
  } else {
    reporter->Error(root.at, "flow", "the plan has no 'flow'; add one, such as [{step: NAME, "
                                     "action: NAME}]");
  }
  if (reporter->errors() > errors) return std::nullopt;
  return plan;
}

bool HasKeyOfPlan(const YamlNode& map) {
  return std::ranges::any_of(map.entries, [](const YamlEntry& entry) {
    return std::ranges::find(kPlanKeys, entry.key) != kPlanKeys.end();
  });
}

}  // namespace

std::span<const std::string_view> PlanKeys() { return kPlanKeys; }

std::optional<PlanSource> ReadPlan(const YamlNode& root, Reporter* reporter) {
  return ReadKeys(root, /*given=*/false, reporter);
}

std::optional<PlanSource> ReadGivenFlow(const YamlNode& root, Reporter* reporter) {
  if (root.Find("flow") || (root.IsMap() && !IsFlow(root) && HasKeyOfPlan(root))) {
    return ReadKeys(root, /*given=*/true, reporter);
  }
  const size_t errors = reporter->errors();
  PlanSource plan;
  plan.flow = ReadFlow(Field(root, "flow", reporter), /*planner=*/true);
  plan.written = plan.flow.written;
  if (reporter->errors() > errors) return std::nullopt;
  return plan;
}

}  // namespace dfsmr
