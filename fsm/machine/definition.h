// What one document defines.
#pragma once

#include <memory>
#include <string_view>
#include <variant>

namespace dfsmr {

// Values of fsm/plan, of which this layer knows only the names.
struct PlanSource;
struct ActionSource;
using PlanPtr = std::shared_ptr<const PlanSource>;
using ActionPtr = std::shared_ptr<const ActionSource>;

// A plain machine is what its nodes say.
struct PlainMachine {};

// A plain machine, or a plan or an action as it was written; the pointers are never null.
using DefinedAs = std::variant<PlainMachine, PlanPtr, ActionPtr>;

// "machine", "plan" or "action".
inline std::string_view KindName(const DefinedAs& defined) {
  constexpr std::string_view kNames[] = {"machine", "plan", "action"};
  return kNames[defined.index()];
}

}  // namespace dfsmr
