// Starts instances: for callers, and for the server itself.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/planner.h"
#include "dsrv/engine/residents.h"

namespace dfsmr {

class Starter {
 public:
  Starter(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer,
          Followers& followers, Planner& planner)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        followers_(followers),
        planner_(planner) {}

  // The started instance, or an earlier one with the same id that was started in the same way.
  Result<Started> Start(StartArgs args);

 private:
  using Ended = std::vector<std::pair<std::string, InstanceResult>>;

  // The version that `args` names, or the reason why it cannot be started.
  Result<VersionState*> VersionOf(const StartArgs& args);
  Result<Started> StartAgain(const StartArgs& args);
  Result<Ended> EndedOf(const std::string& ns, const std::vector<Instance::Prerequisite>& after);
  Resident& Create(StartArgs args, std::vector<Instance::Prerequisite> after,
                   VersionState* version);
  void Begin(Resident& resident, const Ended& ended);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Followers& followers_;
  Planner& planner_;
};

}  // namespace dfsmr
