// The packages that an agent runs: fetched by their digests, verified, set up, and kept from
// eviction while they are in use. Several versions of one may be in use at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dcli/agent/set_up.h"
#include "dcli/agent/trusted_keys.h"
#include "dcli/cache/cache.h"
#include "dcli/call/packages.h"
#include "fsm/package/manifest.h"

namespace dfsmr::cli {

// A version of a package as this agent runs it.
struct ReadyPackage {
  std::string name;                  // "etl@1.4.0"
  Manifest manifest;                 // its workers with their programs on this machine
  Surroundings surroundings;         // with its middleware
  std::string birth;                 // of its files in the cache
  std::vector<PublicKey> signed_by;  // with --trusted-keys
};

// While this lives, the files stay where they are.
struct PackageInUse {
  std::shared_ptr<const ReadyPackage> package;
  CachedPackagePtr files;
};
using PackageInUsePtr = std::shared_ptr<const PackageInUse>;

struct PackagePlan {
  std::vector<std::string> names;  // of those that it serves; "*": any
  std::string cache;               // a folder
  uint64_t cache_bytes = 0;
  std::string trusted_keys;  // a file; empty: no signature is asked for

  bool Serves(const std::string& package) const;
};

// The loop's thread; what takes time is done in threads of its own.
class Packages {
 public:
  // `keeper` gives the keeper of the moment. The references must outlive it.
  Packages(Client& client, Loop& loop, std::function<Keeper&()> keeper,
           const Surroundings& surroundings, const std::string& name_space, PackagePlan plan);
  ~Packages();

  // The package of a task, if it can be run at once; null: Prepare it.
  PackageInUsePtr Ready(const v1::PackageRef& ref);

  // What a claim wants that waits for a package.
  struct Wants {
    std::function<void(LogStream, std::string line)> line;  // for its log
    // Called once, later: the package, or why it cannot be run here, as a sentence.
    std::function<void(const Result<PackageInUsePtr>&)> done;
  };
  void Prepare(const v1::PackageRef& ref, const std::string& claim, Wants wants);
  // The claim wants nothing more.
  void Forget(const v1::PackageRef& ref, const std::string& claim);

  // Digests of what is unpacked here.
  std::vector<std::string> Cached() const;
  const PackagePlan& plan() const { return plan_; }

 private:
  struct Slot;
  struct Prepared;
  void Begin(Slot* slot, const v1::PackageRef& ref);
  void Arrived(const std::string& digest, const Result<Prepared>& prepared);
  void RunSetUp(const std::string& digest);
  void Finish(Slot* slot);
  void Fail(Slot* slot, const std::string& why);
  void Answer(Slot* slot, const Result<PackageInUsePtr>& answer);
  void Say(const std::string& digest, LogStream stream, const std::string& line);
  void DropIdle();

  Result<Prepared> Work(const v1::PackageRef& ref);
  Result<Ok> Fetch(const v1::PackageRef& ref, const std::string& path);
  Result<std::vector<PublicKey>> SignersOf(const v1::PackageRef& ref, const ArchiveHashes& hashes);

  Client& client_;
  Loop& loop_;
  const std::function<Keeper&()> keeper_;
  const Surroundings& surroundings_;
  const std::string name_space_;
  const PackagePlan plan_;
  const PackageCache cache_;
  TrustedKeys trusted_;
  Canceller canceller_;
  std::map<std::string, std::unique_ptr<Slot>> slots_;  // by digest
};

}  // namespace dfsmr::cli
