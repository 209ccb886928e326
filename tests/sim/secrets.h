// One simulated run of secrets: the real engine under crashes and writes that fail, with secrets
// put and deleted, keys that come and go, workers that ask, and a namespace that is deleted. The
// auditor knows each value, under which numbers and keys it must be there, who may have it, and
// that no row of the store shows it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/secrets.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr {

class SecretSim {
 public:
  SecretSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  using Name = std::pair<std::string, std::string>;  // namespace and secret
  struct Known {
    uint32_t last = 0;
    std::map<uint32_t, std::string> values;  // by version
  };
  struct Model {
    std::map<Name, Known> secrets;
    std::vector<Task> over;  // tasks that nobody may report on any more
    bool deleting = false;   // the namespace "other"
  };

  void SetUp();
  void Step();
  void Commit();
  void Command(Engine& engine);
  void Put(Engine& engine);
  void Delete(Engine& engine);
  void SetKeys(Engine& engine);
  void DeleteNamespace(Engine& engine);
  void StartOne(Engine& engine);
  void Poll(Engine& engine);
  void EndOne(Engine& engine);
  void Ask(Engine& engine);
  Name AnyName();
  // What the store and the engine must show.
  void Audit();
  void AuditVersions(const std::map<Name, Known>& known);
  void AuditRows(const std::map<Name, Known>& known);
  void Finish();
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  SecretKeysPtr keys_;
  Model decided_;
  Model durable_;
  std::vector<Task> hands_;
  uint64_t next_ = 0;
  uint64_t next_key_ = 0;
  std::string problem_;
};

}  // namespace dfsmr
