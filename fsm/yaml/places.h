// Where in YAML text something is that was found only when it was compiled: plans keep where a step
// was written, not where each of its keys was.
#pragma once

#include <string_view>

#include "fsm/plan/compile.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

class YamlPlaces {
 public:
  explicit YamlPlaces(std::string_view text);  // `text` must outlive it

  // Of a problem of a definition in the text: what its path leads to, and within that the first
  // text with the reference that its message is about. As it stands when nothing of that is there.
  Written Find(const PlanProblem& problem) const;

 private:
  YamlTree tree_;
};

}  // namespace dfsmr
