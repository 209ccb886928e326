// The names in a package's documents as a version of it sees them: for EngineOptions, and for what
// is compiled beside the engine. Any thread.
#pragma once

#include "dsrv/engine/package_version.h"
#include "fsm/plan/source.h"
#include "fsm/when/document.h"

namespace dfsmr {

void OwnMachine(const PackageVersion& version, Machine* machine);
void OwnDocument(const PackageVersion& version, Document* document);
void OwnFlow(const PackageVersion& version, PlanSource* flow);

}  // namespace dfsmr
