// The definitions by name. The engine adds to them; any thread may read them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/mutex.h"
#include "fsm/base/time.h"
#include "fsm/machine/machine.h"
#include "storage/rows/instance.h"

namespace dfsmr {

// One version of a machine. It never changes.
struct MachineVersion {
  std::string ns;
  uint32_t version = 0;
  Machine machine;
  Timestamp define_time;
};
using MachineVersionPtr = std::shared_ptr<const MachineVersion>;

class Registry {
 public:
  void Add(MachineVersionPtr definition);
  // Version 0 is the latest. Null: there is no such version.
  MachineVersionPtr Find(std::string_view ns, std::string_view id, uint32_t version = 0) const;
  // Removes those of a namespace.
  void Forget(const std::string& ns);
  // The records of the feed up to it are not of the namespace that has this name now; 0: all are.
  uint64_t FeedFloor(std::string_view ns) const;
  void SetFeedFloor(const std::string& ns, uint64_t seq);
  // Whether a later version upgrades or aborts what runs on this one.
  bool LeftBehind(std::string_view ns, std::string_view id, uint32_t version) const;
  // As Find. Valid as long as the registry: what was removed is kept.
  const Machine* Resolve(std::string_view ns, std::string_view id, uint32_t version) const;
  rows::Resolve resolve() const;  // calls Resolve

 private:
  using Versions = std::vector<MachineVersionPtr>;  // version n at n - 1
  const Versions* VersionsOf(std::string_view ns, std::string_view id) const
      REQUIRES_SHARED(mutex_);

  mutable SharedMutex mutex_;
  std::map<std::pair<std::string, std::string>, Versions> machines_ GUARDED(mutex_);
  // What was removed last of a name, for rows that were read before; and all before that.
  std::map<std::pair<std::string, std::string>, Versions> removed_ GUARDED(mutex_);
  std::vector<Versions> kept_ GUARDED(mutex_);
  std::map<std::string, uint64_t, std::less<>> floors_ GUARDED(mutex_);
};

}  // namespace dfsmr
