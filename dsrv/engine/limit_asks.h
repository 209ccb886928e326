// What instances, steps and nodes ask of limits: the keys of their documents with the references
// filled in, those that were given at the start, and the built-in ones that have a number.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "fsm/machine/limit.h"
#include "fsm/rules/instance.h"
#include "fsm/rules/tokens.h"


namespace dfsmr {

class LimitAskers {
 public:
  LimitAskers(Values& values, const LimitNumbersBook& numbers)
      : values_(values), numbers_(numbers) {}

  // In the results the keys are no templates any more.
  Result<LimitAsks> OfStart(const StartArgs& args, const VersionState& version);
  Result<LimitAsks> OfInstance(Resident& resident);
  // Of a token that is handed out next.
  Result<LimitAsks> OfToken(Resident& resident, const Token& token);
  // Adds what the tokens of an instance that was paused had, by the words of their nodes and steps.
  void AddHeld(Resident& resident, LimitAsks* asks);
  // Whether it asks for any, which costs less.
  static bool AsksForAny(const Resident& resident, const Token& token);

 private:
  struct Subject {
    const std::string& ns;
    const std::string& machine;
    const Provenance* provenance;
    bool child;
  };
  using Fill = std::function<Result<std::string>(const std::string& text)>;

  Result<LimitAsks> Filled(const LimitAsks& asks, const Fill& fill) const;
  void AddBuiltIns(const Subject& subject, LimitAsks* asks) const;

  Values& values_;
  const LimitNumbersBook& numbers_;
};

}  // namespace dfsmr
