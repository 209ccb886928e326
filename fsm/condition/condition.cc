#include "fsm/condition/condition.h"

#include <algorithm>
#include <array>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/schema/pattern.h"

namespace dfsmr {
namespace {

using Operator = Condition::Operator;

constexpr std::array<std::string_view, 8> kOperators = {"equals",   "not", "greater", "less",
                                                        "contains", "in",  "exists",  "matches"};
// A pattern costs time for each of its states and each character: what would take longer than a
// few hundred milliseconds is refused, or matches nothing.
constexpr size_t kPatternMax = 500;

bool IsString(std::string_view json) { return json::KindOf(json) == json::Kind::kString; }
bool IsNumber(std::string_view json) { return json::KindOf(json) == json::Kind::kNumber; }

bool Contains(std::string_view whole, std::string_view part) {
  if (IsString(whole)) {
    return IsString(part) && json::Unquote(whole).find(json::Unquote(part)) != std::string::npos;
  }
  if (json::KindOf(whole) != json::Kind::kArray) return false;
  bool found = false;
  json::ForEachItem(whole, [&](std::string_view item) {
    found = json::Same(item, part);
    return !found;
  });
  return found;
}

bool Matches(const Condition& condition, std::string_view value, std::string_view operand) {
  if (!IsString(value) || !IsString(operand)) return false;
  const std::string text = json::Unquote(value);
  if (condition.pattern) return condition.pattern->Matches(Head(text, kMatchedBytes));
  const auto pattern = json_schema::Pattern::Compile(json::Unquote(operand));
  return pattern && pattern->size() <= kPatternMax && pattern->Matches(Head(text, kMatchedBytes));
}

bool Compare(const Condition& condition, std::string_view value, std::string_view operand) {
  const bool numbers = IsNumber(value) && IsNumber(operand);
  switch (condition.op) {
    case Operator::kEquals:
      return json::Same(value, operand);
    case Operator::kGreater:
      return numbers &&
             /*mutant greater-or-equal*/ json::CompareNumbers(value, operand) > 0 /*end*/;
    case Operator::kLess:
      return numbers && json::CompareNumbers(value, operand) < 0;
    case Operator::kContains:
      return Contains(value, operand);
    case Operator::kIn:
      return Contains(operand, value);
    case Operator::kMatches:
      return Matches(condition, value, operand);
    case Operator::kNot:
    case Operator::kExists:
      break;
  }
  return false;
}

// Nullopt when one of its references leads to nothing.
std::optional<std::string> ValueOf(std::string_view json, const Facts& facts) {
  Result<std::string> value = Evaluate(json, [&](const Reference& reference) {
    std::optional<std::string> found = facts.value(reference);
    return found ? Result<std::string>(*std::move(found)) : Error{.code = Code::kNotFound};
  });
  if (!value) return std::nullopt;
  return std::string(json::Trim(*value));
}

bool HoldsValue(const Condition& condition, const Facts& facts) {
  const std::optional<std::string> value = ValueOf(condition.value, facts);
  if (condition.op == Operator::kExists) {
    return value.has_value() == (json::Trim(condition.operand) == "true");
  }
  const std::optional<std::string> operand = ValueOf(condition.operand, facts);
  const bool both = value && operand;
  if (condition.op == Operator::kNot) return !both || !json::Same(*value, *operand);
  return both && Compare(condition, *value, *operand);
}

}  // namespace

std::string_view Name(StepOutcome outcome) {
  static constexpr std::array<std::string_view, 4> kNames = {"", "succeeded", "failed", "skipped"};
  return kNames[static_cast<size_t>(outcome)];
}

std::string_view Name(Condition::Operator op) { return kOperators[static_cast<size_t>(op)]; }

std::optional<Condition::Operator> OperatorNamed(std::string_view word) {
  const auto it = std::ranges::find(kOperators, word);
  if (it == kOperators.end()) return std::nullopt;
  return static_cast<Operator>(it - kOperators.begin());
}

bool Holds(const Condition& condition, const Facts& facts) {
  const auto holds = [&facts](const Condition& part) { return Holds(part, facts); };
  switch (condition.kind) {
    case Condition::Kind::kAlways:
      return true;
    case Condition::Kind::kAll:
      return std::ranges::all_of(condition.parts, holds);
    case Condition::Kind::kAny:
      return std::ranges::any_of(condition.parts, holds);
    case Condition::Kind::kNone:
      return std::ranges::none_of(condition.parts, holds);
    case Condition::Kind::kValue:
      return HoldsValue(condition, facts);
    case Condition::Kind::kSteps:
      return facts.step && std::ranges::all_of(condition.steps, [&](const std::string& step) {
               return facts.step(step) == condition.outcome;
             });
  }
  return false;
}

Result<Ok> PreparePattern(Condition* condition) {
  if (condition->op != Operator::kMatches) return Ok{};
  auto invalid = [](std::string why) {
    return Error{.code = Code::kInvalidArgument, .message = std::move(why)};
  };
  const auto references = References(condition->operand);
  if (references && !references->empty()) return Ok{};
  const auto plain = Evaluate(condition->operand, [](const Reference&) -> Result<std::string> {
    return std::string("null");
  });
  if (!plain || !IsString(*plain)) {
    return invalid("'matches' wants a regular expression, as text such as \"^v[0-9]+$\"");
  }
  auto pattern = json_schema::Pattern::Compile(json::Unquote(*plain));
  if (!pattern) return invalid(pattern.error().message);
  if (pattern->size() > kPatternMax) {
    return invalid(
        "the pattern is too large to be looked for in a long text; use fewer or "
        "smaller repetitions");
  }
  condition->pattern = std::make_shared<const json_schema::Pattern>(*std::move(pattern));
  return Ok{};
}

void ForEachLeaf(const Condition& condition, const std::function<void(const Condition&)>& visit) {
  for (const Condition& part : condition.parts) ForEachLeaf(part, visit);
  const bool leaf =
      condition.kind == Condition::Kind::kValue || condition.kind == Condition::Kind::kSteps;
  if (leaf) visit(condition);
}

}  // namespace dfsmr
