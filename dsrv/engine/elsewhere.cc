#include "dsrv/engine/elsewhere.h"

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/triggers.h"

namespace dfsmr {

template <typename Visit>
void Elsewhere::ForEach(const std::string& ns, Visit visit) const {
  const auto& machines = catalog_.machines();
  for (auto it = machines.lower_bound({ns, ""}); it != machines.end() && it->first.first == ns;
       ++it) {
    for (auto& [number, version] : it->second->versions) visit(it->first.second, number, version);
  }
}

LiveCounts Elsewhere::CountHere(const std::string& ns) const {
  LiveCounts counts;
  ForEach(ns, [&counts](const std::string& machine, uint32_t number, const VersionState& version) {
    const bool any = version.Alive() > 0 || version.dry_runs > 0 ||
                     version.results != rows::ResultCounts{};
    if (!any) return;
    counts.versions.push_back(
        {machine, number, version.Alive(), version.dry_runs, version.results});
  });
  for (const auto& [cause, count] : launcher_.CountsIn(ns)) {
    counts.causes.push_back({cause, count.running, count.waiting});
  }
  triggers_.VisitPlaces([&](const std::string& its, FeedPlace place) {
    if (its == ns) counts.places.push_back(std::move(place));
  });
  return counts;
}

void Elsewhere::Add(const std::string& ns, const LiveCounts& counts) {
  for (const CauseCount& one : counts.causes) {
    launcher_.AddElsewhere(ns, one.cause, {one.running, one.waiting});
  }
  for (const FeedPlace& one : counts.places) triggers_.AddElsewhere(ns, one);
  for (const LiveCount& one : counts.versions) {
    VersionState* const version = catalog_.VersionOf(ns, one.machine, one.version);
    if (!version || one.version == 0) continue;
    version->elsewhere.live += one.live;
    version->elsewhere.dry_runs += one.dry_runs;
    for (size_t i = 0; i < one.results.size(); ++i) {
      version->elsewhere.results[i] += one.results[i];
    }
  }
}

void Elsewhere::Forget(const std::string& ns) {
  launcher_.ForgetElsewhere();
  triggers_.ForgetElsewhere();
  ForEach(ns, [](const std::string&, uint32_t, VersionState& version) { version.elsewhere = {}; });
}

}  // namespace dfsmr
