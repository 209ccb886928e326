// What is defined, by namespace and id: machines with their versions, nodes and graphs. Versions
// are never removed. One thread, except for the registry.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/compile.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/registry.h"
#include "storage/rows/instance.h"

namespace dfsmr {

// The refusal when a machine has no such version. Version 0: there is no such machine.
Error NoSuchMachine(const std::string& ns, const std::string& id, uint32_t version);

// Of what a document says but for its description and upgrade_strategy, and of what it names.
using Core = std::pair<uint64_t, uint64_t>;
Core CoreOf(const Machine& machine);
// Whether both are of packages, and the same but for description and upgrade_strategy.
bool SameButPrograms(const MachineVersion& one, const MachineVersion& other);

// What is kept of a plan's nodes; empty: of a plain machine nothing is. And back; null: nothing is
// kept, or it is damaged.
std::string GraphKept(const std::shared_ptr<const Machine>& shown);
std::shared_ptr<const Machine> ShownOf(const std::string& id, std::string_view graph);

// Whether an instance of a plan stands only where its graph has nodes.
bool Fits(const Instance& instance, const Machine& machine);

class Catalog {
 public:
  Catalog(OpenTurn& turn, const EngineOptions& options) : turn_(turn), options_(options) {}

  const Registry& registry() const { return registry_; }
  rows::Resolve resolve() const { return registry_.resolve(); }

  MachineState& StateOf(const std::string& ns, const std::string& id);  // made when missing
  MachineState* Find(const std::string& ns, const std::string& id) const;  // null: there is none
  // Version 0 is the one that the name means: the latest, unless that is a candidate. Null: there
  // is no such version.
  VersionState* VersionOf(std::string_view ns, std::string_view id, uint32_t version);
  // The version that an instance is pinned to.
  VersionState* VersionFor(const Instance& instance);
  // The version 0 of `machine`, for instances of what nobody has defined: flows sent with Start,
  // and actions that hooks name. Made when missing.
  VersionState& ImplicitVersion(const std::string& ns, const std::string& machine);
  const std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>>& machines()
      const {
    return machines_;
  }

  // The result that defining `machine` would have.
  Defined Preview(const std::string& ns, const Machine& machine);
  // Adds the next version of a machine. `shown`: a plan's nodes.
  VersionState& Add(MachineVersionPtr definition, std::shared_ptr<const Machine> shown);
  // What the package version brings, by id, each at its newest; an empty map: nothing.
  const std::map<std::string, VersionState*>& OwnVersions(const PackageVersion& package) const;
  // What the package version brings under this id, newest first, whether it is active or not. Null:
  // nothing.
  VersionState* OwnVersion(const PackageVersion& package, const std::string& id) const;
  // The version that `id` means to an instance of `version`: its package's own, or one that has
  // moved its instances since. 0: the one that the name means.
  uint32_t VersionMeantBy(const VersionState& version, const std::string& id) const;
  // The id that `name` means to an instance of `version`: its package's own machine or plan, if it
  // has one.
  std::string NameMeantBy(const VersionState& version, const std::string& name) const;
  // Whether an instance of `version` is of that version of the package that has the machine `id`.
  bool IsOwn(const VersionState& version, const std::string& id,
             const std::string& package_version) const;
  // The package that an id belongs to: it was activated, or is a candidate. Null: it is free, or
  // was defined by hand.
  PackageVersionPtr OwnerOf(const std::string& ns, const std::string& id) const;
  // Its package no longer has it: starts from outside are refused.
  void Retire(MachineState& machine);
  // At start, when all versions are added: compiles those plans that were stored without what they
  // had been compiled to, under the present definitions.
  void CompileDefined();
  // The present definitions. Each definition that is added makes another set.
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns);
  // As a version of a package sees them, which has documents of its own. Null is nobody's.
  std::shared_ptr<const DefinitionSet> DefinitionsOf(const std::string& ns,
                                                     const PackageVersion* package);
  // Without what a package has.
  std::shared_ptr<const DefinitionSet> DefinitionsWithout(const std::string& ns,
                                                          const std::string& package);

  // A graph of the version, a plan's, with the nodes of `machine`. A large one is freed where that
  // holds up no other work.
  GraphPtr GraphOf(VersionState& version, std::shared_ptr<const Machine> machine) const;
  // The graph of an instance from the store. kDataLoss: it does not fit the instance. Of one that
  // has stopped it is that of its version, unless `resumed` says that it is to go on.
  Result<GraphPtr> LoadGraph(const Instance& instance, VersionState& version,
                             bool resumed = false);
  // The graph to use for `graph` under the name that `instance` has for it: the one in the store if
  // there is one, so that all instances that share the name use the same graph. Otherwise stores
  // `row`, which is the row of `graph`.
  GraphPtr Share(const Instance& instance, VersionState& version, GraphPtr graph, std::string row);

  Result<MachineView> GetMachine(const std::string& ns, const std::string& id, uint32_t version);
  // Ordered by (id, version) after `after`, at most `limit`.
  std::vector<MachineView> ListMachines(const std::string& ns, bool all_versions,
                                        const std::pair<std::string, uint32_t>& after,
                                        size_t limit) const;

  // For namespaces.h -----------------------------------------------------------------------------

  struct Counts {
    uint64_t live = 0;
    uint64_t stopped = 0;
    uint64_t ready = 0;
    uint64_t claimed = 0;
    uint64_t defined = 0;  // ids
  };
  // Adds up what the machines of a namespace count.
  Counts CountsOf(const std::string& ns) const;
  uint64_t DefinedIn(const std::string& ns) const;
  // From now on the machines of a namespace count there, too; null: they do not.
  void CountIn(const std::string& ns, SpaceCounts* counts);
  // Forgets all machines of a namespace without instances. What they were stays valid, since other
  // threads may read it and timers may name it. Visits each before.
  void Forget(const std::string& ns, const std::function<void(MachineState&)>& visit);
  void SetFeedFloor(const std::string& ns, uint64_t seq) { registry_.SetFeedFloor(ns, seq); }

 private:
  Result<GraphPtr> GraphOfPlan(const Instance& instance, VersionState& version);
  void SetDestinations(MachineState& machine, VersionState& latest);
  void Changed(const std::string& ns);
  MachineView View(const VersionState& version) const;

  OpenTurn& turn_;
  const EngineOptions& options_;
  Registry registry_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<MachineState>> machines_;
  using Sets = std::map<std::pair<std::string, std::string>, std::shared_ptr<const DefinitionSet>>;
  std::map<std::string, std::shared_ptr<const DefinitionSet>> definitions_;  // by namespace
  Sets of_packages_;  // by namespace, and package version
  Sets without_;      // by namespace and package
  // By package version and id: the newest machine version of each.
  std::map<const PackageVersion*, std::map<std::string, VersionState*>> own_;
  std::map<std::string, SpaceCounts*> counted_;  // by namespace
  std::vector<std::unique_ptr<MachineState>> forgotten_;
};

}  // namespace dfsmr
