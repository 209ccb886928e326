// Instances that begin after others have stopped: which of them wait for which. A follower hears of
// a stop in the same commit. Kept in memory, rebuilt from the live instances.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

class Followers : public Part {
 public:
  Followers(Residents& residents, Changer& changer) : residents_(residents), changer_(changer) {}

  // The ids of those that wait for the instance `id`, ascending.
  std::vector<std::string> Of(const std::string& ns, const std::string& id) const;
  // `follower` waits for the instance `id` of its namespace.
  void Add(const Instance& follower, const std::string& id);

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  // Tells the followers of one instance that it has stopped.
  bool Work() override;

 private:
  struct Stopped {
    std::string ns;
    std::string id;
    InstanceResult result;
  };

  Residents& residents_;
  Changer& changer_;
  std::unordered_map<std::string, std::set<std::string>> waiting_;  // ns\0id → followers' ids
  std::deque<Stopped> stopped_;
};

}  // namespace dfsmr
