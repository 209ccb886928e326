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
  // The same. Valid as long as the registry, because definitions are never removed.
  const Machine* Resolve(std::string_view ns, std::string_view id, uint32_t version) const;
  rows::Resolve resolve() const;  // calls Resolve

 private:
  using Versions = std::vector<MachineVersionPtr>;  // version n at n - 1
  const Versions* VersionsOf(std::string_view ns, std::string_view id) const
      REQUIRES_SHARED(mutex_);

  mutable SharedMutex mutex_;
  std::map<std::pair<std::string, std::string>, Versions> machines_ GUARDED(mutex_);
};

}  // namespace dfsmr
