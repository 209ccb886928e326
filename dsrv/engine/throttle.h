// Keeps machines from drowning in their own retries: asks a machine's breaker before it hands out a
// retry, and holds the retry back while the breaker is open.
#pragma once

#include "dsrv/engine/names.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/breaker.h"
#include "fsm/rules/tokens.h"


namespace dfsmr {

class Throttle {
 public:
  Throttle(OpenTurn& turn, Statistics& statistics, Measures& measures, Timers& timers,
           Agenda& agenda)
      : turn_(turn),
        statistics_(statistics),
        measures_(measures),
        timers_(timers),
        agenda_(agenda) {}

  // True: the breaker is open, and the retry has been put aside; it comes back to the agenda by
  // itself.
  bool HoldsBack(MachineState& machine, Agenda::Popped& popped);
  // The entry is not ready any more and is not handed out, so the breaker may let out the next one.
  void NotNeeded(MachineState& machine, const Agenda::Popped& popped);

  void Claimed(MachineState& machine, bool retry);
  void GivenBack(MachineState& machine, const Claim& claim);
  void Tick(MachineState& machine);
  // An upgrade has left versions before the latest behind: drops the retries held back for them.
  void Forget(MachineState& machine);
  // The machine is none any more.
  void Leave(MachineState& machine);

 private:
  void Note(MachineState& machine, Breaker::Effect effect);
  void Release(MachineState& machine);
  void Arm(MachineState& machine);

  OpenTurn& turn_;
  Statistics& statistics_;
  Measures& measures_;
  Timers& timers_;
  Agenda& agenda_;
};

}  // namespace dfsmr
