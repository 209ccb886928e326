#include "fsm/rules/elsewhere.h"

#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {

void PrerequisiteMissing(Scene& scene, const std::string& id) {
  const Instance& instance = scene.instance;
  const bool waits = std::ranges::find(instance.after, id, &Instance::Prerequisite::instance) !=
                     instance.after.end();
  if (!waits || instance.Stopped()) return;
  Stop(scene, InstanceResult::kError, kNoNode, 0,
       "it was to start after instance " + Quoted(id) + ", and there is no such instance");
}

void StartRefused(Scene& scene, const std::string& why) {
  Emit(scene, ChangeKind::kStartRefused).note = why;
}

}  // namespace dfsmr::rules
