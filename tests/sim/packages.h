// One simulated run of packages: the real engine under crashes and writes that fail, with puts,
// activations, candidates, rollbacks and removals drawn from the seed. The auditor knows which
// version each start, task and instance must be on, what is defined, and what an archive takes.
// Keys are trusted and revoked, versions are signed, and signatures required beside that: it also
// knows what may be activated, and which versions are blocked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsrv/engine/packages.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"
#include "tests/sim/trust.h"

namespace dfsmr {

class PackageSim {
 public:
  PackageSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  // What a version holds, by the number of the version.
  struct Content {
    std::map<std::string, char> machines;  // id -> what its document says, but for its strategy
    UpgradeStrategy strategy = UpgradeStrategy::kContinue;
    bool schedule = false;
    std::string yaml;
  };
  struct Live {
    std::string machine;
    int version = 0;
    bool stopped = false;
    bool moved = false;  // by another document: its claims may be void
    bool reported = false;  // that is how it stopped
  };
  struct Model {
    std::map<int, bool> put;  // version -> whether it was removed
    int active = 0;
    int candidate = 0;
    int previous = 0;
    int before = 0;  // active before `previous`, when that was deactivated
    TrustModel trust;
    std::set<std::string> known;  // machines that were ever defined
    std::map<std::string, Live> instances;
    uint64_t activations = 0;
  };
  struct Upload {
    int version = 0;
    rows::UploadId id;
  };

  static EngineOptions Options();
  void Draw();
  void Step();
  void Commit();
  void Command(Engine& engine);
  void BeginPut(Engine& engine);
  void EndPut(Engine& engine);
  void Activate(Engine& engine);
  void Rollback(Engine& engine);
  void Deactivate(Engine& engine);
  void Remove(Engine& engine);
  void ChangeTrust(Engine& engine);
  void AddKey(Engine& engine);
  void RevokeKey(Engine& engine);
  void Sign(Engine& engine);
  void Require(Engine& engine);
  // Ready tokens say that their version is blocked, and only these.
  void AuditBlocked(Engine& engine);
  void Force(int version);  // it is active from now on
  void StartOne(Engine& engine);
  void Poll(Engine& engine);
  void Report(Engine& engine);
  rows::PackageVersionRow RowOf(int version, rows::UploadId upload) const;
  Result<Activated> Try(Engine& engine, const ActivateArgs& args);
  void MoveTo(int version);  // wholly: what becomes of the instances
  bool Has(int version, const std::string& machine) const;
  bool InUse(int version) const;
  // What the engine and the store must show.
  void Audit();
  void AuditInstances();
  void Finish();
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  Random trust_;  // apart, so that what is drawn of trust moves nothing else
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  std::map<int, Content> contents_;
  Model decided_;
  Model durable_;
  std::vector<Upload> uploads_;
  std::vector<Task> hands_;
  std::set<std::string> taken_;  // instances of which there was a task in hand
  uint64_t next_ = 0;
  std::string problem_;
};

}  // namespace dfsmr
