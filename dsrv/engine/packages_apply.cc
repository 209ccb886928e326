// What an activation does once nothing refuses it: versions are added and retired, and what is in
// force changes.
#include <utility>

#include "dsrv/engine/packages.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/trust.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/upgrades.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

constexpr uint64_t kActivationsKept = 1'000;  // of a package

rows::DefinedAs DefinedBy(const std::vector<DocumentChange>& changes) {
  rows::DefinedAs defined;
  for (const DocumentChange& one : changes) {
    if (DocumentKindNamed(one.kind)) defined[one.kind + ":" + one.id] = one.version;
  }
  return defined;
}

// As what its schedules, triggers and limits are defined.
void KeepDefined(const rows::Writer& writer, rows::DefinedAs defined, PackageState::Known& known) {
  if (defined == known.defined_as) return;
  const PackageVersion& version = *known.version;
  rows::PutDefined(writer, version.ns, version.package, version.version, defined);
  known.defined_as = std::move(defined);
}

// A document that is the same in the next version costs little more than its text: what it was
// compiled to is that of the version before.
void ShareEqual(const MachineVersion& latest, Machine* machine) {
  const bool equal = latest.package && latest.machine.fingerprint == machine->fingerprint &&
                     latest.core == CoreOf(*machine);
  if (!equal) return;
  std::string source = std::move(machine->source);
  *machine = latest.machine;
  machine->source = std::move(source);
}

}  // namespace

void Packages::Apply(const ActivateArgs& args, const PackageVersionPtr& version, Plan plan,
                     Sources* sources, const Compiled& compiled) {
  PackageState& state = below_.table.StateOf(args.ns, args.package);
  rows::PackageRow force = state.force;
  EndCandidate(args.ns, args.package);
  const PackageVersionPtr active = below_.table.Active(args.ns, args.package);
  /*mutant activation-retires-nothing*/ if (active) {
    ApplyRetired(args.ns, *active, plan.retired);
  } /*end*/
  size_t at = 0;
  for (size_t i = 0; i < sources->machines.size(); ++i, ++at) {
    if (const VersionState* latest =
            below_.catalog.VersionOf(args.ns, sources->machines[i].id, 0)) {
      ShareEqual(*latest->definition, &sources->machines[i]);
    }
    MachineVersion added{.ns = args.ns,
                         .version = plan.changes[at].version,
                         .machine = std::move(sources->machines[i]),
                         .define_time = below_.turn.now()};
    added.package = version;
    added.candidate = args.share > 0;
    added.core = CoreOf(added.machine);
    AddVersion(std::move(added), compiled.shown[i]);
  }
  for (; at < plan.changes.size(); ++at) {
    const DocumentChange& change = plan.changes[at];
    Document& document = sources->documents[at - sources->machines.size()];
    if (change.what == DocumentChange::What::kSame) continue;
    const Defined one{Name(document.kind()), change.id, change.version, true, {}, 0};
    below_.documents.Add(args.ns, one, std::move(document), version);
  }
  if (args.share > 0) {
    force.candidate = version->version;
    force.share = args.share;
  } else {
    // After a deactivation what was active before it is the one that this goes on from, or is.
    const bool back = force.active.empty() && force.previous == version->version;
    if (back) force.previous = force.before;
    if (!force.active.empty()) force.previous = force.active;
    force.before.clear();
    force.active = version->version;
    force.candidate.clear();
    force.share = 0;
  }
  if (args.share == 0) {
    KeepDefined(below_.turn.writer(), DefinedBy(plan.changes), state.versions.at(version->version));
  }
  PutForce(args, state, version, force);
  SetCandidate(args.ns, args.package, state);
}

void Packages::AddVersion(MachineVersion version, std::shared_ptr<const Machine> shown) {
  auto definition = std::make_shared<const MachineVersion>(std::move(version));
  rows::MachineRow row{definition->ns, definition->machine.id, definition->version,
                       definition->machine.source, definition->define_time};
  Event event;
  event.kind = ChangeKind::kDefined;
  event.time = below_.turn.now();
  event.ns = definition->ns;
  event.machine = definition->machine.id;
  event.version = definition->version;
  if (const PackageVersionPtr& package = definition->package) {
    row.package = package->package;
    row.package_version = package->version;
    row.candidate = definition->candidate;
    event.package = Event::Package{package->package, package->version, package->digest};
  }
  row.graph = GraphKept(shown);
  rows::PutMachine(below_.turn.writer(), row);
  below_.statistics.Record(&event, nullptr);
  Install(std::move(definition), std::move(shown));
}

void Packages::Install(MachineVersionPtr version, std::shared_ptr<const Machine> shown) {
  VersionState& added = below_.catalog.Add(version, std::move(shown));
  const bool moves = version->machine.upgrade_strategy != UpgradeStrategy::kContinue;
  if (moves && version->version > 1 && !version->candidate) below_.upgrades.LeaveBehind(added);
}

void Packages::RetireMachine(MachineState& machine, const PackageVersion& package) {
  const VersionState& state = machine.versions.at(machine.current);
  const MachineVersion& definition = *state.definition;
  rows::PutMachine(
      below_.turn.writer(),
      {definition.ns, definition.machine.id, definition.version, definition.machine.source,
       definition.define_time, package.package, definition.package->version, definition.candidate,
       /*retired=*/true, GraphKept(state.plan ? state.shown : nullptr)});
  below_.catalog.Retire(machine);
  Event event;
  event.kind = ChangeKind::kRetired;
  event.time = below_.turn.now();
  event.ns = definition.ns;
  event.machine = definition.machine.id;
  event.version = definition.version;
  event.package = Event::Package{package.package, package.version, package.digest};
  below_.turn.Append(&event);
}

void Packages::Retire(const std::string& ns, const std::string& id) {
  MachineState& machine = below_.catalog.StateOf(ns, id);
  if (machine.current == 0 || machine.retired) return;
  const PackageVersionPtr package = machine.versions.at(machine.current).definition->package;
  if (package) RetireMachine(machine, *package);
}

void Packages::ApplyRetired(const std::string& ns, const PackageVersion& package,
                            const std::vector<DocumentChange>& retired) {
  for (const DocumentChange& one : retired) {
    if (auto kind = DocumentKindNamed(one.kind)) {
      (void)below_.documents.Retire({ns, *kind, one.id}, package);
      continue;
    }
    MachineState& machine = below_.catalog.StateOf(ns, one.id);
    if (machine.current > 0 && !machine.retired) RetireMachine(machine, package);
  }
}

void Packages::PutForce(const ActivateArgs& args, PackageState& state,
                        const PackageVersionPtr& version, rows::PackageRow force) {
  const bool any = !force.active.empty();
  rows::ActivationRow row{below_.turn.now(),
                          any ? version->version : "",
                          any ? version->digest : "",
                          force.candidate == version->version ? force.share : 0,
                          args.rollback,
                          args.by,
                          args.note};
  rows::PutActivation(below_.turn.writer(), args.ns, version->package, ++force.activations, row);
  if (force.activations > kActivationsKept) {
    rows::DropActivation(below_.turn.writer(), args.ns, version->package,
                         force.activations - kActivationsKept);
  }
  /*mutant activation-not-durable*/ rows::PutPackage(below_.turn.writer(), args.ns,
                                                     version->package, force); /*end*/
  state.force = std::move(force);
  below_.trust.ActiveChanged(args.ns);
  DeriveQueues(args.ns);
  Tell(any ? ChangeKind::kPackageActivated : ChangeKind::kPackageDeactivated, *version, args.by,
       args.note);
}

void Packages::DeriveQueues(const std::string& ns) {
  below_.agenda.Derive(ns, [this](QueueKey* key) {
    const VersionState* of =
        key->version > 0 ? below_.catalog.VersionOf(key->ns, key->machine, key->version) : nullptr;
    below_.table.Derive(of ? of->Now().definition->package : nullptr, key);
  });
}

void Packages::PutInForce(const std::string& ns, const PackageVersionPtr& version, uint32_t share,
                          const rows::DefinedAs& defined, const std::string& by) {
  PackageState& state = below_.table.StateOf(ns, version->package);
  ActivateArgs args;
  args.ns = ns;
  args.package = version->package;
  args.by = by;
  args.note = "imported";
  rows::PackageRow force = state.force;
  if (share > 0) {
    force.candidate = version->version;
    force.share = share;
  } else {
    force.active = version->version;
    KeepDefined(below_.turn.writer(), defined, state.versions.at(version->version));
  }
  PutForce(args, state, version, force);
  SetCandidate(ns, version->package, state);
}

// Starts by name of what both versions have go to the candidate in its share.
void Packages::SetCandidate(const std::string& ns, const std::string& package,
                            const PackageState& state) {
  if (state.force.candidate.empty()) return;
  const PackageVersionPtr candidate = below_.table.Version(ns, package, state.force.candidate);
  if (!candidate) return;
  for (const auto& [id, version] : below_.catalog.OwnVersions(*candidate)) {
    version->machine->candidate = version;
    version->machine->share = state.force.share;
  }
}

void Packages::EndCandidate(const std::string& ns, const std::string& package) {
  const PackageState* state = below_.table.Find(ns, package);
  if (!state || state->force.candidate.empty()) return;
  const PackageVersionPtr candidate = below_.table.Version(ns, package, state->force.candidate);
  for (const auto& [id, version] : below_.catalog.OwnVersions(*candidate)) {
    version->machine->candidate = /*mutant candidate-never-ends*/ nullptr /*end*/;
  }
}

}  // namespace dfsmr
