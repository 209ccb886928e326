// What is wrong with a document although it reads well: what it names is not defined, or it would
// never come due. Pure, for Define and for `dcli check`.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/plan/library.h"
#include "fsm/when/document.h"

namespace dfsmr {

// `definitions` are those of the document's namespace, with those of its own source. A problem
// about an id that is missing there has it in `about`. Appends what is found to `problems`.
void CheckDocument(const Document& document, const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems);

// The documents of a namespace that have what only one of a kind can have: the path of a webhook,
// and the key of a limit. To their names.
using Owners = std::map<std::pair<DocumentKind, std::string>, std::string>;
struct DocumentProblem {
  size_t document;  // its index
  PlanProblem problem;
};
// Those of `documents` that have what others of them, or of `owners`, have already.
std::vector<DocumentProblem> CheckOwners(const std::vector<Document>& documents, Owners owners);

}  // namespace dfsmr
