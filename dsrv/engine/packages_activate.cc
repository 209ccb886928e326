// Activation: which documents come, change and go, and which version starts by name are on.
#include <algorithm>
#include <utility>

#include "dsrv/engine/owners.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/references.h"
#include "dsrv/engine/trust.h"
#include "fsm/base/names.h"
#include "storage/rows/document.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

Error BadRequest(std::string text) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(text)};
}

}  // namespace

// The version that is meant, and what is in force.
struct Packages::Target {
  PackageVersionPtr version;
  rows::UploadId upload;
  const PackageState* state = nullptr;
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
  const MachineState* const known = below_.catalog.Find(args.ns, machine.id);
  if (!known || known->versions.empty()) return change;
  const MachineState& state = *known;
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
    if (moves && number > 0) change.affected += version.AliveAnywhere();
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
    if (const auto kind = DocumentKindNamed(one.kind)) {
      auto document = below_.documents.Find({active->ns, *kind, one.id});
      if (document) one.version = document->version;
      continue;
    }
    const VersionState* version = below_.catalog.VersionOf(active->ns, one.id, 0);
    if (!version) continue;
    one.version = version->definition->version;
    one.strategy = version->definition->machine.upgrade_strategy;
  }
  return retired;
}

// What the candidates of other packages have: starts by name are on them, too.
std::vector<const MachineVersion*> Packages::CandidatesBeside(const std::string& ns,
                                                              const std::string& package) const {
  std::vector<const MachineVersion*> found;
  const auto& all = below_.table.all();
  for (auto it = all.lower_bound({ns, ""}); it != all.end() && it->first.first == ns; ++it) {
    const auto& [name, state] = *it;
    if (name.second == package || state.force.candidate.empty()) continue;
    const PackageVersionPtr candidate =
        below_.table.Version(ns, name.second, state.force.candidate);
    for (const auto& [id, own] : below_.catalog.OwnVersions(*candidate)) {
      found.push_back(own->definition.get());
    }
  }
  return found;
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
  for (const MachineVersion* one : CandidatesBeside(ns, package)) {
    const std::string id = one->machine.id + "@" + one->package->version;
    look(KindName(one->machine.defined_as), id, NamesIn(one->machine));
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

// Whether the quota of the namespace has room for what is new. What only a candidate has counts as
// long as it is one, so it may become active where it stands.
Result<Ok> Packages::CheckRoom(const ActivateArgs& args, const Plan& plan) const {
  const PackageState* state = below_.table.Find(args.ns, args.package);
  const PackageVersionPtr candidate =
      state ? below_.table.Version(args.ns, args.package, state->force.candidate) : nullptr;
  uint64_t free = plan.retired.size();
  if (candidate) {
    for (const auto& [id, own] : below_.catalog.OwnVersions(*candidate)) {
      if (own->machine->current == 0 || own->machine->retired) ++free;
    }
  }
  uint64_t more = 0;
  for (const DocumentChange& one : plan.changes) {
    if (one.what == DocumentChange::What::kAdded) ++more;
  }
  return more <= free ? Ok{} : below_.spaces.MayDefine(args.ns, more - free);
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
  return plan;
}

// What of its documents others have already. What is retired in the same commit has nothing.
std::vector<DefineProblem> Packages::TakenFrom(const ActivateArgs& args, const Sources& sources,
                                               const Plan& plan) const {
  if (args.share > 0) return {};
  Owners owners = OwnersBeside(args.ns, sources.documents, below_.triggers, below_.limits);
  std::erase_if(owners, [&](const auto& owner) {
    return std::ranges::any_of(plan.retired, [&](const DocumentChange& one) {
      return DocumentKindNamed(one.kind) == owner.first.first && one.id == owner.second;
    });
  });
  return CheckOwners(sources, std::move(owners));
}

// What is asked and decided in one turn ---------------------------------------------------------

std::optional<Result<Activated>> Packages::Activate(const ActivateArgs& given, Sources* sources,
                                                    Compiled* compiled) {
  ActivateArgs args = given;
  if (auto may = below_.spaces.MayChange(args.ns); !may) return Result<Activated>(may.error());
  auto target = TargetOf(args);
  if (!target) return Result<Activated>(target.error());
  if (auto active = CheckActive(args, *target->state); !active) {
    return Result<Activated>(active.error());
  }
  if (auto done = WithoutCompiling(args, *target)) return done;
  args.package = target->version->package;
  if (compiled->under != below_.catalog.DefinitionsWithout(args.ns, args.package)) {
    return std::nullopt;
  }
  const auto unsound = [&compiled]() -> Result<Activated> {
    return Error{Code::kInvalidArgument, Reason::kBadPackage,
                 compiled->problems.front().problem.message};
  };
  if (!compiled->Sound()) return unsound();
  if (auto full = args.validate_only ? std::nullopt : below_.turn.NeedsRoom(Room::kAmple)) {
    return Result<Activated>(*std::move(full));
  }
  auto plan = PlanOf(args, target->version, *sources);
  if (!plan) return Result<Activated>(plan.error());
  auto taken = TakenFrom(args, *sources, *plan);
  if (!taken.empty()) {
    compiled->problems = std::move(taken);
    return unsound();
  }
  Activated done{target->version, target->state->force.active, true, plan->changes};
  std::ranges::copy(plan->retired, std::back_inserter(done.documents));
  if (!args.validate_only) Apply(args, target->version, *std::move(plan), sources, *compiled);
  return Result<Activated>(std::move(done));
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
