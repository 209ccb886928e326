// What only one document of a namespace can have: the path of a webhook, the key of a limit.
#pragma once

#include <string>
#include <vector>

#include "dsrv/engine/limits.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/triggers.h"
#include "fsm/when/check.h"

namespace dfsmr {

// Who has what, but for `documents`, which are defined anew.
inline Owners OwnersBeside(const std::string& ns, const std::vector<Document>& documents,
                           const Triggers& triggers, const Limits& limits) {
  Owners owners;
  triggers.AddOwners(ns, documents, &owners);
  limits.AddOwners(ns, documents, &owners);
  return owners;
}

}  // namespace dfsmr
