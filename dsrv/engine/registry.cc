#include "dsrv/engine/registry.h"

namespace dfsmr {

void Registry::Add(MachineVersionPtr definition) {
  const WriteLock lock(mutex_);
  Versions& versions = machines_[{definition->ns, definition->machine.id}];
  Check(definition->version == versions.size() + 1, "versions are defined in order");
  versions.push_back(std::move(definition));
}

void Registry::Forget(const std::string& ns) {
  const WriteLock lock(mutex_);
  auto it = machines_.lower_bound({ns, ""});
  while (it != machines_.end() && it->first.first == ns) {
    Versions& removed = removed_[it->first];
    if (!removed.empty()) kept_.push_back(std::move(removed));
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

MachineVersionPtr Registry::Find(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions || version > versions->size()) return nullptr;
  return version == 0 ? versions->back() : (*versions)[version - 1];
}

bool Registry::LeftBehind(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions || version == 0) return false;  // 0: of what nobody has defined
  for (size_t later = versions->size(); later > version; --later) {
    const Machine& machine = (*versions)[later - 1]->machine;
    if (machine.upgrade_strategy != UpgradeStrategy::kContinue) return true;
  }
  return false;
}

const Machine* Registry::Resolve(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions && !removed_.empty()) {
    const auto it = removed_.find(std::pair(std::string(ns), std::string(id)));
    if (it != removed_.end()) versions = &it->second;
  }
  if (!versions || version == 0 || version > versions->size()) return nullptr;
  return &(*versions)[version - 1]->machine;
}

rows::Resolve Registry::resolve() const {
  return [this](std::string_view ns, std::string_view id, uint32_t version) {
    return Resolve(ns, id, version);
  };
}

}  // namespace dfsmr
