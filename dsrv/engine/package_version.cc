#include "dsrv/engine/package_version.h"

#include "fsm/base/fit.h"

namespace dfsmr {

std::string_view PackageVersion::Bare(std::string_view name) const {
  const bool own =
      name.size() > package.size() + 1 && name.starts_with(package) && name[package.size()] == '.';
  return own ? name.substr(package.size() + 1) : name;
}

bool PackageVersion::Owns(std::string_view action) const {
  const std::string_view bare = Bare(action);
  return bare.size() < action.size() && actions.contains(bare);
}

const PackageVersion::Worker* PackageVersion::Serving(std::string_view action) const {
  const std::string_view bare = Bare(action);
  const Worker* best = nullptr;
  size_t fit = 0;
  for (const Worker& worker : workers) {
    for (const std::string& pattern : worker.serves) {
      const size_t fits = Fit(pattern, bare);
      if (fits <= fit) continue;
      fit = fits;
      best = &worker;
    }
  }
  return best;
}

std::string PackageVersion::WorkerOf(std::string_view action) const {
  const Worker* worker = Serving(action);
  return worker ? worker->name : "";
}

void IndexActions(PackageVersion* version) {
  for (const PackageVersion::Document& one : version->documents) {
    const bool acts = one.kind == "action" || one.kind == "machine" || one.kind == "plan";
    if (acts) version->actions.insert(one.id);
  }
  version->actions.insert(version->nodes.begin(), version->nodes.end());
  for (const PackageVersion::Worker& worker : version->workers) {
    for (const std::string& name : worker.serves) {
      if (name.find('*') == std::string::npos) version->actions.insert(name);
    }
  }
}

}  // namespace dfsmr
