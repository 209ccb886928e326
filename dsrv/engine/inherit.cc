#include "dsrv/engine/inherit.h"

#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/trace/span.h"

namespace dfsmr {

void InheritTrace(Residents& residents, Resident& starter, uint64_t visit, uint32_t attempt,
                  StartArgs* args) {
  args->follows = true;
  const Instance& instance = starter.instance;
  if (!instance.traced || args->spec.trace) return;
  auto spec = residents.SpecOf(starter);
  if (!spec || !(*spec)->trace) return;
  const std::string span = SpanId({instance.ns, instance.id, visit, attempt});
  args->spec.trace = TraceContext{(*spec)->trace->id, span, (*spec)->trace->sampled};
}

}  // namespace dfsmr
