#include "dsrv/engine/package_table.h"

#include <algorithm>

#include "dsrv/engine/package_version.h"
#include "fsm/base/names.h"
#include "storage/rows/trust.h"

namespace dfsmr {

Error RetiredByPackage(std::string_view kind, std::string_view name) {
  return {Code::kFailedPrecondition, Reason::kRetired,
          std::string(kind) + " " + Quoted(name) + " is retired: its package " +
              Quoted(name.substr(0, name.find('.'))) + " no longer has it, or is not active"};
}

PackageState::Known KnownOf(const rows::PackageVersionRow& row) {
  auto version = std::make_shared<PackageVersion>();
  version->ns = row.ns;
  version->package = row.package;
  version->version = row.version;
  version->digest = row.digest;
  for (const rows::PackageDocument& one : row.documents) {
    version->documents.push_back({one.kind, one.id});
  }
  for (const rows::PackageWorker& one : row.workers) {
    version->workers.push_back({one.name, one.serves, one.secrets, one.capabilities, one.dry_run});
    std::ranges::sort(version->workers.back().required);
  }
  version->nodes = row.nodes;
  IndexActions(version.get());
  return {std::move(version), row.size, row.put_time, row.upload, row.removed, {}, {}};
}

const PackageState* PackageTable::Find(std::string_view ns, std::string_view package) const {
  const auto found = packages_.find({std::string(ns), std::string(package)});
  return found == packages_.end() ? nullptr : &found->second;
}

PackageVersionPtr PackageTable::Version(std::string_view ns, std::string_view package,
                                        std::string_view version) const {
  const PackageState* state = Find(ns, package);
  if (!state) return nullptr;
  const auto found = state->versions.find(version);
  return found == state->versions.end() ? nullptr : found->second.version;
}

PackageVersionPtr PackageTable::Active(std::string_view ns, std::string_view package) const {
  const PackageState* state = Find(ns, package);
  return state && !state->force.active.empty() ? Version(ns, package, state->force.active)
                                               : nullptr;
}

PackageVersionPtr PackageTable::ServerOf(const PackageVersionPtr& own, std::string_view ns,
                                         std::string_view action) const {
  if (own && (own->Owns(action) || !own->WorkerOf(action).empty())) return own;
  const PackageVersionPtr other = Active(ns, action.substr(0, action.find('.')));
  const bool serves =
      other && other->Bare(action).size() < action.size() && !other->WorkerOf(action).empty();
  return serves ? other : nullptr;
}

void PackageTable::Derive(const PackageVersionPtr& own, QueueKey* key) const {
  key->package.clear();
  key->required.clear();
  if (packages_.empty()) return;
  const PackageVersionPtr server = ServerOf(own, key->ns, key->action);
  if (!server) return;
  key->package = server->package;
  if (const PackageVersion::Worker* worker = server->Serving(key->action)) {
    key->required = worker->required;
  }
}

PackageState& PackageTable::StateOf(const std::string& ns, const std::string& package) {
  return packages_[{ns, package}];
}

void PackageTable::Forget(const std::string& ns) {
  std::erase_if(packages_, [&ns](const auto& one) { return one.first.first == ns; });
}

Result<Ok> PackageTable::Recover(const rows::Reader& reader) {
  auto scanned = rows::ScanPackageVersions(reader, [this](const rows::PackageVersionRow& row) {
    StateOf(row.ns, row.package).versions[row.version] = KnownOf(row);
  });
  if (!scanned) return scanned;
  scanned = rows::ScanSignatures(reader, [this](std::string_view ns, std::string_view package,
                                                std::string_view version, std::string fingerprint) {
    PackageState& state = StateOf(std::string(ns), std::string(package));
    state.versions[std::string(version)].signers.push_back(std::move(fingerprint));
  });
  if (!scanned) return scanned;
  scanned = rows::ScanDefined(reader, [this](std::string_view ns, std::string_view package,
                                             std::string_view version, rows::DefinedAs defined) {
    PackageState& state = StateOf(std::string(ns), std::string(package));
    state.versions[std::string(version)].defined_as = std::move(defined);
  });
  if (!scanned) return scanned;
  return rows::ScanPackages(
      reader, [this](std::string_view ns, std::string_view package, const rows::PackageRow& row) {
        StateOf(std::string(ns), std::string(package)).force = row;
      });
}

void PackageTable::Adopt(const PackageTable& later) {
  for (const auto& [name, state] : later.packages_) {
    PackageState& mine = packages_[name];
    for (const auto& [text, known] : state.versions) {
      const auto [there, added] = mine.versions.try_emplace(text, known);
      if (added) continue;
      const PackageVersionPtr version = there->second.version;
      there->second = known;
      there->second.version = version;
    }
    mine.force = state.force;
  }
}

}  // namespace dfsmr
