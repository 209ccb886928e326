// Activation: which documents come, change and go, and which version starts by name are on.
#include <algorithm>
#include <utility>

#include "dsrv/engine/packages.h"
#include "dsrv/engine/references.h"
#include "fsm/base/names.h"
#include "storage/rows/document.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

constexpr uint64_t kActivationsKept = 1'000;  // of a package

std::optional<DocumentKind> DocumentKindNamed(std::string_view kind) {
  for (DocumentKind one : kDocumentKinds) {
    if (Name(one) == kind) return one;
  }
  return std::nullopt;
}

Error BadRequest(std::string text) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(text)};
}

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

// The version that is meant, and what is in force.
struct Packages::Target {
  PackageVersionPtr version;
  rows::UploadId upload;
  const PackageState* state = nullptr;
};

struct Packages::Plan {
  std::vector<DocumentChange> changes;  // of machines, then of documents, as in the sources
  std::vector<DocumentChange> retired;
};

// What is asked for -----------------------------------------------------------------------------

Result<Packages::Target> Packages::TargetOf(const ActivateArgs& args) const {
  const PackageState* state = below_.table.Find(args.ns, args.package);
  if (!args.rollback) {
    auto known = Find(args.ns, args.package, args.version);
    if (!known) return known.error();
    state = below_.table.Find(args.ns, known->version->package);
    return Target{known->version, known->upload, state};
  }
  if (!state) return Find(args.ns, args.package, "").error();
  if (!state->force.candidate.empty()) {
    return Target{below_.table.Active(args.ns, args.package), {}, state};
  }
  const std::string& previous = state->force.previous;
  const PackageState::Known* known = previous.empty() ? nullptr : state->Find(previous);
  if (known) return Target{known->version, known->upload, state};
  return Error{Code::kFailedPrecondition, Reason::kNoPrevious,
               previous.empty()
                   ? "no other version of package " + Quoted(args.package) + " was active before"
                   : "version " + previous + " of package " + Quoted(args.package) +
                         " was active before, and has been removed"};
}

Result<Ok> Packages::CheckActive(const ActivateArgs& args, const PackageState& state) const {
  if (!args.if_active || *args.if_active == state.force.active) return Ok{};
  const std::string& active = state.force.active;
  return Error{
      Code::kFailedPrecondition, Reason::kActiveChanged,
      "of package " + Quoted(args.package) +
          (active.empty() ? " no version is active" : " version " + active + " is active") +
          (args.if_active->empty() ? ", although none was expected" : ", not " + *args.if_active)};
}

std::optional<Result<Activated>> Packages::WithoutCompiling(const ActivateArgs& args,
                                                            const Target& target) {
  const PackageState& state = *target.state;
  const std::string& active = state.force.active;
  Activated done{
      below_.table.Active(args.ns, target.version ? target.version->package : args.package),
      active,
      false,
      {}};
  const bool back = args.share == 0 && (args.rollback || target.version->version == active);
  const bool ends_candidate = back && !state.force.candidate.empty();
  if (!ends_candidate && target.version->version == active) return Result<Activated>(done);
  if (!ends_candidate) {
    if (auto may = below_.trust.MayUse(*target.version); !may) {
      return Result<Activated>(may.error());
    }
  }
  if (args.share > 0 && active.empty()) {
    return Result<Activated>(
        BadRequest("a candidate stands beside an active version, and of package " +
                   Quoted(target.version->package) + " none is active: activate it wholly"));
  }
  const bool other_share = args.share > 0 && state.force.candidate == target.version->version;
  if (!ends_candidate && !other_share) return std::nullopt;
  done.changed = ends_candidate || args.share != state.force.share;
  if (!done.changed || args.validate_only) return Result<Activated>(done);
  rows::PackageRow force = state.force;
  force.share = ends_candidate ? 0 : args.share;
  if (ends_candidate) force.candidate.clear();
  PackageState& changed = below_.table.StateOf(args.ns, target.version->package);
  EndCandidate(args.ns, target.version->package);
  PutForce(args, changed, target.version, force);
  SetCandidate(args.ns, target.version->package, changed);
  if (other_share) done.package = target.version;
  return Result<Activated>(done);
}

Result<Packages::Asked> Packages::Ask(const ActivateArgs& args) {
  if (auto may = below_.spaces.MayChange(args.ns); !may) return may.error();
  auto target = TargetOf(args);
  if (!target) return target.error();
  if (auto active = CheckActive(args, *target->state); !active) return active.error();
  Asked asked;
  if (auto done = WithoutCompiling(args, *target)) {
    if (!*done) return done->error();
    asked.done = **std::move(done);
    return asked;
  }
  asked.version = target->version;
  asked.upload = target->upload;
  asked.under = below_.catalog.DefinitionsWithout(args.ns, target->version->package);
  return asked;
}

// What it comes to ------------------------------------------------------------------------------

DocumentChange Packages::ChangeOf(const ActivateArgs& args, const Machine& machine) const {
  using What = DocumentChange::What;
  DocumentChange change{std::string(KindName(machine.defined_as)),
                        machine.id,
                        1,
                        What::kAdded,
                        machine.upgrade_strategy,
                        0};
  const auto known = below_.catalog.machines().find({args.ns, machine.id});
  if (known == below_.catalog.machines().end() || known->second->versions.empty()) return change;
  const MachineState& state = *known->second;
  change.version = state.versions.rbegin()->first + 1;
  const Core core = CoreOf(machine);
  const auto same = [&core](const VersionState& one) {
    return one.definition->package && one.definition->core == core;
  };
  if (state.current > 0 && !state.retired) {
    const VersionState& current = state.versions.at(state.current);
    change.what = !current.definition->package ? What::kAdopted
                  : same(current)              ? What::kSame
                                               : What::kChanged;
  }
  const bool moves = machine.upgrade_strategy != UpgradeStrategy::kContinue && args.share == 0;
  for (const auto& [number, version] : state.versions) {
    if (moves && number > 0) change.affected += version.Alive();
  }
  return change;
}

Result<DocumentChange> Packages::ChangeOf(const ActivateArgs& args, const Document& document) {
  using What = DocumentChange::What;
  const rows::DocumentName name{args.ns, document.kind(), document.name};
  auto one = below_.documents.Preview(args.ns, document);
  if (!one) return one.error();
  auto stands = below_.documents.Stands(name);
  if (!stands) return stands.error();
  auto owner = below_.documents.OwnerOf(name);
  if (!owner) return owner.error();
  DocumentChange change{std::string(one->kind), one->id, one->version, What::kAdded, {}, 0};
  if (!*stands) return change;
  bool changed = one->changed || owner->empty();
  if (!changed) {
    auto latest = below_.documents.Find(name);
    if (!latest) return latest.error();
    changed = NamesIn(*latest->document) != NamesIn(document);
  }
  if (changed && !one->changed) ++change.version;
  change.what = owner->empty() ? What::kAdopted : changed ? What::kChanged : What::kSame;
  return change;
}

std::optional<Error> Packages::Taken(const ActivateArgs& args,
                                     const std::vector<std::string>& ids) const {
  if (ids.empty() || args.adopt) return std::nullopt;
  return Error{Code::kFailedPrecondition, Reason::kIdTaken,
               "of package " + Quoted(args.package) + " these are defined by hand already: " +
                   Listed(ids) + "; to take them over as its next versions, adopt them (--adopt)"};
}

std::vector<DocumentChange> Packages::RetiredBy(const std::string&, const PackageVersionPtr& active,
                                                const PackageVersion* next) {
  std::vector<DocumentChange> retired;
  if (!active) return retired;
  const auto kind_of = [](const std::string& kind) {  // machines, plans and actions share their ids
    return DocumentKindNamed(kind) ? kind : std::string();
  };
  for (const PackageVersion::Document& one : active->documents) {
    const bool stays = next && std::ranges::any_of(next->documents, [&](const auto& other) {
                         return other.id == one.id && kind_of(other.kind) == kind_of(one.kind);
                       });
    if (stays) continue;
    retired.push_back(
        {one.kind, active->package + "." + one.id, 0, DocumentChange::What::kRetired, {}, 0});
  }
  for (DocumentChange& one : retired) {
    const VersionState* version = below_.catalog.VersionOf(active->ns, one.id, 0);
    if (DocumentKindNamed(one.kind) || !version) continue;
    one.version = version->definition->version;
    one.strategy = version->definition->machine.upgrade_strategy;
  }
  return retired;
}

// Those outside of the package that name what is to be retired.
Result<std::vector<std::string>> Packages::NamersOf(const std::string& ns,
                                                    const std::string& package,
                                                    const std::vector<DocumentChange>& retired) {
  std::set<std::string> gone;
  for (const DocumentChange& one : retired) {
    gone.insert((DocumentKindNamed(one.kind) ? one.kind + ":" : "") + one.id);
  }
  std::vector<std::string> namers;
  const auto look = [&](std::string_view kind, const std::string& id,
                        const std::set<std::string>& names) {
    std::vector<std::string> named;
    for (const std::string& name : names) {
      if (gone.contains(name)) named.push_back(Quoted(name));
    }
    if (named.empty()) return;
    namers.push_back(std::string(kind) + " " + Quoted(id) + " names " + Listed(named));
  };
  const auto others = below_.catalog.DefinitionsWithout(ns, package);
  for (const MachineVersionPtr& one : others->kept) {
    look(KindName(one->machine.defined_as), one->machine.id, NamesIn(one->machine));
  }
  for (DocumentKind kind : kDocumentKinds) {
    std::vector<std::string> standing;
    auto scanned = rows::ScanDocuments(below_.turn.reader(), ns, kind, "",
                                       [&](std::string_view name, const rows::DocumentHead& head) {
                                         if (!head.deleted && head.package != package) {
                                           standing.emplace_back(name);
                                         }
                                         return true;
                                       });
    if (!below_.turn.Trust(scanned)) return scanned.error();
    for (const std::string& name : standing) {
      auto found = below_.documents.Find({ns, kind, name});
      if (!found) return found.error();
      look(Name(kind), name, NamesIn(*found->document));
    }
  }
  return namers;
}

Result<Ok> Packages::CheckNamed(const ActivateArgs& args,
                                const std::vector<DocumentChange>& retired) {
  if (retired.empty() || args.force) return Ok{};
  auto namers = NamersOf(args.ns, args.package, retired);
  if (!namers) return namers.error();
  if (namers->empty()) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kPackageInUse,
               "documents would be retired that others still name: " + Listed(*namers) +
                   "; change these first, or retire them all the same (--force)"};
}

// Whether the quota of the namespace has room for what is new.
Result<Ok> Packages::CheckRoom(const ActivateArgs& args, const Plan& plan) const {
  uint64_t more = 0;
  for (const DocumentChange& one : plan.changes) {
    if (one.what == DocumentChange::What::kAdded) ++more;
  }
  if (more <= plan.retired.size()) return Ok{};
  return below_.spaces.MayDefine(args.ns, more - plan.retired.size());
}

Result<Packages::Plan> Packages::PlanOf(const ActivateArgs& args, const PackageVersionPtr& version,
                                        const Sources& sources) {
  Plan plan;
  std::vector<std::string> taken;
  for (const Machine& machine : sources.machines) {
    plan.changes.push_back(ChangeOf(args, machine));
  }
  if (args.share == 0) {
    for (const Document& document : sources.documents) {
      auto change = ChangeOf(args, document);
      if (!change) return change.error();
      plan.changes.push_back(*std::move(change));
    }
    plan.retired =
        RetiredBy(args.ns, below_.table.Active(args.ns, version->package), version.get());
  }
  for (const DocumentChange& one : plan.changes) {
    if (one.what == DocumentChange::What::kAdopted) taken.push_back(one.kind + " " + one.id);
  }
  if (auto refused = Taken(args, taken)) return *std::move(refused);
  if (auto free = CheckNamed(args, plan.retired); !free) return free.error();
  if (auto room = CheckRoom(args, plan); !room) return room.error();
  if (args.share > 0) return plan;
  Owners owners;
  below_.triggers.AddOwners(args.ns, sources.documents, &owners);
  below_.limits.AddOwners(args.ns, sources.documents, &owners);
  const auto clashes = CheckOwners(sources.documents, std::move(owners));
  if (clashes.empty()) return plan;
  const Document& first = sources.documents[clashes.front().document];
  return Error{Code::kInvalidArgument, Reason::kBadRequest,
               std::string(Name(first.kind())) + " " + Quoted(first.name) + ": " +
                   clashes.front().problem.message};
}

// What is done ----------------------------------------------------------------------------------

std::optional<Result<Activated>> Packages::Activate(const ActivateArgs& given, Sources* sources,
                                                    const Compiled& compiled) {
  ActivateArgs args = given;
  if (auto may = below_.spaces.MayChange(args.ns); !may) return Result<Activated>(may.error());
  auto target = TargetOf(args);
  if (!target) return Result<Activated>(target.error());
  if (auto active = CheckActive(args, *target->state); !active) {
    return Result<Activated>(active.error());
  }
  if (auto done = WithoutCompiling(args, *target)) return done;
  args.package = target->version->package;
  if (compiled.under != below_.catalog.DefinitionsWithout(args.ns, args.package)) {
    return std::nullopt;
  }
  if (!compiled.Sound()) {
    return Result<Activated>(Error{Code::kInvalidArgument, Reason::kBadPackage,
                                   compiled.problems.front().problem.message});
  }
  if (auto full = args.validate_only ? std::nullopt : below_.turn.NeedsRoom(Room::kAmple)) {
    return Result<Activated>(*std::move(full));
  }
  auto plan = PlanOf(args, target->version, *sources);
  if (!plan) return Result<Activated>(plan.error());
  Activated done{target->version, target->state->force.active, true, plan->changes};
  std::ranges::copy(plan->retired, std::back_inserter(done.documents));
  if (!args.validate_only) Apply(args, target->version, *std::move(plan), sources, compiled);
  return Result<Activated>(std::move(done));
}

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
  VersionState& added = below_.catalog.Add(definition, std::move(shown));
  below_.statistics.Record(&event, nullptr);
  const bool moves = definition->machine.upgrade_strategy != UpgradeStrategy::kContinue;
  if (moves && definition->version > 1 && !definition->candidate) {
    below_.upgrades.LeaveBehind(added);
  }
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
  below_.agenda.Derive(args.ns, [this](QueueKey* key) {
    const VersionState* of =
        key->version > 0 ? below_.catalog.VersionOf(key->ns, key->machine, key->version) : nullptr;
    below_.table.Derive(of ? of->Now().definition->package : nullptr, key);
  });
  Tell(any ? ChangeKind::kPackageActivated : ChangeKind::kPackageDeactivated, *version, args.by,
       args.note);
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
  for (const PackageVersion::Document& one : candidate->documents) {
    VersionState* version = below_.catalog.OwnVersion(*candidate, package + "." + one.id);
    if (DocumentKindNamed(one.kind) || !version) continue;
    version->machine->candidate = version;
    version->machine->share = state.force.share;
  }
}

void Packages::EndCandidate(const std::string& ns, const std::string& package) {
  const PackageState* state = below_.table.Find(ns, package);
  if (!state || state->force.candidate.empty()) return;
  const PackageVersionPtr candidate = below_.table.Version(ns, package, state->force.candidate);
  for (const PackageVersion::Document& one : candidate->documents) {
    VersionState* version = below_.catalog.OwnVersion(*candidate, package + "." + one.id);
    /*mutant candidate-never-ends*/ if (version)
      version->machine->candidate = nullptr; /*end*/
  }
}

Result<Activated> Packages::Deactivate(const ActivateArgs& args) {
  const PackageState* found = below_.table.Find(args.ns, args.package);
  if (!found) return Find(args.ns, args.package, "").error();
  if (auto active = CheckActive(args, *found); !active) return active.error();
  const PackageVersionPtr active = below_.table.Active(args.ns, args.package);
  Activated done{nullptr, found->force.active, active != nullptr,
                 RetiredBy(args.ns, active, nullptr)};
  if (!active) return done;
  if (auto free = CheckNamed(args, done.documents); !free) return free.error();
  if (args.validate_only) return done;
  PackageState& state = below_.table.StateOf(args.ns, args.package);
  rows::PackageRow force = state.force;
  EndCandidate(args.ns, args.package);
  ApplyRetired(args.ns, *active, done.documents);
  force.before = force.previous;
  force.previous = force.active;
  force.active.clear();
  force.candidate.clear();
  force.share = 0;
  PutForce(args, state, active, force);
  return done;
}

std::optional<Error> Packages::Refuse(const std::string& ns, const Sources& sources) {
  const auto owned = [](std::string_view kind, const std::string& id, const std::string& package) {
    return Error{Code::kFailedPrecondition, Reason::kOwnedByPackage,
                 std::string(kind) + " " + Quoted(id) + " belongs to package " + Quoted(package) +
                     ": change it there, or choose another id"};
  };
  if (below_.table.empty()) return std::nullopt;
  for (const Machine& machine : sources.machines) {
    const PackageVersionPtr owner = below_.catalog.OwnerOf(ns, machine.id);
    if (owner) return owned(KindName(machine.defined_as), machine.id, owner->package);
  }
  for (const Document& document : sources.documents) {
    auto owner = below_.documents.OwnerOf({ns, document.kind(), document.name});
    if (!owner) return owner.error();
    if (!owner->empty()) return owned(Name(document.kind()), document.name, *owner);
  }
  return std::nullopt;
}

}  // namespace dfsmr
