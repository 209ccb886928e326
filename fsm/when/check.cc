#include "fsm/when/check.h"

#include "fsm/when/schedule_check.h"
#include "fsm/when/trigger_check.h"

namespace dfsmr {

void CheckDocument(const Document& document, const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems) {
  if (document.kind() == DocumentKind::kSchedule) {
    CheckSchedule(*std::get<0>(document.body), document.name, definitions, now, problems);
  }
  if (document.kind() == DocumentKind::kTrigger) {
    CheckTrigger(*std::get<1>(document.body), definitions, problems);
  }
}

}  // namespace dfsmr
