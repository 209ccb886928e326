#include "dsrv/engine/registry.h"

namespace dfsmr {

void Registry::Add(MachineVersionPtr definition) {
  const WriteLock lock(mutex_);
  Versions& versions = machines_[{definition->ns, definition->machine.id}];
  Check(definition->version == versions.size() + 1, "versions are defined in order");
  versions.push_back(std::move(definition));
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

const Machine* Registry::Resolve(std::string_view ns, std::string_view id, uint32_t version) const {
  const ReadLock lock(mutex_);
  const Versions* versions = VersionsOf(ns, id);
  if (!versions || version == 0 || version > versions->size()) return nullptr;
  return &(*versions)[version - 1]->machine;
}

rows::Resolve Registry::resolve() const {
  return [this](std::string_view ns, std::string_view id, uint32_t version) {
    return Resolve(ns, id, version);
  };
}

}  // namespace dfsmr
