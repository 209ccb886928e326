// The definitions by name. The engine adds to them; any thread may read them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/mutex.h"
#include "fsm/base/time.h"
#include "fsm/machine/machine.h"
#include "storage/rows/instance.h"

namespace dfsmr {

struct PackageVersion;  // package_version.h
using PackageVersionPtr = std::shared_ptr<const PackageVersion>;

// One version of a machine. It never changes.
struct MachineVersion {
  std::string ns;
  uint32_t version = 0;
  Machine machine;
  Timestamp define_time;
  PackageVersionPtr package = nullptr;  // that it belongs to; null: it was defined by hand
  bool candidate = false;  // of a candidate: it is not meant by the name alone, and moves nothing
  // Of a package: equal for documents that are the same but for description and upgrade_strategy.
  std::pair<uint64_t, uint64_t> core = {};
};
using MachineVersionPtr = std::shared_ptr<const MachineVersion>;

class Registry {
 public:
  void Add(MachineVersionPtr definition);
  // Version 0 is the one that the name means. Null: there is no such version.
  MachineVersionPtr Find(std::string_view ns, std::string_view id, uint32_t version = 0) const;
  // Removes those of a namespace.
  void Forget(const std::string& ns);
  // The records of the feed up to it are not of the namespace that has this name now; 0: all are.
  uint64_t FeedFloor(std::string_view ns) const;
  void SetFeedFloor(const std::string& ns, uint64_t seq);
  // From now on a later version upgrades or aborts what runs on this one.
  void LeaveBehind(const MachineVersion& version);
  bool LeftBehind(std::string_view ns, std::string_view id, uint32_t version) const;
  // As Find. Valid as long as the registry: what was removed is kept.
  const Machine* Resolve(std::string_view ns, std::string_view id, uint32_t version) const;
  rows::Resolve resolve() const;  // calls Resolve
  // From now on live instances of `version` count as those of the later version `as`, which is the
  // same but for its package's programs.
  void StandFor(const MachineVersion& version, MachineVersionPtr as);
  // The version that a live instance of `version` counts as. Null: there is no such version.
  MachineVersionPtr Now(std::string_view ns, std::string_view id, uint32_t version) const;

 private:
  struct Versions {
    // Version n at n - 1. Null: an import has brought a later one only.
    std::vector<MachineVersionPtr> all;
    uint32_t current = 0;                // that the name means; 0: there are candidates only
    std::map<uint32_t, MachineVersionPtr> as;
    std::set<uint32_t> left;  // behind
  };
  const Versions* VersionsOf(std::string_view ns, std::string_view id) const
      REQUIRES_SHARED(mutex_);
  const Versions* RemovedOf(std::string_view ns, std::string_view id) const REQUIRES_SHARED(mutex_);

  mutable SharedMutex mutex_;
  std::map<std::pair<std::string, std::string>, Versions> machines_ GUARDED(mutex_);
  // What was removed last of a name, for rows that were read before; and all before that.
  std::map<std::pair<std::string, std::string>, Versions> removed_ GUARDED(mutex_);
  std::vector<Versions> kept_ GUARDED(mutex_);
  std::map<std::string, uint64_t, std::less<>> floors_ GUARDED(mutex_);
};

}  // namespace dfsmr
