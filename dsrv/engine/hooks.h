// Hooks of plans: actions that start when an instance enters a state.
#pragma once

#include <deque>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

class Hooks : public Part {
 public:
  Hooks(Catalog& catalog, Residents& residents, Values& values, Starter& starter)
      : catalog_(catalog), residents_(residents), values_(values), starter_(starter) {}

  void Absorb(const Change& change) override;
  // Starts the next action.
  bool Work() override;

 private:
  void Fire(Resident& resident, const HookSource& hook, std::string_view word);

  Catalog& catalog_;
  Residents& residents_;
  Values& values_;
  Starter& starter_;
  std::deque<StartArgs> fired_;
};

}  // namespace dfsmr
