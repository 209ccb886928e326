// The only way in which an instance changes: a rule decides, its changes are staged, and every part
// hears of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

// Who makes a change, and why: noted with its records. Empty: nobody says.
struct ChangedBy {
  std::string client = {};
  std::string reason = {};
};

class Changer {
 public:
  Changer(OpenTurn& turn, Residents& residents, const EngineOptions& options)
      : turn_(turn), residents_(residents), options_(options) {}

  // Has rules ask `groups` whether a member may begin. Call it once, as Tell.
  void SetGroups(const Groups* groups) { groups_ = groups; }
  // Has rules ask `limits` before an instance begins or goes on. Call it once, as Tell.
  void SetGate(Limits* limits) { limits_ = limits; }
  // Sets the parts that hear of changes, in this order. Call it once, before the first change.
  void Tell(std::vector<Part*> parts) { parts_ = std::move(parts); }

  // Sets what conditions ask for the values of an instance. Call it once, before the first change.
  using Ask =
      std::function<std::optional<std::string>(Resident&, const Reference&, const FreshOutput&)>;
  void Consult(Ask ask) { ask_ = std::move(ask); }

  // The instance, which is first moved to its machine's newest version when an upgrade has left its
  // own version behind. kNotFound: there is none. Any other error is the store's.
  Result<Resident*> Touch(const std::string& ns, const std::string& id);

  // One change of an instance: runs `rule`, stages its changes, and tells the parts. Returns what
  // `rule` returns. `self`: as Change::self.
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

  // While one lives, the feed says of each change why it happened, whoever started the instance.
  class Because {
   public:
    Because(Changer& changer, Event::About why) : changer_(changer) {
      changer_.because_ = std::move(why);
    }
    ~Because() { changer_.because_.reset(); }
    Because(const Because&) = delete;
    Because& operator=(const Because&) = delete;

   private:
    Changer& changer_;
  };

  // While one lives, records of changes say who makes them, and why, unless a rule says so.
  class By {
   public:
    By(Changer& changer, const ChangedBy& by) : changer_(changer) {
      if (!by.client.empty() || !by.reason.empty()) changer_.by_ = &by;
    }
    ~By() { changer_.by_ = nullptr; }
    By(const By&) = delete;
    By& operator=(const By&) = delete;

   private:
    Changer& changer_;
  };

  // What a rule sees, for a rule that changes nothing.
  Scene SceneOf(Resident& resident, std::vector<Event>* events);

 private:
  void Run(Resident& resident, ClaimId self, const std::function<void(Scene&)>& rule);
  void Move(Resident& resident);

  OpenTurn& turn_;
  Residents& residents_;
  const EngineOptions& options_;
  std::vector<Part*> parts_;
  Limits* limits_ = nullptr;
  Ask ask_;
  Boxed<Event::About> because_;
  const ChangedBy* by_ = nullptr;
  const Groups* groups_ = nullptr;
  // Empty between changes: their memory, for the next one.
  std::vector<Event> events_;
  std::vector<ClaimChange> claims_;
};

}  // namespace dfsmr
