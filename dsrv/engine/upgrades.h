// Moves instances that a new version of a machine has left behind: at once when they are touched,
// the others in the background, a bounded number in each pass, in order of id. After a restart the
// background work begins again with the first instance, and finds most of them moved.
#pragma once

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

class Upgrades : public Part {
 public:
  Upgrades(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Agenda& agenda,
           Throttle& throttle)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        agenda_(agenda),
        throttle_(throttle) {}

  // From now on no work of the versions before `latest` is handed out.
  void LeaveBehind(VersionState& latest);
  // Moves some instances of the machines that the filter asks for, so that work is found which an
  // upgrade has made ready but the background has not come to. False: there are none to move.
  bool MoveFor(const Filter& filter);
  // Moves some instances of one machine.
  void MoveSome();

  void Load(Resident& resident) override { Note(*resident.version); }
  void Note(VersionState& version) {
    if (version.LeftBehind()) moving_.insert(version.machine);
  }

  // The machine has no instances, and is none any more.
  void Forget(MachineState& machine) { moving_.erase(&machine); }

  // How many instances one call moves at most.
  static constexpr size_t kMovesAtOnce = 128;

 private:
  void MoveSome(MachineState& machine);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Agenda& agenda_;
  Throttle& throttle_;
  MachineSet moving_;
};

}  // namespace dfsmr
