// Moves what a new version of a machine has left behind: at once when it is touched, the rest in
// the background, a bounded number of instances a pass, in order of id. After a restart the
// background begins again with the first one, and finds most of them moved.
#pragma once

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/throttle.h"

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

  // From now on nothing of the versions before `latest` is handed out.
  void LeaveBehind(VersionState& latest);
  // Moves some of what a filter asks for, so that what an upgrade has made ready is found although
  // the background has not come to it. False when there is nothing of the kind.
  bool MoveFor(const Filter& filter);
  // Moves some of one machine.
  void MoveSome();

  void Load(Resident& resident) override { Note(*resident.version); }
  void Note(VersionState& version) {
    if (version.LeftBehind()) moving_.insert(version.machine);
  }

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
