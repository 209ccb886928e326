// What is wrong with a document although it reads well: what it names is not defined, or it would
// never come due. Pure, for Define and for `dcli check`.
#pragma once

#include <vector>

#include "fsm/base/time.h"
#include "fsm/plan/library.h"
#include "fsm/when/document.h"

namespace dfsmr {

// `definitions` are those of the document's namespace, with those of its own source. A problem
// about an id that is missing there has it in `about`. Appends what is found to `problems`.
void CheckDocument(const Document& document, const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems);

}  // namespace dfsmr
