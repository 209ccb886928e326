#include "dsrv/engine/registry.h"

namespace dfsmr {

void Registry::Add(MachineVersionPtr definition) {
  const WriteLock lock(mutex_);
  Versions& versions = machines_[{definition->ns, definition->machine.id}];
  Check(definition->version > versions.all.size(), "versions are defined in order");
  if (!definition->candidate) versions.current = definition->version;
  versions.all.resize(definition->version - 1);
  versions.all.push_back(std::move(definition));
}

void Registry::Forget(const std::string& ns) {
  const WriteLock lock(mutex_);
  auto it = machines_.lower_bound({ns, ""});
  while (it != machines_.end() && it->first.first == ns) {
    Versions& removed = removed_[it->first];
    if (!removed.all.empty()) kept_.push_back(std::move(removed));
    removed = std::move(it->second);
    it = machines_.erase(it);
  }
}

uint64_t Registry::FeedFloor(std::string_view ns) const {
  const ReadLock lock(mutex_);
  const auto it = floors_.find(ns);
  return it == floors_.end() ? 0 : it->second;
}

void Registry::SetFeedFloor(const std::string& ns, uint64_t seq) {
  const WriteLock lock(mutex_);
  floors_[ns] = seq;
}

const Registry::Versions* Registry::VersionsOf(std::string_view ns, std::string_view id) const {
  auto it = machines_.find(std::pair(std::string(ns), std::string(id)));
  return it == machines_.end() ? nullptr : &it->second;
}

const Registry::Versions* Registry::RemovedOf(std::string_view ns, std::string_view id) const {
  if (removed_.empty()) return nullptr;
  auto it = removed_.find(std::pair(std::string(ns), std::string(id)));
  return it == removed_.end() ? nullptr : &it->second;
}

MachineVersionPtr Registry::Find(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions) return nullptr;
  if (version == 0) version = versions->current;
  if (version == 0 || version > versions->all.size()) return nullptr;
  return versions->all[version - 1];
}

bool Registry::LeftBehind(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  return versions && versions->left.contains(version);
}

void Registry::LeaveBehind(const MachineVersion& version) {
  const WriteLock lock(mutex_);
  machines_[{version.ns, version.machine.id}].left.insert(version.version);
}

const Machine* Registry::Resolve(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions) versions = RemovedOf(ns, id);
  if (!versions || version == 0 || version > versions->all.size()) return nullptr;
  const MachineVersionPtr& found = versions->all[version - 1];
  return found ? &found->machine : nullptr;
}

void Registry::StandFor(const MachineVersion& version, MachineVersionPtr as) {
  const WriteLock lock(mutex_);
  machines_[{version.ns, version.machine.id}].as[version.version] = std::move(as);
}

MachineVersionPtr Registry::Now(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions) versions = RemovedOf(ns, id);
  if (!versions || version == 0 || version > versions->all.size()) return nullptr;
  const auto as = versions->as.find(version);
  return as == versions->as.end() ? versions->all[version - 1] : as->second;
}

rows::Resolve Registry::resolve() const {
  return [this](std::string_view ns, std::string_view id, uint32_t version) {
    return Resolve(ns, id, version);
  };
}

}  // namespace dfsmr
