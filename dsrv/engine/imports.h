// Imports: what another server has exported of a namespace. Definitions, packages and what is in
// force come in one commit, and only if nothing stands in the way; then instances, some at a time.
// What is there already, as it is brought, is skipped, so an import that broke off is repeated
// whole.
//
// What comes was read and found sound elsewhere (calls), off the deciding thread; here is decided
// whether it fits what there is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/compile.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/space_views.h"
#include "dsrv/engine/types.h"
#include "storage/rows/carried.h"
#include "storage/rows/group.h"
#include "storage/rows/package.h"
#include "storage/rows/trust.h"

namespace dfsmr {

struct Import {
  struct Package {
    rows::PackageVersionRow row;  // whose upload is complete
    std::vector<rows::SignatureRow> signatures;
  };
  // A version that is put in force: the documents `machines` and `documents` of the sources, each
  // from its first to behind its last.
  struct Force {
    std::string package;
    std::string version;
    uint32_t share = 0;  // of a candidate; 0: it is the active one
    std::pair<size_t, size_t> machines;
    std::pair<size_t, size_t> documents;
  };
  // A version that instances run on.
  struct Version {
    rows::MachineRow row;
    Machine machine;
    std::shared_ptr<const Machine> shown;
  };

  std::string ns;
  std::string by;
  bool validate_only = false;

  // Only where the import makes the namespace.
  SpaceChange settings;
  std::vector<rows::TrustedKeyRow> keys;  // those that are revoked have a time

  std::vector<Version> versions;  // by id and number
  std::map<std::string, rows::GroupRow> groups;
  std::map<std::string, rows::LimitOverride> limits;  // by key; those that have numbers keep these
  std::vector<rows::CarriedRow> graphs;  // that instances share, under the names they have here
  std::vector<Package> packages;
  std::vector<Force> forces;  // those that are active, then candidates
  // What was defined by hand, and then the documents of `forces`, with names in full.
  Sources sources;
  size_t machines_by_hand = 0;
  size_t documents_by_hand = 0;
};

struct Imported {
  uint64_t definitions = 0;
  uint64_t packages = 0;
  uint64_t instances = 0;
  uint64_t already_there = 0;
  bool made = false;  // the namespace
  bool follows = false;  // some instances begin after those of other partitions
};

// The rows of one instance, its own first.
using CarriedInstance = std::vector<rows::CarriedRow>;
// Names of graphs that instances share: as they come, and as they are here.
using GraphNames = std::map<std::string, std::string>;

class Imports {
 public:
  struct Below {
    OpenTurn& turn;
    Spaces& spaces;
    Catalog& catalog;
    Documents& documents;
    Statistics& statistics;
    Residents& residents;
    Trust& trust;
    Schedules& schedules;
    Triggers& triggers;
    Limits& limits;
    Groups& groups;
    Packages& packages;
    Followers& followers;
    const std::vector<Part*>& parts;
    const EngineOptions& options;
  };
  explicit Imports(const Below& below) : b_(below) {}
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  // All or none, in one commit. nullopt: something else was defined since it was compiled; compile
  // again. ID_TAKEN, VERSION_EXISTS, NO_SUCH_NAMESPACE, NAMESPACE_DELETING, QUOTA_EXCEEDED, and as
  // activations are refused.
  std::optional<Result<Imported>> Bring(Import* import, const Compiled& compiled);
  // Instances whose versions are there. Each goes on where it stood; claims are void. How many
  // came, and how many were there already. ID_TAKEN: another instance has the id; those before it
  // came.
  Result<Imported> Restore(const std::string& ns, const std::string& by, const GraphNames& graphs,
                           const std::vector<CarriedInstance>& instances);
  // Of several partitions, once all instances are there: those that begin after instances elsewhere
  // ask these partitions to tell.
  Result<Imported> Follow(const std::string& ns, const std::vector<CarriedInstance>& instances);
  // In another partition than home: groups that are paused.
  Result<Ok> RestoreGroups(const std::string& ns,
                           const std::map<std::string, rows::GroupRow>& groups);

 private:
  Result<Ok> CheckPackages(const Import& import, Imported* done);
  Result<Ok> CheckForces(const Import& import) const;
  Result<Ok> CheckVersions(const Import& import) const;
  Result<Ok> CheckDefinitions(const Import& import, Imported* done);
  Result<Ok> CheckDocuments(const Import& import, Imported* done);
  Result<Ok> CheckSole(const Import& import) const;
  Result<Ok> CheckOwned(const Import& import);
  void Make(const Import& import);
  void AddPackage(Import::Package* package);
  void AddVersions(Import* import);
  void AddDefinitions(Import* import, const Compiled& compiled, Imported* done);
  void AddDocument(const Import& import, Document document, const PackageVersionPtr& package);
  void PutInForce(Import* import, const Import::Force& force, const Compiled& compiled);

  Result<bool> RestoreOne(const std::string& ns, const std::string& by, const GraphNames& graphs,
                          const CarriedInstance& rows);
  struct Read;  // an instance, before it is in memory
  Result<Read> ReadOne(const std::string& ns, const std::string& id, const GraphNames& graphs);
  Result<Ok> FetchGraph(const std::string& ns, const std::string& name);
  void Load(Resident& resident, const std::string& by);
  Result<bool> IsThere(const std::string& ns, const std::string& id, const CarriedInstance& rows);
  // What it begins after, and lives elsewhere.
  std::vector<std::string> ElsewhereOf(const Instance& instance) const;
  void VoidClaims(Instance* instance, const Machine& machine) const;

  const Below b_;
};

}  // namespace dfsmr
