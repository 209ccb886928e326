// The breakers of machines over several partitions. Home has the breaker of each machine. The
// others tell it what they have handed out as soon as there are retries among it, or home has
// asked, and hear when it opens and closes. While it is open, the partitions that hold retries back
// have their turns one after the other, at times that each of them knows.
#pragma once

#include <map>
#include <vector>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "storage/rows/message.h"

namespace dfsmr {

class Brakes {
 public:
  Brakes(OpenTurn& turn, Messages& messages, const EngineOptions& options)
      : turn_(turn), messages_(messages), options_(options) {}

  // Something was handed out, or came back.
  void HandedOut(MachineState& machine, bool retry);
  // A retry is held back.
  void HeldBack(MachineState& machine);
  // The machine is none any more.
  void Forget(MachineState& machine);

  // At home: what was handed out elsewhere counts. The breaker is to be judged again.
  void Take(PartitionId from, MachineState& machine, const rows::Message::Braked& braked);
  // Elsewhere: what has become of the breaker.
  void Take(MachineState& machine, const rows::Message::Brake& brake);

  // Tells what is to be told. Returns the machines whose breakers are to be judged again, or whose
  // turns have changed.
  std::vector<MachineState*> Tell();
  // When to, by real time.
  Timestamp Due() const;

 private:
  using Brake = rows::Message::Brake;
  struct Asked {  // at home: a machine of which the others know more than that all is well
    bool counts = false;             // all are to tell what they hand out
    Timestamp since;                 // of `counts`
    std::map<PartitionId, bool> waits;  // whether it holds retries back there
    std::map<PartitionId, Brake> told;
  };

  bool Shared() const { return options_.partitions > 1; }
  void TellHome(MachineState& machine);
  bool TellOthers(MachineState& machine, Asked& asked);
  // Home asks for what the others hand out before it opens a breaker.
  bool Asks(MachineState& machine, Asked& asked);

  OpenTurn& turn_;
  Messages& messages_;
  const EngineOptions& options_;
  MachineSet stirred_;
  std::map<MachineState*, Asked, ByNames> asked_;  // at home
  struct Here {                                    // elsewhere: of what is not as ever
    bool counts = false;  // home asks for all that is handed out
    bool waits = false;   // as home was told
  };
  std::map<MachineState*, Here, ByNames> here_;
  bool urgent_ = false;
  Timestamp next_;  // not to be told before
};

}  // namespace dfsmr
