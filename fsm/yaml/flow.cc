#include "fsm/yaml/flow.h"

#include <algorithm>
#include <array>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/action.h"
#include "fsm/yaml/condition.h"
#include "fsm/yaml/retry.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 6> kForms = {"step",     "sequence", "concurrence",
                                                    "for_each", "section",  "self"};
// What a step runs.
constexpr std::array<std::string_view, 3> kSubjects = {"action", "plan", "spawn"};
constexpr std::array<std::string_view, 3> kForEachKeys = {"for_each", "as", "do"};
constexpr std::array<std::string_view, 6> kSpawnKeys = {"plan", "machine", "for_each",
                                                        "as",   "input",   "concurrency"};
constexpr std::array<std::string_view, 1> kSelf = {"run"};
constexpr std::array<std::string_view, 1> kSectionRescues = {"compensate"};
constexpr std::array<std::string_view, 3> kRoots = {"params", "instance", "trigger"};
constexpr std::array<std::string_view, 8> kStepKeys = {"step",  "action", "plan", "spawn",
                                                       "input", "after",  "when", "if"};
constexpr std::string_view kAllOfStep =
    "a step has step, one of action, plan and spawn, input, after, when and if, and with 'action' "
    "queue, priority, the keys of a timeout, retry, run_timeout, ready_timeout, abandon_after, "
    "poll, rescue, weight, use, replace, without, limit, singleton, on_conflict, runs_on and "
    "dry_run";

constexpr std::string_view kSectionExample =
    "{section: NAME, do: FLOW, retry: {limit: 3, delay: 10s}}";
constexpr std::string_view kForEachExample = "{for_each: \"${params.hosts}\", as: host, do: STEP}";

// The keys of `map` that are in `words`, for messages: "'step' and 'for_each'".
std::string Quote(std::span<const std::string_view> words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + Quoted(words[i]);
  }
  return list;
}

std::vector<std::string_view> Among(const Keys& keys, std::span<const std::string_view> words) {
  std::vector<std::string_view> found;
  std::ranges::copy_if(words, std::back_inserter(found),
                       [&keys](std::string_view word) { return keys.Has(word); });
  return found;
}

std::vector<std::string_view> FormsOf(const YamlNode& map) {
  std::vector<std::string_view> found;
  for (std::string_view form : kForms) {
    if (map.Find(form)) found.push_back(form);
  }
  return found;
}

std::span<const std::string_view> AllStepKeys() {
  static const std::vector<std::string_view> kAll = [] {
    std::vector<std::string_view> keys(kStepKeys.begin(), kStepKeys.end());
    keys.insert(keys.end(), OwnKeys().begin(), OwnKeys().end());
    return keys;
  }();
  return kAll;
}

// The form that a map without a form was probably meant to have; empty: there is no guess.
std::string_view GuessForm(const YamlNode& map) {
  for (const YamlEntry& entry : map.entries) {
    if (std::ranges::find(AllStepKeys(), entry.key) != AllStepKeys().end()) continue;
    Nearest nearest(entry.key);
    for (std::string_view form : kForms) nearest.Try(form);
    if (!nearest.Best().empty()) return nearest.Best();
  }
  const bool is_step = std::ranges::any_of(
      kSubjects, [&map](std::string_view subject) { return map.Find(subject) != nullptr; });
  return is_step ? "step" : "";
}

// Reads the name of the items of a for_each, with which references to an item begin.
void ReadAs(const Field& field, std::string* to) {
  std::string name;
  if (!ReadName(field, "item", &name)) return;
  if (name.find('.') != std::string::npos) {
    return field.Fail("item name " + Quoted(name) + " holds a '.', which ends a name in "
                      "references");
  }
  if (std::ranges::find(kRoots, name) != kRoots.end()) {
    return field.Fail("item name " + Quoted(name) + " has a meaning of its own in references; "
                      "choose another");
  }
  *to = std::move(name);
}

class FlowReader {
 public:
  FlowReader(bool planner, Reporter* reporter) : planner_(planner), reporter_(reporter) {}

  // Recurses as deep as the tree, whose depth is limited.
  FlowNode Read(const Field& field);

 private:
  // Empty: there is none or more than one, which is reported.
  std::string_view FormOf(const Field& field);
  void ReadParts(const Field& field, FlowNode* to);
  void ReadBlock(const Field& field, std::string_view form, FlowNode* to);
  void ReadForEach(const Keys& keys, const Field& field, FlowNode* to);
  void ReadSelf(const Field& field, FlowNode* to);
  void ReadSection(const Field& field, FlowNode* to);
  void ReadStep(const Field& field, FlowNode* to);
  void ReadSubject(const Keys& keys, const Field& field, FlowNode* to);
  void ReadSpawn(const Field& field, SpawnSource* to);
  void ReadSpawnMap(const Field& field, SpawnSource* to);
  void ReadOrder(const Keys& keys, FlowNode* to);

  bool planner_;
  Reporter* reporter_;
  size_t parts_ = 0;
};

std::string_view FlowReader::FormOf(const Field& field) {
  std::vector<std::string_view> forms = FormsOf(field.value);
  if (forms.size() > 1) {
    reporter_->Error(field.key_at, field.path,
                     Quote(forms) + " cannot stand in one map; each is a part of the flow by "
                                    "itself, and one may hold the other");
    return "";
  }
  if (forms.size() == 1) return forms[0];
  std::string_view guess = GuessForm(field.value);
  if (guess.empty()) {
    reporter_->Error(field.key_at, field.path,
                     "this map is no part of a flow: it has none of " + Quote(kForms));
  }
  return guess;
}

FlowNode FlowReader::Read(const Field& field) {
  FlowNode node;
  node.written = WrittenAt(field);
  if (reporter_->Full() || ++parts_ > limits::kFlowParts + 1) return node;
  if (parts_ > limits::kFlowParts) {
    reporter_->Error(node.written.at, node.written.path,
                     "more than " + std::to_string(limits::kFlowParts) + " steps and blocks");
    return node;
  }
  if (field.value.IsList()) {
    ReadParts(field, &node);
  } else if (!field.value.IsMap()) {
    field.Fail("expected a step such as {step: NAME, action: NAME}, a list of steps, or a block "
               "such as {sequence: [STEP, STEP]}, not " + Describe(field.value));
  } else if (std::string_view form = FormOf(field); form == "step") {
    ReadStep(field, &node);
  } else if (form == "section") {
    ReadSection(field, &node);
  } else if (form == "self") {
    ReadSelf(field, &node);
  } else if (!form.empty()) {
    ReadBlock(field, form, &node);
  }
  return node;
}

void FlowReader::ReadParts(const Field& field, FlowNode* to) {
  for (size_t i = 0; i < field.value.items.size() && parts_ <= limits::kFlowParts; ++i) {
    to->children.push_back(Read(field.Item(i)));
  }
}

void FlowReader::ReadOrder(const Keys& keys, FlowNode* to) {
  if (auto field = keys.Take("after")) ReadNames(*field, "step", &to->after);
  if (auto field = keys.Take("when")) ReadCondition(*field, &to->when);
}

void FlowReader::ReadForEach(const Keys& keys, const Field& field, FlowNode* to) {
  to->kind = FlowNode::Kind::kForEach;
  if (auto items = keys.Take("for_each")) {
    ReadListTemplate(*items, &to->items);
  } else {
    field.Fail("this map has no 'for_each'; expected a list of steps, or " +
               std::string(kForEachExample));
  }
  if (auto as = keys.Take("as")) ReadAs(*as, &to->as);
  if (auto body = keys.Take("do")) {
    to->children.push_back(Read(*body));
  } else if (keys.Has("for_each")) {
    field.Fail("the for_each has no 'do'; add the flow for each item: " +
               std::string(kForEachExample));
  }
}

void FlowReader::ReadBlock(const Field& field, std::string_view form, FlowNode* to) {
  if (form == "for_each") {
    static constexpr std::array<std::string_view, 5> kKeys = {"for_each", "as", "do", "when",
                                                              "after"};
    Keys keys(field, kKeys, "a for_each has for_each, as, do, when and after");
    ReadForEach(keys, field, to);
    return ReadOrder(keys, to);
  }
  const std::array<std::string_view, 3> known = {form, "when", "after"};
  const std::string all = "a " + std::string(form) + " has " + std::string(form) +
                          ", when and after";
  Keys keys(field, known, all);
  to->kind = form == "sequence" ? FlowNode::Kind::kSequence : FlowNode::Kind::kConcurrence;
  Field parts = *keys.Take(form);
  if (parts.value.IsList()) {
    ReadParts(parts, to);
  } else if (!parts.value.IsMap()) {
    parts.Fail("expected a list of steps, or " + std::string(kForEachExample) + ", not " +
               Describe(parts.value));
  } else if (parts.value.Find("for_each") || !IsFlow(parts.value)) {
    Keys inner(parts, kForEachKeys, "in here a for_each has for_each, as and do; when and after "
                                    "stand beside the block");
    to->sequential = form == "sequence";
    ReadForEach(inner, parts, to);
  } else {
    parts.Fail("expected a list of steps, or " + std::string(kForEachExample) + "; put what is "
               "here into a list");
  }
  ReadOrder(keys, to);
}

void FlowReader::ReadSelf(const Field& field, FlowNode* to) {
  static constexpr std::array<std::string_view, 3> kKeys = {"self", "when", "after"};
  Keys keys(field, kKeys, "a planner's own run has self, when and after");
  to->kind = FlowNode::Kind::kStep;
  to->self_run = true;
  Field self = *keys.Take("self");
  size_t choice = 0;
  if (ReadWord(self, kSelf, &choice) && !planner_) {
    self.reporter->Error(self.key_at, self.path,
                         "'self' stands in what a planner reports; a plan has no run of its own");
  }
  ReadOrder(keys, to);
}

void FlowReader::ReadSection(const Field& field, FlowNode* to) {
  static constexpr std::array<std::string_view, 7> kKeys = {
      "section", "do", "retry", "compensate", "rescue", "when", "after"};
  Keys keys(field, kKeys, "a section has section, do, retry, compensate, rescue, when and after");
  to->kind = FlowNode::Kind::kSection;
  ReadName(*keys.Take("section"), "section", &to->name);
  if (auto key = keys.Take("retry")) {
    if (ReadRetry(*key, &to->retry) && to->retry.limit < 2) {
      key->Fail("a section is tried twice or more; of one try it is the steps alone");
    }
  } else {
    field.Fail("the section has no 'retry'; add how often it is tried in all: " +
               std::string(kSectionExample));
  }
  if (auto key = keys.Take("do")) {
    to->children.push_back(Read(*key));
  } else {
    field.Fail("the section has no 'do'; add its flow: " + std::string(kSectionExample));
  }
  const auto compensate = keys.Take("compensate");
  if (compensate && !to->children.empty()) to->children.push_back(Read(*compensate));
  size_t choice = 0;
  if (auto key = keys.Take("rescue"); key && ReadWord(*key, kSectionRescues, &choice)) {
    to->own.rescue = Rescue::kFail;  // when it has been compensated
    if (!compensate) {
      key->Fail(
          "rescue: compensate runs the section's 'compensate', and there is none; add it, or "
          "remove this");
    }
  }
  ReadOrder(keys, to);
}

void FlowReader::ReadSpawnMap(const Field& field, SpawnSource* to) {
  Keys keys(field, kSpawnKeys, "a spawn has plan or machine, for_each, as, input and concurrency");
  const bool plan = keys.Has("plan");
  if (plan == keys.Has("machine")) {
    field.Fail(plan ? "the spawn has 'plan' and 'machine'; keep one of them"
                    : "the spawn starts nothing; add 'plan: NAME' or 'machine: NAME'");
  }
  for (std::string_view what : {"machine", "plan"}) {
    if (auto key = keys.Take(what)) ReadName(*key, what, &to->machine);
  }
  std::string items;
  if (auto key = keys.Take("for_each"); key && ReadListTemplate(*key, &items)) to->items = items;
  if (auto key = keys.Take("as")) {
    ReadAs(*key, &to->as);
    if (!keys.Has("for_each")) {
      reporter_->Error(key->key_at, key->path, "'as' names the items of a 'for_each', and there "
                                               "is none");
    }
  }
  if (auto key = keys.Take("input")) ReadMapTemplate(*key, &to->input);
  int64_t concurrency = 0;
  if (auto key = keys.Take("concurrency"); key && ReadInteger(*key, 1, INT32_MAX, &concurrency)) {
    to->concurrency = static_cast<uint32_t>(concurrency);
  }
}

void FlowReader::ReadSpawn(const Field& field, SpawnSource* to) {
  if (field.value.IsMap()) {
    ReadSpawnMap(field, to);
  } else if (field.value.IsScalar() && !field.value.IsEmpty()) {
    ReadName(field, "plan or machine", &to->machine);
  } else {
    field.Fail("expected the name of a plan or machine, or {plan: NAME, for_each: LIST, as: NAME, "
               "input: MAP}, not " + Describe(field.value));
  }
}

void FlowReader::ReadSubject(const Keys& keys, const Field& field, FlowNode* to) {
  std::vector<std::string_view> subjects = Among(keys, kSubjects);
  const std::string step = to->name.empty() ? "the step" : "step " + Quoted(to->name);
  if (subjects.empty()) {
    return reporter_->Error(field.key_at, field.path,
                            step + " does nothing; add 'action: NAME', 'plan: NAME' or "
                                   "'spawn: NAME'");
  }
  if (subjects.size() > 1) {
    reporter_->Error(field.key_at, field.path,
                     step + " has " + Quote(subjects) + "; keep one of them");
  }
  if (auto action = keys.Take("action")) ReadName(*action, "action", &to->action);
  if (auto plan = keys.Take("plan")) ReadName(*plan, "plan", &to->plan);
  if (auto spawn = keys.Take("spawn")) ReadSpawn(*spawn, &to->spawn.emplace());
  if (subjects[0] == "action") return ReadOwnKeys(keys, true, reporter_, &to->own);
  for (std::string_view key : OwnKeys()) {
    auto own = keys.Take(key);
    if (!own) continue;
    reporter_->Error(own->key_at, own->path,
                     "key " + Quoted(key) + " is for steps with 'action', and this is a step " +
                         "with " + Quoted(subjects[0]));
  }
}

void FlowReader::ReadStep(const Field& field, FlowNode* to) {
  Keys keys(field, AllStepKeys(), kAllOfStep);
  to->kind = FlowNode::Kind::kStep;
  to->own.written = to->written;
  if (auto name = keys.Take("step")) {
    ReadName(*name, "step", &to->name);
  } else {
    reporter_->Error(field.key_at, field.path, "the step has no name; add 'step: NAME'");
  }
  ReadSubject(keys, field, to);
  ReadOrder(keys, to);
  if (auto key = keys.Take("if")) {
    Condition condition;
    if (ReadIf(*key, {.steps = true}, &condition)) {
      to->condition = std::make_shared<const Condition>(std::move(condition));
    }
  }
  auto input = keys.Take("input");
  if (!input) return;
  if (!to->spawn) {
    ReadMapTemplate(*input, &to->input);
    return;
  }
  ReadMapTemplate(*input, &to->spawn->input);
  const YamlNode& spawn = keys.Take("spawn")->value;
  if (spawn.Find("input")) {
    reporter_->Error(input->key_at, input->path,
                     "the children's input is there twice, here and in 'spawn'; keep one of them");
  }
}

}  // namespace

bool IsFlow(const YamlNode& map) { return !FormsOf(map).empty(); }

FlowNode ReadFlow(const Field& field, bool planner) {
  return FlowReader(planner, field.reporter).Read(field);
}

}  // namespace dfsmr
