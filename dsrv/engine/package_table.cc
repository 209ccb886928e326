#include "dsrv/engine/package_table.h"

namespace dfsmr {

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
    version->workers.push_back({one.name, one.serves, one.secrets});
  }
  version->nodes = row.nodes;
  IndexActions(version.get());
  return {std::move(version), row.size, row.put_time, row.upload, row.removed};
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
  return rows::ScanPackages(
      reader, [this](std::string_view ns, std::string_view package, const rows::PackageRow& row) {
        StateOf(std::string(ns), std::string(package)).force = row;
      });
}

}  // namespace dfsmr
