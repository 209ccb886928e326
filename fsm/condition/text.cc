// Conditions as text: as they are kept, and as people read them.
#include <array>
#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/condition/condition.h"

namespace dfsmr {
namespace {

using Kind = Condition::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 3> kLists = {
    {{Kind::kAll, "all"}, {Kind::kAny, "any"}, {Kind::kNone, "none"}}};
constexpr std::array<StepOutcome, 3> kOutcomes = {StepOutcome::kSucceeded, StepOutcome::kFailed,
                                                  StepOutcome::kSkipped};

std::string_view WordOf(Kind kind) {
  for (const auto& [one, word] : kLists) {
    if (one == kind) return word;
  }
  return "";
}

// Whether YAML reads the word as it stands, as text.
bool IsPlainWord(std::string_view text) {
  if (!ValidName(text) || text.size() > 64) return false;
  const char first = text.front();
  const bool letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  constexpr std::array<std::string_view, 14> kWords = {"true",  "True", "TRUE", "false", "False",
                                                       "FALSE", "null", "Null", "NULL",  "yes",
                                                       "no",    "on",   "off",  "always"};
  for (std::string_view word : kWords) {
    if (text == word) return false;
  }
  return letter;
}

// JSON text as flow style YAML.
std::string Readable(std::string_view value) {
  std::string out;
  switch (json::KindOf(value)) {
    case json::Kind::kString: {
      const std::string text = json::Unquote(value);
      return IsPlainWord(text) ? text : json::Quote(text);
    }
    case json::Kind::kArray:
      json::ForEachItem(value, [&](std::string_view item) {
        out += (out.empty() ? "" : ", ") + Readable(item);
        return true;
      });
      return "[" + out + "]";
    case json::Kind::kObject:
      json::ForEachMember(value, [&](std::string_view name, std::string_view member) {
        out += (out.empty() ? "" : ", ") + Readable(json::Quote(name)) + ": " + Readable(member);
        return true;
      });
      return "{" + out + "}";
    case json::Kind::kNull:
    case json::Kind::kBoolean:
    case json::Kind::kNumber:
      break;
  }
  return std::string(json::Trim(value));
}

Error Malformed() { return {.code = Code::kInvalidArgument, .message = "this is no condition"}; }

Result<Condition> Parse(std::string_view json, size_t levels);

Result<Condition> ParseList(Kind kind, std::string_view items, size_t levels) {
  Condition condition{.kind = kind};
  std::optional<Error> error;
  json::ForEachItem(items, [&](std::string_view item) {
    auto part = Parse(item, levels);
    if (part) {
      condition.parts.push_back(*std::move(part));
    } else {
      error = part.error();
    }
    return !error;
  });
  if (error) return *std::move(error);
  return condition;
}

Condition ParseSteps(StepOutcome outcome, std::string_view steps) {
  Condition condition{.kind = Kind::kSteps};
  condition.outcome = outcome;
  if (json::KindOf(steps) == json::Kind::kString) condition.steps = {json::Unquote(steps)};
  json::ForEachItem(steps, [&](std::string_view step) {
    condition.steps.push_back(json::Unquote(step));
    return true;
  });
  return condition;
}

Result<Condition> ParseValue(std::string_view json, std::string_view value) {
  Condition condition{.kind = Kind::kValue};
  condition.value = value;
  bool found = false;
  json::ForEachMember(json, [&](std::string_view name, std::string_view operand) {
    const auto op = OperatorNamed(name);
    if (!op) return true;
    condition.op = *op;
    condition.operand = operand;
    return !(found = true);
  });
  if (!found) return Malformed();
  (void)PreparePattern(&condition);  // one that is malformed matches nothing
  return condition;
}

Result<Condition> Parse(std::string_view json, size_t levels) {
  if (levels == 0) return Malformed();
  if (json::KindOf(json) == json::Kind::kString) {
    if (json::Unquote(json) == "always") return Condition();
    return Malformed();
  }
  if (auto value = json::Member(json, "value")) return ParseValue(json, *value);
  for (const auto& [kind, word] : kLists) {
    if (auto items = json::Member(json, word)) return ParseList(kind, *items, levels - 1);
  }
  for (StepOutcome outcome : kOutcomes) {
    if (auto steps = json::Member(json, Name(outcome))) return ParseSteps(outcome, *steps);
  }
  return Malformed();
}

}  // namespace

std::string ToJson(const Condition& condition) {
  switch (condition.kind) {
    case Kind::kAlways:
      return "\"always\"";
    case Kind::kAll:
    case Kind::kAny:
    case Kind::kNone: {
      std::string parts;
      for (const Condition& part : condition.parts) {
        parts += (parts.empty() ? "" : ",") + ToJson(part);
      }
      return "{" + json::Quote(WordOf(condition.kind)) + ":[" + parts + "]}";
    }
    case Kind::kValue:
      return "{\"value\":" + condition.value + "," + json::Quote(Name(condition.op)) + ":" +
             condition.operand + "}";
    case Kind::kSteps:
      break;
  }
  std::string steps;
  for (const std::string& step : condition.steps) {
    steps += (steps.empty() ? "" : ",") + json::Quote(step);
  }
  if (condition.steps.size() != 1) steps = "[" + steps + "]";
  return "{" + json::Quote(Name(condition.outcome)) + ":" + steps + "}";
}

Result<Condition> ParseCondition(std::string_view json) {
  return Parse(json, kConditionLevels + 1);
}

std::string TextOf(const Condition& condition) {
  return condition.kind == Kind::kAlways ? "always" : Readable(ToJson(condition));
}

}  // namespace dfsmr
