// Keeps machines from drowning in their own retries: asks a machine's breaker before it hands out a
// retry, and holds the retry back while the breaker is open.
#pragma once

#include "dsrv/engine/brakes.h"
#include "dsrv/engine/names.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/breaker.h"
#include "fsm/rules/tokens.h"


namespace dfsmr {

class Throttle {
 public:
  Throttle(OpenTurn& turn, Catalog& catalog, Statistics& statistics, Measures& measures,
           Timers& timers, Agenda& agenda, Messages& messages, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        statistics_(statistics),
        measures_(measures),
        timers_(timers),
        agenda_(agenda),
        brakes_(turn, messages, options) {}

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

  // Of several partitions: home hears what is handed out elsewhere, and the others of the breaker.
  void Take(PartitionId from, const rows::Message::Braked& braked);
  void Take(const rows::Message::Brake& brake);
  // Tells what is to be told. When to, by real time.
  void Tell();
  Timestamp TellDue() const { return brakes_.Due(); }

 private:
  void Note(MachineState& machine, Breaker::Effect effect);
  void Release(MachineState& machine);
  void Arm(MachineState& machine);

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  Measures& measures_;
  Timers& timers_;
  Agenda& agenda_;
  Brakes brakes_;
};

}  // namespace dfsmr
