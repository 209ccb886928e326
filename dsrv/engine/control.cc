#include "dsrv/engine/control.h"

#include "dsrv/engine/changer.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/operations.h"
#include "dsrv/engine/reports.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/resumer.h"

namespace dfsmr {

template <typename Rule>
Result<Ok> Control::Apply(const std::string& ns, const std::string& id, const ChangedBy& by,
                          Rule rule) {
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  const Changer::By noted(changer_, by);
  auto outcome = changer_.Apply(**resident, rule);
  if (outcome && !(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
  return outcome;
}

Result<Ok> Control::Pause(const std::string& ns, const std::string& id, const ChangedBy& by) {
  return Apply(ns, id, by, [](Scene& scene) { return rules::Pause(scene); });
}

Result<Ok> Control::Resume(const std::string& ns, const std::string& id, const std::string& node,
                           bool force, const ChangedBy& by) {
  if (auto may = spaces_.MayChange(ns); !may) return may;
  auto resident = changer_.Touch(ns, id);
  if (!resident) return resident.error();
  if ((*resident)->instance.Stopped()) {
    const Changer::By noted(changer_, by);
    return resumer_.Resume(**resident, node, force);
  }
  if (auto may = limits_.MayResume(**resident, node); !may) return may;
  return Apply(ns, id, by, [&](Scene& scene) { return rules::Resume(scene, node, force); });
}

Result<Ok> Control::Skip(const std::string& ns, const std::string& id, const std::string& node,
                         const ChangedBy& by) {
  return Apply(ns, id, by, [&](Scene& scene) { return rules::Skip(scene, node); });
}

Result<Ok> Control::Cancel(const std::string& ns, const std::string& id, CancelMode mode,
                           const ChangedBy& by) {
  if (mode == CancelMode::kKill) {
    auto resident = residents_.Load(ns, id);
    const bool stopped = resident && (*resident)->instance.Stopped();
    if (stopped && operations_.Kill(ns, id)) return Ok{};
  }
  return Apply(ns, id, by, [&](Scene& scene) { return rules::Cancel(scene, mode); });
}

Result<Ok> Control::Move(const std::string& ns, const std::string& id, const std::string& node,
                         const std::string& transition, const std::string& params,
                         const ChangedBy& by) {
  ReportArgs args;
  args.node = node;
  args.transition = transition;
  args.params = params;
  args.client = by.client;
  const Changer::By noted(changer_, by);
  auto answer = reports_.Report(ns, id, std::move(args), {}, {});
  return answer ? Result<Ok>(Ok{}) : Result<Ok>(answer.error());
}

}  // namespace dfsmr
