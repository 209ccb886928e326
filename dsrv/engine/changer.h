// The one way in which an instance changes: a rule decides, what it did is staged, and every part
// hears of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dsrv/engine/part.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {

class Changer {
 public:
  Changer(OpenTurn& turn, Residents& residents, const EngineOptions& options)
      : turn_(turn), residents_(residents), options_(options) {}

  // Those that hear of changes, in this order. Once, before the first change.
  void Tell(std::vector<Part*> parts) { parts_ = std::move(parts); }

  // The instance, moved to its machine's newest version when an upgrade has left its own behind.
  // kNotFound; any other error is the store's.
  Result<Resident*> Touch(const std::string& ns, const std::string& id);

  // One change of an instance: decides by `rule`, stages what it did, draws the consequences.
  // Answers what `rule` answers. `self`: as Change::self.
  template <typename Rule>
  auto Apply(Resident& resident, ClaimId self, Rule rule) {
    using Answered = decltype(rule(std::declval<Scene&>()));
    if constexpr (std::is_void_v<Answered>) {
      Run(resident, self, std::ref(rule));
    } else {
      std::optional<Answered> outcome;
      auto keep = [&](Scene& scene) { outcome.emplace(rule(scene)); };
      Run(resident, self, std::ref(keep));
      return *std::move(outcome);
    }
  }
  template <typename Rule>
  auto Apply(Resident& resident, Rule rule) {
    return Apply(resident, {}, std::move(rule));
  }

  // What a rule sees, for one that changes nothing.
  Scene SceneOf(Resident& resident, std::vector<Event>* events);

 private:
  void Run(Resident& resident, ClaimId self, const std::function<void(Scene&)>& rule);
  void Move(Resident& resident);

  OpenTurn& turn_;
  Residents& residents_;
  const EngineOptions& options_;
  std::vector<Part*> parts_;
};

}  // namespace dfsmr
