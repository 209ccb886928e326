// In another partition than home: what home has put, activated, removed and defined.
#include <set>

#include "dsrv/engine/catalog.h"

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"

namespace dfsmr {

void Packages::Complete(const rows::MachineRow& row, MachineVersion* version) const {
  if (row.package.empty()) return;
  version->package = below_.table.Version(row.ns, row.package, row.package_version);
  version->candidate = row.candidate;
  const auto& own = below_.options.own_machine;
  if (version->package && own) own(*version->package, &version->machine);
  version->core = CoreOf(version->machine);
}

void Packages::Adopt(Adoption adoption) {
  std::set<std::string> spaces;
  for (const auto& [name, state] : adoption.packages.all()) {
    EndCandidate(name.first, name.second);
    spaces.insert(name.first);
  }
  below_.table.Adopt(adoption.packages);
  for (AdoptedMachine& one : adoption.machines) AdoptMachine(std::move(one));
  for (const auto& [name, state] : adoption.packages.all()) {
    SetCandidate(name.first, name.second, state);
  }
  for (const std::string& ns : spaces) DeriveQueues(ns);
}

void Packages::AdoptMachine(AdoptedMachine one) {
  const rows::MachineRow& row = one.row;
  if (one.version && !below_.catalog.VersionOf(row.ns, row.id, row.version)) {
    Complete(row, one.version.get());
    Install(std::move(one.version), std::move(one.shown));
  }
  MachineState& machine = below_.catalog.StateOf(row.ns, row.id);
  if (row.retired && row.version == machine.current && !machine.retired) {
    below_.catalog.Retire(machine);
  }
}

}  // namespace dfsmr
