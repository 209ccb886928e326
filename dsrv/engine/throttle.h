// Keeps machines from drowning in their own retries: asks a machine's breaker before a retry is
// handed out, and holds it back while the breaker is open.
#pragma once

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {

class Throttle {
 public:
  Throttle(OpenTurn& turn, Statistics& statistics, Timers& timers, Agenda& agenda)
      : turn_(turn), statistics_(statistics), timers_(timers), agenda_(agenda) {}

  // Whether an open breaker holds this retry back. Then it has been put aside, and comes back to
  // the agenda by itself.
  bool HoldsBack(MachineState& machine, Agenda::Popped& popped);
  // What was popped is not ready any more, and so nobody needs it: the next one may come.
  void NotNeeded(MachineState& machine, const Agenda::Popped& popped);

  void Claimed(MachineState& machine, bool retry);
  void GivenBack(MachineState& machine, const Claim& claim);
  void Tick(MachineState& machine);
  // Versions before the latest are left behind: nothing of them is handed out any more.
  void Forget(MachineState& machine);

 private:
  void Note(MachineState& machine, Breaker::Effect effect);
  void Release(MachineState& machine);
  void Arm(MachineState& machine);

  OpenTurn& turn_;
  Statistics& statistics_;
  Timers& timers_;
  Agenda& agenda_;
};

}  // namespace dfsmr
