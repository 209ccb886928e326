// Conditions: what an `if` says, of a trigger, a step or a transition. One evaluator for all of
// them. It is bounded, and what a condition does not find is no error: it makes a comparison false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/template.h"
#include "fsm/condition/outcome.h"

namespace dfsmr {
namespace json_schema {
class Pattern;
}

inline constexpr size_t kConditionParts = 100;  // below the outermost
inline constexpr size_t kConditionLevels = 8;
inline constexpr size_t kMatchedBytes = 64 << 10;  // of a text that a pattern is looked for in

struct Condition {
  enum class Kind : uint8_t { kAlways, kAll, kAny, kNone, kValue, kSteps };
  enum class Operator : uint8_t {
    kEquals,
    kNot,
    kGreater,
    kLess,
    kContains,
    kIn,
    kExists,
    kMatches
  };
  Kind kind = Kind::kAlways;

  std::vector<Condition> parts;  // kAll, kAny, kNone

  // kValue: `value` OPERATOR `operand`, both templates, as JSON text.
  Operator op = Operator::kEquals;
  std::string value;
  std::string operand;                                  // kExists: true or false
  std::shared_ptr<const json_schema::Pattern> pattern;  // kMatches; null: the operand refers

  // kSteps: all of them have come to this.
  StepOutcome outcome = StepOutcome::kNone;
  std::vector<std::string> steps;  // names; of a compiled plan "#12", or "@3" of a group
};
using ConditionPtr = std::shared_ptr<const Condition>;

// The word of an operator: "equals", "not", …; and back.
std::string_view Name(Condition::Operator op);
std::optional<Condition::Operator> OperatorNamed(std::string_view word);

// What a condition is about.
struct Facts {
  // What a reference leads to, as JSON text; nullopt: to nothing.
  std::function<std::optional<std::string>(const Reference&)> value;
  // Needed for conditions of steps only.
  std::function<StepOutcome(std::string_view step)> step = {};
};
bool Holds(const Condition& condition, const Facts& facts);

// Compiles the pattern of `matches`, when the operand is a text without references. The error says
// what is wrong with it.
Result<Ok> PreparePattern(Condition* condition);

// As JSON text, as it is kept, and back.
std::string ToJson(const Condition& condition);
Result<Condition> ParseCondition(std::string_view json);
// As people read it, and might have written it: {value: "${check.output.sum}", greater: 1000}.
std::string TextOf(const Condition& condition);

// Calls `visit` with each comparison and each condition about steps, in the order written.
void ForEachLeaf(const Condition& condition, const std::function<void(const Condition&)>& visit);

}  // namespace dfsmr
