// What messages of other partitions mean: each goes to the part that it is for.
#pragma once

#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/names.h"
#include "storage/rows/message.h"

namespace dfsmr {

class SpaceShares;

class Arrivals {
 public:
  Arrivals(Residents& residents, Changer& changer, Followers& followers, Launcher& launcher,
           Limits& limits, Deletions& deletions, Groups& groups, SpaceShares& shares,
           Triggers& triggers, Statistics& statistics, Throttle& throttle,
           Messages& messages)
      : residents_(residents),
        changer_(changer),
        followers_(followers),
        launcher_(launcher),
        limits_(limits),
        deletions_(deletions),
        groups_(groups),
        shares_(shares),
        triggers_(triggers),
        statistics_(statistics),
        throttle_(throttle),
        messages_(messages) {}

  // Applies one, as Messages::Apply has it.
  bool Take(PartitionId from, const rows::Message& message);

 private:
  // Tells who asked what has become of it. False: nothing yet, for want of room.
  bool Answer(PartitionId to, const rows::Message::Asker& asker, const Result<Launched>& launched);
  void Refused(const rows::Message::Decided& decided);

  Residents& residents_;
  Changer& changer_;
  Followers& followers_;
  Launcher& launcher_;
  Limits& limits_;
  Deletions& deletions_;
  Groups& groups_;
  SpaceShares& shares_;
  Triggers& triggers_;
  Statistics& statistics_;
  Throttle& throttle_;
  Messages& messages_;
};

}  // namespace dfsmr
