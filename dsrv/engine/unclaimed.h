// Ready tokens whose nodes have a ready_timeout: for how long nothing but a worker has been missing
// to them. A time begins anew when the instance was paused, when the token was handed out, and when
// the server was restarted. In memory only; of other nodes nothing is kept.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

class Unclaimed : public Part {
 public:
  Unclaimed(OpenTurn& turn, Changer& changer, Timers& timers, Limits& limits, const Spaces& spaces,
            const Agenda& agenda, const PackageTable& packages)
      : turn_(turn),
        changer_(changer),
        timers_(timers),
        limits_(limits),
        spaces_(spaces),
        agenda_(agenda),
        packages_(packages) {}

  // Why nobody takes from a queue; empty: somebody may.
  using WhyNobody = std::function<std::string(const QueueKey&)>;
  // To be called once, before anything ends.
  void Consult(WhyNobody why_nobody) { why_nobody_ = std::move(why_nobody); }

  // The token was handed out.
  void Claimed(const Resident& resident, uint64_t visit) {
    if (resident.machine().ready_ends) Disarm({KeyOf(NameOf(resident)), visit});
  }
  // The time of a ready token is over: its work fails, unless something else than a worker was
  // missing, too.
  void End(const ReadyEnd& end);

  void Load(Resident& resident) override;
  // At start, of a plain machine's instance that is not brought into memory.
  void LoadReady(ResidentName name, const Machine& machine, const Token& token);
  void Absorb(const Change& change) override;

 private:
  static std::string KeyOf(ResidentName name) { return ResidentKey(name.ns, name.id); }
  void Arm(ReadyToken name, const Machine& machine, const Token& token);
  void Disarm(const ReadyToken& name);
  // Whether it could not be handed out though a worker asked for it.
  bool LacksMore(Resident& resident, const Token& token);
  // Its package is blocked.
  bool IsHeld(const Resident& resident, const Token& token) const;
  std::string WhyOf(const Resident& resident, const Token& token) const;

  OpenTurn& turn_;
  Changer& changer_;
  Timers& timers_;
  Limits& limits_;
  const Spaces& spaces_;
  const Agenda& agenda_;
  const PackageTable& packages_;
  WhyNobody why_nobody_;
  std::map<ReadyToken, Timers::Key> armed_;
};

}  // namespace dfsmr
