// The registry: what is put, how it stands, and what is removed.
#include "dsrv/engine/packages.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/trust.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

constexpr std::string_view kSha = "sha256:";

Error NoSuchPackage(const std::string& ns, const std::string& package, const std::string& version) {
  std::string what = "package " + Quoted(package);
  if (!version.empty()) what = "version " + Quoted(version) + " of " + what;
  if (package.empty()) what = "package with the digest " + Quoted(version);
  return {Code::kNotFound, Reason::kNoSuchPackage, "namespace " + Quoted(ns) + " has no " + what};
}

std::string Mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

// While the upload was on its way.
Error Gone(const std::string& ns) {
  return {Code::kFailedPrecondition, Reason::kNamespaceDeleting,
          "namespace " + Quoted(ns) + " was deleted while the archive came; put it again"};
}

}  // namespace

uint64_t PackageStanding::Live() const {
  uint64_t sum = 0;
  for (const auto& [machine, count] : live) sum += count;
  return sum;
}

Result<Ok> Packages::Recover() {
  std::set<std::pair<std::string, rows::UploadId>> kept;
  for (const auto& [name, state] : below_.table.all()) {
    for (const auto& [version, known] : state.versions) {
      if (known.removed) continue;
      kept.emplace(name.first, known.upload);
      below_.spaces.AddPackageBytes(name.first, static_cast<int64_t>(known.size));
    }
    SetCandidate(name.first, name.second, state);
  }
  auto scanned =
      rows::ScanUploads(below_.turn.reader(), [&](std::string_view ns, rows::UploadId upload) {
        const auto one = std::pair(std::string(ns), upload);
        if (!kept.contains(one)) {
          /*mutant upload-left*/ left_.push_back(one); /*end*/
        }
      });
  if (!left_.empty()) below_.turn.WantMore();
  return scanned;
}

void Packages::Work() {
  for (const auto& [ns, upload] : std::exchange(left_, {})) {
    rows::DropUpload(below_.turn.writer(), ns, upload);
  }
}

void Packages::Forget(const std::string& ns) {
  std::erase_if(uploads_, [&ns](const auto& one) { return one.first.first == ns; });
  std::erase_if(left_, [&ns](const auto& one) { return one.first == ns; });
  std::erase_if(outcomes_, [&ns](const auto& one) { return one.first[0] == ns; });
  below_.table.Forget(ns);
  below_.trust.Forget(ns);
}

// The registry ----------------------------------------------------------------------------------

const PackageState::Known* Packages::WithDigest(const std::string& ns,
                                                const std::string& digest) const {
  const auto& all = below_.table.all();
  for (auto it = all.lower_bound({ns, ""}); it != all.end() && it->first.first == ns; ++it) {
    for (const auto& [version, known] : it->second.versions) {
      if (known.version->digest == digest && !known.removed) return &known;
    }
  }
  return nullptr;
}

Result<PackageState::Known> Packages::Find(const std::string& ns, const std::string& package,
                                           const std::string& version) const {
  if (version.starts_with(kSha)) {
    const PackageState::Known* known = WithDigest(ns, version);
    const bool of_it = known && (package.empty() || known->version->package == package);
    if (!of_it) return NoSuchPackage(ns, package, version);
    return *known;
  }
  const PackageState* state = below_.table.Find(ns, package);
  if (!state) return NoSuchPackage(ns, package, "");
  if (version.empty() && state->force.active.empty()) {
    const bool any =
        std::ranges::any_of(state->versions, [](const auto& one) { return !one.second.removed; });
    if (!any) return NoSuchPackage(ns, package, "");
    return Error{Code::kNotFound, Reason::kNoSuchPackage,
                 "no version of package " + Quoted(package) + " is active: say which one is meant"};
  }
  const PackageState::Known* known = state->Find(version.empty() ? state->force.active : version);
  if (!known) return NoSuchPackage(ns, package, version);
  return *known;
}

PackageStanding Packages::StandingOf(const PackageVersion& version) const {
  PackageStanding standing;
  const PackageState* state = below_.table.Find(version.ns, version.package);
  if (state && state->versions.contains(version.version)) {
    const PackageState::Known& known = state->versions.at(version.version);
    standing.trust = below_.trust.ViewOf(version.ns, known.signers);
    standing.defined = known.defined_as;
  }
  const std::string prefix = version.package + ".";
  const auto& machines = below_.catalog.machines();
  for (auto it = machines.lower_bound({version.ns, prefix});
       it != machines.end() && it->first.first == version.ns &&
       it->first.second.starts_with(prefix);
       ++it) {
    for (const auto& [number, one] : it->second->versions) {
      if (one.definition->package.get() == &version) {
        standing.defined[std::string(KindName(one.definition->machine.defined_as)) + ":" +
                         it->first.second] = number;
        for (size_t i = 0; i < one.results.size(); ++i) {
          standing.results[i] += one.results[i] + one.elsewhere.results[i];
        }
      }
      // What is on its way to another version is that one's already: it needs its programs.
      if (PinnedBy(one) != &version) continue;
      const uint64_t alive = one.AliveAnywhere();
      if (alive > 0) standing.live[it->first.second] += alive;
      const uint64_t dry_runs = one.DryRunsAnywhere();
      if (dry_runs > 0) standing.dry_runs[it->first.second] += dry_runs;
    }
  }
  using State = PackageStanding::State;
  if (state && state->force.active == version.version) {
    standing.state = State::kActive;
  } else if (state && state->force.candidate == version.version) {
    standing.state = State::kCandidate;
    standing.share = state->force.share;
  } else {
    const bool pinned = !standing.live.empty() || !standing.dry_runs.empty();
    standing.state = pinned ? State::kPinned : State::kIdle;
  }
  return standing;
}

VersionsInUse Packages::InUse(const std::string& ns) const {
  VersionsInUse used;
  const auto& machines = below_.catalog.machines();
  for (auto it = machines.lower_bound({ns, ""}); it != machines.end() && it->first.first == ns;
       ++it) {
    for (const auto& [number, one] : it->second->versions) {
      const PackageVersionPtr& now = one.Now().definition->package;
      if (one.stands_for && now) used.programs[{it->first.second, number}] = now->version;
    }
  }
  const auto& packages = below_.table.all();
  for (auto it = packages.lower_bound({ns, ""}); it != packages.end() && it->first.first == ns;
       ++it) {
    for (const auto& [version, known] : it->second.versions) {
      const PackageVersion& package = *known.version;
      if (StandingOf(package).state != PackageStanding::State::kPinned) continue;
      for (const auto& [id, own] : below_.catalog.OwnVersions(package)) {
        const uint32_t from = own->definition->version;
        const auto [at, added] = used.owned.emplace(id, from);
        if (!added) at->second = std::min(at->second, from);
      }
    }
  }
  return used;
}

// Puts ------------------------------------------------------------------------------------------

Result<Ok> Packages::MayPut(const std::string& ns, uint64_t bytes) const {
  auto may = below_.spaces.MayUse(ns);
  return may && bytes > 0 ? below_.spaces.MayPut(ns, bytes) : may;
}

Result<Ok> Packages::HasRoom(uint64_t bytes) const {
  if (auto full = below_.turn.NeedsRoom(Room::kAmple)) return *std::move(full);
  const auto spare = spare_ ? spare_() : std::nullopt;
  if (!spare) return Ok{};
  uint64_t to_come = 0;
  for (const auto& [upload, rest] : uploads_) to_come += rest;
  if (bytes + to_come <= *spare) return Ok{};
  return Error{Code::kResourceExhausted, Reason::kDiskFull,
               "the server's disk has no room for " + Mebibytes(bytes) + " more: it takes " +
                   Mebibytes(*spare) + " beside what is to stay free and what the store needs" +
                   (to_come > 0 ? ", and " + Mebibytes(to_come) + " are on their way" : "") +
                   "; make room, or remove versions that nobody uses"};
}

rows::UploadId Packages::BeginUpload(const std::string& ns, uint64_t bytes) {
  const rows::UploadId upload{below_.turn.epoch(), below_.turn.NextId()};
  uploads_.emplace(std::pair(ns, upload), bytes);
  return upload;
}

Result<Ok> Packages::PutPiece(const std::string& ns, rows::UploadId upload, uint32_t number,
                              std::string bytes) {
  const auto found = uploads_.find({ns, upload});
  if (found == uploads_.end()) return Ok{};
  if (auto full = below_.turn.NeedsRoom(Room::kAmple)) return *std::move(full);
  found->second -= std::min<uint64_t>(found->second, bytes.size());
  rows::PutPiece(below_.turn.writer(), ns, upload, number, std::move(bytes));
  return Ok{};
}

void Packages::PutText(const std::string& ns, rows::UploadId upload, const std::string& path,
                       std::string text) {
  if (!uploads_.contains({ns, upload})) return;
  rows::PutPackageText(below_.turn.writer(), ns, upload, path, std::move(text));
}

void Packages::Abandon(const std::string& ns, rows::UploadId upload) {
  if (uploads_.erase({ns, upload}) == 0) return;
  rows::DropUpload(below_.turn.writer(), ns, upload);
}

Result<bool> Packages::IsThere(const rows::PackageVersionRow& row) const {
  const PackageState* state = below_.table.Find(row.ns, row.package);
  if (!state) return false;
  const auto known = state->versions.find(row.version);
  if (known == state->versions.end()) return false;
  const PackageVersion& version = *known->second.version;
  if (/*mutant other-bytes-accepted*/ version.digest != row.digest /*end*/) {
    return Error{Code::kAlreadyExists, Reason::kVersionExists,
                 "package " + Quoted(row.package) + " has a version " + row.version +
                     " already, with other content (" + version.digest +
                     (known->second.removed ? ", removed since" : "") +
                     "); a version keeps its content for good, so choose another one"};
  }
  return !known->second.removed;
}

Result<bool> Packages::Finish(rows::PackageVersionRow row,
                              std::vector<rows::SignatureRow> signatures) {
  auto there = IsThere(row);
  if (!there || *there) {
    Abandon(row.ns, row.upload);
    if (!there) return there.error();
    auto added = below_.trust.Sign(*KnownOf(row).version, std::move(signatures));
    if (!added) return added.error();
    return false;
  }
  if (!uploads_.contains({row.ns, row.upload})) return Gone(row.ns);
  auto may = MayPut(row.ns, row.size);
  auto kept = below_.trust.NewOf(*KnownOf(row).version, std::move(signatures));
  if (!may || !kept) {
    Abandon(row.ns, row.upload);
    return may ? kept.error() : may.error();
  }
  Accept(row, *std::move(kept));
  return true;
}

void Packages::Accept(const rows::PackageVersionRow& given,
                      std::vector<rows::SignatureRow> signatures) {
  rows::PackageVersionRow row = given;
  PackageState::Known fresh = KnownOf(row);
  (void)below_.spaces.Use(row.ns);
  /*mutant package-bytes-uncounted*/ below_.spaces.AddPackageBytes(
      row.ns, static_cast<int64_t>(row.size)); /*end*/
  uploads_.erase({row.ns, row.upload});
  row.put_time = below_.turn.now();
  rows::PutPackageVersion(below_.turn.writer(), row);
  PackageState& state = below_.table.StateOf(row.ns, row.package);
  auto& known = state.versions[row.version];
  // It was removed, but machines refer to it, and what had signed these bytes has signed them
  // still.
  fresh.put_time = row.put_time;
  const PackageState::Known before = std::exchange(known, std::move(fresh));
  if (before.version) known.version = before.version;
  known.signers = before.signers;
  known.defined_as = before.defined_as;
  below_.trust.Keep(known, std::move(signatures));
  Tell(ChangeKind::kPackagePushed, *known.version, row.put_by, "");
}

void Packages::Tell(ChangeKind kind, const PackageVersion& version, const std::string& client,
                    const std::string& note) {
  Event event;
  event.kind = kind;
  event.time = below_.turn.now();
  event.ns = version.ns;
  event.client = client;
  event.note = note;
  event.package = Event::Package{version.package, version.version, version.digest};
  below_.turn.Append(&event);
}

// Removal ---------------------------------------------------------------------------------------

std::string Packages::WhyInUse(const PackageState& state, const PackageVersion& version) const {
  if (state.force.active == version.version) return "it is active";
  if (state.force.candidate == version.version) return "it is the candidate";
  std::string why;
  const PackageStanding standing = StandingOf(version);
  for (const auto& [machine, count] : standing.live) {
    /*mutant removed-while-pinned*/ why +=
        (why.empty() ? "" : ", ") + std::to_string(count) + " of " + Quoted(machine); /*end*/
  }
  for (const auto& [machine, count] : standing.dry_runs) {
    why += (why.empty() ? "" : ", ") + std::to_string(count) + " dry runs of " + Quoted(machine);
  }
  return why.empty() ? why : "instances that have not stopped are pinned to it: " + why;
}

void Packages::RemoveOne(PackageState& state, const std::string& version, const std::string& by) {
  PackageState::Known& known = state.versions.at(version);
  const PackageVersion& removed = *known.version;
  auto row = rows::GetPackageVersion(below_.turn.reader(), removed.ns, removed.package, version);
  if (!below_.turn.Trust(row) || !*row) return;
  rows::DropUpload(below_.turn.writer(), removed.ns, known.upload);
  (*row)->removed = true;
  (*row)->files.clear();
  (*row)->manifest.clear();
  rows::PutPackageVersion(below_.turn.writer(), **row);
  known.removed = true;
  below_.spaces.AddPackageBytes(removed.ns, -static_cast<int64_t>(known.size));
  Tell(ChangeKind::kPackageRemoved, removed, by, "");
}

void Packages::Answered(const ActivateArgs& args, const Result<Activated>& done) {
  if (args.validate_only) return;
  const std::string& package = done && done->package ? done->package->package : args.package;
  // Names that callers make up would have numbers without bound.
  if (!below_.table.Find(args.ns, package)) return;
  const char* outcome = !done            ? "refused"
                        : !done->changed ? "unchanged"
                        : args.rollback  ? "rolled_back"
                        : args.share > 0 ? "candidate"
                        : done->package  ? "activated"
                                         : "deactivated";
  ++outcomes_[{args.ns, package, outcome}];
}

Result<Removed> Packages::Remove(const RemoveArgs& args) {
  const PackageState* found = below_.table.Find(args.ns, args.package);
  std::vector<std::string> wanted;
  if (args.all_but) {
    if (!found) return NoSuchPackage(args.ns, args.package, "");
    std::vector<const PackageState::Known*> all;
    for (const auto& [version, known] : found->versions) {
      if (!known.removed) all.push_back(&known);
    }
    std::ranges::sort(all, std::ranges::greater(), &PackageState::Known::put_time);
    for (size_t i = args.keep; i < all.size(); ++i) wanted.push_back(all[i]->version->version);
  } else {
    auto known = Find(args.ns, args.package, args.version);
    if (!known) return known.error();
    found = below_.table.Find(args.ns, known->version->package);
    wanted.push_back(known->version->version);
  }
  Removed removed;
  for (const std::string& version : wanted) {
    const PackageState::Known& known = *found->Find(version);
    const std::string why = WhyInUse(*found, *known.version);
    if (!why.empty() && !args.all_but) {
      return Error{Code::kFailedPrecondition, Reason::kPackageInUse,
                   "version " + version + " of package " + Quoted(known.version->package) +
                       " cannot be removed: " + why};
    }
    if (!why.empty()) {
      removed.kept.emplace_back(version, why);
      continue;
    }
    removed.removed.push_back(version);
    removed.freed += known.size;
    if (args.validate_only) continue;
    RemoveOne(below_.table.StateOf(args.ns, known.version->package), version, args.by);
  }
  return removed;
}

}  // namespace dfsmr
