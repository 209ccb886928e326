// Compiling a source under what is defined: a pure function, for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/registry.h"
#include "fsm/plan/library.h"
#include "fsm/when/check.h"
#include "fsm/when/document.h"

namespace dfsmr {

// The definitions of one namespace, for compiling plans. It keeps them alive.
struct DefinitionSet {
  Definitions definitions;
  std::vector<MachineVersionPtr> kept;
  // The number of versions: it differs under other definitions, and is the same after a restart.
  uint64_t generation = 0;
};

// What a source defines.
struct Sources {
  std::vector<Machine> machines;
  std::vector<Document> documents;
};
// A problem of a machine in a source, under the other definitions.
struct DefineProblem {
  size_t definition;  // the index of a machine, or the number of machines plus that of a document
  PlanProblem problem;
};
// The definitions of a source, compiled.
struct Compiled {
  std::shared_ptr<const DefinitionSet> under;         // what else was defined
  std::vector<std::shared_ptr<const Machine>> shown;  // the nodes of plans; null: a plain machine
  std::vector<DefineProblem> problems;                // only errors, or only warnings

  bool Sound() const { return problems.empty() || problems.front().problem.warning; }
};
// What the documents of `sources` would have that `owners`, or another of them, has already.
std::vector<DefineProblem> CheckOwners(const Sources& sources, Owners owners);
// Compiles each plan and action of `sources`, which may refer to each other and to what is defined,
// and checks its schedules, triggers and limits as of `now`. `unsound` are the ids of documents of
// the same source that cannot be read. Stops at a plan that is too large. Any thread.
Compiled CompileAll(std::shared_ptr<const DefinitionSet> under, const Sources& sources,
                    const std::vector<std::string>& unsound, Timestamp now);

}  // namespace dfsmr
