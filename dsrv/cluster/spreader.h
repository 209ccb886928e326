// Has all partitions of the store adopt what home has changed. Who has changed it is answered only
// then, so that from the answer on nobody goes by what was before.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/keeper.h"

namespace dfsmr {

// Any thread. It outlives what it has begun.
class Spreader {
 public:
  // `here`: has the partitions adopt that this server owns.
  Spreader(Keeper& keeper, const Front& front, Front::Adopt here)
      : keeper_(keeper), front_(front), here_(std::move(here)) {}

  // Calls `done` once each server that lives has adopted what changed in the namespace (empty: in
  // any); it is asked until it has, or is buried. Never before this returns.
  void Begin(const std::string& ns, std::function<void()> done);

 private:
  struct Round;
  using RoundPtr = std::shared_ptr<Round>;
  void See(const RoundPtr& round);
  void AskHere(const RoundPtr& round);
  void AskPeer(const RoundPtr& round, const std::shared_ptr<Peer>& peer);
  void Watch(const RoundPtr& round);
  static void Adopted(const RoundPtr& round, const std::string& server);

  Keeper& keeper_;
  const Front& front_;
  const Front::Adopt here_;
};

}  // namespace dfsmr
