#include "fsm/yaml/condition.h"

#include <algorithm>
#include <array>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kLists = {"all", "any", "none"};
constexpr std::array<std::string_view, 3> kOutcomes = {"succeeded", "failed", "skipped"};
constexpr std::array<std::string_view, 8> kOperators = {"equals",   "not", "greater", "less",
                                                        "contains", "in",  "exists",  "matches"};

template <typename Words>
bool Among(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

class ConditionReader {
 public:
  explicit ConditionReader(const ConditionRules& rules) : rules_(rules) {}

  bool Read(const Field& field, size_t level, Condition* to);

 private:
  bool Bounded(const Field& field, size_t level);
  bool ReadMap(const Field& field, size_t level, Condition* to);
  bool ReadList(const Field& field, Condition::Kind kind, size_t level, Condition* to);
  bool ReadSteps(const Field& field, StepOutcome outcome, Condition* to);
  bool ReadValue(const Field& field, Condition* to);
  bool ReadOperand(const Field& field, Condition* to);
  bool ReadTemplate(const Field& field, std::string* json);
  bool CheckReferences(const Field& field);
  bool UnknownWord(const Field& map, const YamlEntry& entry);
  std::string Expected() const;

  const ConditionRules& rules_;
  size_t parts_ = 0;  // with the outermost
};

std::string ConditionReader::Expected() const {
  return "a condition such as " + std::string(rules_.example) +
         (rules_.steps ? ", {failed: STEP}, always" : "") + ", or a list of conditions";
}

bool ConditionReader::Bounded(const Field& field, size_t level) {
  if (++parts_ > kConditionParts + 1) {
    if (parts_ == kConditionParts + 2) {
      field.Fail("the condition has more than " + std::to_string(kConditionParts) + " parts");
    }
    return false;
  }
  if (level <= kConditionLevels) return true;
  field.Fail("the condition is nested in more than " + std::to_string(kConditionLevels) +
             " levels");
  return false;
}

bool ConditionReader::Read(const Field& field, size_t level, Condition* to) {
  if (!Bounded(field, level)) return false;
  if (field.value.IsList()) return ReadList(field, Condition::Kind::kAll, level, to);
  if (field.value.IsMap()) return ReadMap(field, level, to);
  if (field.value.text == "always" && rules_.steps) {
    *to = Condition();
    return true;
  }
  std::string hint;
  if (field.value.text.starts_with("${")) {
    hint = "; write {value: \"" + field.value.text + "\", equals: true}";
  }
  field.Fail("expected " + Expected() + ", not " + Describe(field.value) + hint);
  return false;
}

bool ConditionReader::ReadList(const Field& field, Condition::Kind kind, size_t level,
                               Condition* to) {
  to->kind = kind;
  to->parts.resize(field.value.items.size());
  bool sound = true;
  for (size_t i = 0; i < field.value.items.size() && parts_ <= kConditionParts + 1; ++i) {
    if (!Read(field.Item(i), level + 1, &to->parts[i])) sound = false;
  }
  return sound && parts_ <= kConditionParts + 1;
}

// Reports a key that no condition has.
bool ConditionReader::UnknownWord(const Field& map, const YamlEntry& entry) {
  Nearest nearest(entry.key);
  for (std::string_view word : kLists) nearest.Try(word);
  nearest.Try("value");
  for (std::string_view word : kOperators) nearest.Try(word);
  if (rules_.steps) {
    for (std::string_view word : kOutcomes) nearest.Try(word);
  }
  const bool step = Among(kOutcomes, entry.key) || entry.key == "always";
  map.reporter->Error(
      entry.at, PathTo(map.path, entry.key),
      step && !rules_.steps
          ? Quoted(entry.key) + " is for the steps of a plan; here a condition compares values: " +
                std::string(rules_.example)
          : "unknown key " + Quoted(entry.key) + nearest.Hint() +
                "; a condition has all, any or none" +
                (rules_.steps ? ", succeeded, failed or skipped" : "") +
                ", or value and one of equals, not, greater, less, contains, in, exists and "
                "matches");
  return false;
}

bool ConditionReader::ReadMap(const Field& field, size_t level, Condition* to) {
  if (field.value.entries.empty()) {
    field.Fail("the condition is empty; expected " + Expected());
    return false;
  }
  if (field.value.Find("value")) return ReadValue(field, to);
  const YamlEntry& entry = field.value.entries.front();
  if (field.value.entries.size() > 1) {
    for (const YamlEntry& one : field.value.entries) {
      const bool known = Among(kLists, one.key) || Among(kOperators, one.key) ||
                         (rules_.steps && Among(kOutcomes, one.key));
      if (!known) return UnknownWord(field, one);
    }
    if (Among(kOperators, entry.key)) {
      field.Fail("the comparison has no 'value'; write it as " + std::string(rules_.example));
      return false;
    }
    field.Fail("one condition has one key; put several into a list: " + Quoted(entry.key) +
               " and " + Quoted(field.value.entries[1].key));
    return false;
  }
  const Field below = field.Below(entry);
  if (const auto list = std::ranges::find(kLists, entry.key); list != kLists.end()) {
    if (!below.value.IsList()) {
      below.Fail("expected a list of conditions, not " + Describe(below.value));
      return false;
    }
    const auto kind =
        static_cast<size_t>(Condition::Kind::kAll) + static_cast<size_t>(list - kLists.begin());
    return ReadList(below, static_cast<Condition::Kind>(kind), level, to);
  }
  const auto outcome = std::ranges::find(kOutcomes, entry.key);
  if (rules_.steps && outcome != kOutcomes.end()) {
    const auto number = static_cast<size_t>(outcome - kOutcomes.begin()) + 1;
    return ReadSteps(below, static_cast<StepOutcome>(number), to);
  }
  if (Among(kOperators, entry.key)) {
    field.Fail("the comparison has no 'value'; write it as " + std::string(rules_.example));
    return false;
  }
  return UnknownWord(field, entry);
}

bool ConditionReader::ReadSteps(const Field& field, StepOutcome outcome, Condition* to) {
  to->kind = Condition::Kind::kSteps;
  to->outcome = outcome;
  return ReadNames(field, "step", &to->steps);
}

bool ConditionReader::CheckReferences(const Field& field) {
  bool sound = true;
  for (const YamlEntry& entry : field.value.entries) {
    if (!CheckReferences(field.Below(entry))) sound = false;
  }
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    if (!CheckReferences(field.Item(i))) sound = false;
  }
  if (!field.value.IsScalar() || field.value.text.find("${") == std::string::npos) return sound;
  const auto references = References(JsonText(field.value));
  if (!references) {
    field.Fail(references.error().message);
    return false;
  }
  for (const Reference& reference : *references) {
    const auto problem = rules_.refuse ? rules_.refuse(reference) : std::nullopt;
    if (!problem) continue;
    field.Fail("${" + reference.text + "}: " + *problem);
    sound = false;
  }
  return sound;
}

bool ConditionReader::ReadTemplate(const Field& field, std::string* json) {
  if (!CheckReferences(field)) return false;
  *json = JsonText(field.value);
  return true;
}

bool ConditionReader::ReadOperand(const Field& field, Condition* to) {
  if (to->op == Condition::Operator::kExists) {
    bool exists = true;
    if (!ReadBoolean(field, &exists)) return false;
    to->operand = exists ? "true" : "false";
    return true;
  }
  if (!ReadTemplate(field, &to->operand)) return false;
  if (auto prepared = PreparePattern(to); !prepared) {
    field.Fail(prepared.error().message);
    return false;
  }
  return true;
}

bool ConditionReader::ReadValue(const Field& field, Condition* to) {
  to->kind = Condition::Kind::kValue;
  bool sound = ReadTemplate(field.Below(*field.value.Find("value")), &to->value);
  const YamlEntry* compared = nullptr;
  for (const YamlEntry& entry : field.value.entries) {
    if (entry.key == "value") continue;
    const auto op = OperatorNamed(entry.key);
    if (!op) return UnknownWord(field, entry);
    if (compared) {
      field.reporter->Error(entry.at, PathTo(field.path, entry.key),
                            "the comparison has " + Quoted(compared->key) + " already; put " +
                                "several comparisons into a list");
      return false;
    }
    compared = &entry;
    to->op = *op;
    if (!ReadOperand(field.Below(entry), to)) sound = false;
  }
  if (compared) return sound;
  field.Fail(
      "the comparison says nothing of its value; add one of equals, not, greater, less, "
      "contains, in, exists and matches, as in " +
      std::string(rules_.example));
  return false;
}

}  // namespace

bool ReadIf(const Field& field, const ConditionRules& rules, Condition* to) {
  return ConditionReader(rules).Read(field, 1, to);
}

}  // namespace dfsmr
