// The least machine whose instances have rows: one node of work, and an end.
#pragma once

#include <utility>
#include <vector>

#include "fsm/machine/machine.h"

namespace dfsmr {

inline Machine TwoNodes() {
  MachineDraft draft;
  draft.machine.id = "m";
  NodeDraft work, end;
  work.node.id = "a";
  work.node.start = true;
  work.transitions = {{"ok", "end"}};
  end.node.id = "end";
  end.node.kind = NodeKind::kFinal;
  draft.nodes = {work, end};
  std::vector<Problem> problems;
  Machine machine = Compile(std::move(draft), &problems);
  Check(problems.empty(), "the machine of these tests is sound");
  return machine;
}

}  // namespace dfsmr
