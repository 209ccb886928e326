// The definitions of one namespace, kept alive, as they stand. Included by engine*.cc only.
#pragma once

#include <string>
#include <vector>

#include "dsrv/engine/engine.h"
#include "fsm/plan/library.h"

namespace dfsmr {

struct Engine::DefinitionSet {
  Definitions definitions;
  std::vector<MachineVersionPtr> kept;
  // How many versions there are: other under other definitions, the same after a restart.
  uint64_t generation = 0;
};

}  // namespace dfsmr
