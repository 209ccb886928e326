#include "dsrv/engine/refusals.h"

#include <algorithm>

namespace dfsmr {

void WorkRefusals::Note(const Who& who, RefusedWork work) {
  auto& all = by_worker_[who];
  std::erase_if(all, [&](const RefusedWork& one) {
    return one.machine == work.machine && one.version == work.version && one.node == work.node;
  });
  ends_.emplace(work.until, who);
  all.push_back(std::move(work));
}

std::vector<RefusedWork> WorkRefusals::By(const Who& who) const {
  const auto at = by_worker_.find(who);
  return at == by_worker_.end() ? std::vector<RefusedWork>() : at->second;
}

std::vector<RefusedNode> WorkRefusals::NodesOf(const Who& who) const {
  std::vector<RefusedNode> nodes;
  for (const RefusedWork& work : By(who)) nodes.push_back({work.machine, work.version, work.node});
  std::ranges::sort(nodes);
  return nodes;
}

WorkRefusals::Who WorkRefusals::Forget(Timestamp now) {
  const Who who = ends_.begin()->second;
  ends_.erase(ends_.begin());
  auto at = by_worker_.find(who);
  if (at == by_worker_.end()) return who;
  std::erase_if(at->second, [now](const RefusedWork& one) { return one.until <= now; });
  if (at->second.empty()) by_worker_.erase(at);
  return who;
}

}  // namespace dfsmr
