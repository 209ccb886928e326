#include "fsm/yaml/trigger.h"

#include <algorithm>
#include <array>
#include <set>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/yaml/condition.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/item_source.h"
#include "fsm/yaml/launch.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 11> kTriggerKeys = {"trigger", "description",  "on",    "if",
                                                    "dedupe",  "gather",       "start", "send",
                                                    "overlap", "stop_on_fail", "paused"};
constexpr std::string_view kTriggerHas =
    "a trigger has trigger, description, on, if, dedupe, gather, start or send, overlap, "
    "stop_on_fail and paused";
constexpr std::array<std::string_view, 2> kDedupeKeys = {"key", "for"};
constexpr std::array<std::string_view, 5> kGatherKeys = {"by", "all", "count", "quiet", "within"};
constexpr Duration kDedupeMax = std::chrono::hours(24 * 30);

using Problem = std::optional<std::string>;

// What is wrong with a reference. `launch`: it stands in what is started or sent, so that it is
// known by then which occurrence this is.
Problem Refusal(const TriggerSource& source, const Reference& reference, bool launch) {
  const std::string& root = reference.parts.front().key;
  const std::string& second = reference.parts.size() > 1 ? reference.parts[1].key : "";
  if (root == "item") return std::nullopt;
  if (root == "trigger") {
    static constexpr std::array<std::string_view, 5> kMembers = {"name", "time", "on", "number",
                                                                 "key"};
    const auto members = std::span(kMembers).first(launch ? 5 : 3);
    if (reference.parts.size() == 2 && std::ranges::find(members, second) != members.end()) {
      return std::nullopt;
    }
    return std::string("of a trigger there ") +
           (launch ? "are trigger.name, number, time, key and on"
                   : "are trigger.name, time and on here: which number it gets is not known yet") +
           Hint(second, members);
  }
  if (root != "items" && root != "last") {
    static constexpr std::array<std::string_view, 4> kItemRoots = {"item", "trigger", "items",
                                                                   "last"};
    return "there is no " + Quoted(root) +
           "; a trigger knows item and trigger, and with gather items and last" +
           Hint(root, kItemRoots);
  }
  if (!source.gather || !launch) {
    return std::string("there ") + (root == "items" ? "are items" : "is a last item of a source") +
           (source.gather ? " only in what is started or sent" : " only with 'gather'");
  }
  if (root == "items") return std::nullopt;
  std::vector<std::string_view> names;
  for (const ItemSource& one : source.on) {
    if (!one.name.empty()) names.push_back(one.name);
  }
  if (std::ranges::find(names, second) != names.end() && !second.empty()) return std::nullopt;
  return names.empty() ? "the only source has no name; its last item is ${item}"
                       : "expected the name of a source behind 'last.'" + Hint(second, names);
}

bool ReadKey(const Field& field, std::string_view example, const TriggerSource& source,
             std::string* to) {
  return ReadTextTemplate(field, example, to) &&
         CheckReferences(field, [&source](const Reference& reference) {
           return Refusal(source, reference, /*launch=*/false);
         });
}

void ReadDedupe(const Field& field, TriggerSource* to) {
  constexpr std::string_view kExample = "\"${item.id}\"";
  DedupeSource dedupe;
  if (!field.value.IsMap()) {
    if (ReadKey(field, kExample, *to, &dedupe.key)) to->dedupe = dedupe;
    return;
  }
  const Keys keys(field, kDedupeKeys, "dedupe has key and for");
  if (auto key = keys.Take("key")) {
    ReadKey(*key, kExample, *to, &dedupe.key);
  } else {
    field.Fail(
        "dedupe has no 'key'; add the text by which items are the same: 'key: \"${item.id}\"'");
  }
  auto window = keys.Take("for");
  if (window && ReadDurationAboveZero(*window, &dedupe.window) && dedupe.window > kDedupeMax) {
    window->Fail("expected at most " + FormatDuration(kDedupeMax) + ", not " +
                 Describe(window->value));
  }
  to->dedupe = dedupe;
}

void ReadTimeOf(const std::optional<Field>& field, std::optional<Duration>* to) {
  Duration read{};
  if (field && ReadDurationAboveZero(*field, &read)) *to = read;
}

void ReadGather(const Field& field, TriggerSource* to) {
  constexpr std::string_view kExample = "{count: 100, quiet: 1m}";
  GatherSource gather;
  to->gather = gather;
  if (!field.value.IsMap()) {
    return field.Fail("expected when a gathering is complete, such as " + std::string(kExample) +
                      ", not " + Describe(field.value));
  }
  const Keys keys(field, kGatherKeys, "gather has by, all, count, quiet and within");
  if (auto by = keys.Take("by")) ReadKey(*by, "\"${item.id}\"", *to, &gather.by);
  if (auto all = keys.Take("all"); all && ReadBoolean(*all, &gather.all) && gather.all) {
    if (to->on.size() == 1) {
      all->Fail(
          "'all' waits until each of several sources has come, and this trigger has one; "
          "with one source say 'count', 'quiet' or 'within'");
    }
  }
  if (auto count = keys.Take("count")) {
    int64_t number = 0;
    if (ReadInteger(*count, 1, kGatheredItems, &number)) {
      gather.count = static_cast<uint64_t>(number);
    }
  }
  ReadTimeOf(keys.Take("quiet"), &gather.quiet);
  ReadTimeOf(keys.Take("within"), &gather.within);
  if (!gather.all && !keys.Has("count") && !keys.Has("quiet") && !keys.Has("within")) {
    field.Fail(
        "nothing says when a gathering is complete; add one of all, count, quiet and "
        "within, as in " +
        std::string(kExample));
  }
  to->gather = gather;
}

void CheckPaths(const Field& field, const TriggerSource& source) {
  std::set<std::string_view> paths;
  for (const ItemSource& one : source.on) {
    if (!one.webhook() || paths.insert(one.webhook()->path).second) continue;
    field.Fail("two sources have the path " + Quoted(one.webhook()->path) + "; give each its own");
  }
}

}  // namespace

std::span<const std::string_view> TriggerKeys() { return kTriggerKeys; }

std::shared_ptr<const TriggerSource> ReadTrigger(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Field whole(root, "", reporter);
  const Keys keys(whole, kTriggerKeys, kTriggerHas);
  auto source = std::make_shared<TriggerSource>();
  source->written = {root.at, "trigger"};
  if (auto on = keys.Take("on")) {
    if (ReadItemSources(*on, &source->on)) CheckPaths(*on, *source);
  } else {
    reporter->Error(root.at, "on",
                    "the trigger has no 'on'; add what it listens to: 'on: {change: {kind: "
                    "finished}}'");
  }
  if (auto dedupe = keys.Take("dedupe")) ReadDedupe(*dedupe, source.get());
  if (auto gather = keys.Take("gather")) ReadGather(*gather, source.get());
  const auto problem = [&source](bool launch) {
    return [&source, launch](const Reference& reference) {
      return Refusal(*source, reference, launch);
    };
  };
  if (auto condition = keys.Take("if")) {
    Condition read;
    const ConditionRules rules = {.refuse = problem(false),
                                  .example = "{value: \"${item.size}\", greater: 10}"};
    if (ReadIf(*condition, rules, &read)) {
      source->condition = [read = std::move(read)](const LookUp& value) {
        return Holds(read, {.value = value});
      };
    }
  }
  ReadLaunch(keys, whole, problem(true), &source->launch);
  return reporter->errors() == errors ? source : nullptr;
}

}  // namespace dfsmr
