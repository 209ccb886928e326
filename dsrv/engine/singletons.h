// Which instance holds a singleton of a namespace, and which wait for it. Both plans as a whole and
// single steps take singletons. Kept in memory, rebuilt from the live instances.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/values.h"

namespace dfsmr {

class Singletons : public Part {
 public:
  Singletons(Residents& residents, Changer& changer, Values& values)
      : residents_(residents), changer_(changer), values_(values) {}

  // The id of the other instance that holds `key`; empty: no other instance does.
  std::string HolderOf(const Instance& instance, const std::string& key) const;
  // Whether a paused plan may go on: it gave its singleton back when it paused.
  Result<Ok> MayResume(Resident& resident);
  // A hand-out has taken `key` for the step of `visit`.
  void Taken(Resident& resident, const std::string& key, uint64_t visit);

  void Load(Resident& resident) override;
  // At start, when all instances are loaded: puts those that wait in the order of their starts.
  void Loaded();
  // Tells the rule which singleton the plan asks for, and which instance holds it.
  void Advise(Resident& resident, Scene* scene) override;
  void Absorb(const Change& change) override;
  // Hands on a singleton that is free: the instances that wait for it ask again, in their order,
  // until one of them has it.
  bool Work() override;

 private:
  struct Singleton {
    std::string holder;  // the instance that holds it
    size_t held = 0;     // how many times: by the instance itself and by its steps
    std::deque<std::pair<std::string, uint64_t>> waiting;  // instance, visit (0: itself)
  };
  // The key that an instance (visit 0) or a step holds or waits for.
  struct Hold {
    std::string key;
    bool waits = false;
  };

  void Note(Resident& resident, const Hold& was, const Hold& is, uint64_t visit);
  void HandOn(const std::string& key);

  Residents& residents_;
  Changer& changer_;
  Values& values_;
  std::map<std::string, Singleton> keys_;  // by ns\0key
  std::deque<std::string> freed_;
  std::unordered_map<std::string, uint64_t> first_seq_;  // during Load: ns\0id → its first record
};

}  // namespace dfsmr
