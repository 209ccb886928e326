#include "fsm/plan/graph.h"

#include <algorithm>
#include <set>

namespace dfsmr {
namespace {

void AddReaders(const PlanGraph& graph, const std::vector<uint32_t>& groups,
                std::set<uint32_t>* seen, std::vector<uint32_t>* readers) {
  for (uint32_t group : groups) {
    if (!seen->insert(group).second) continue;
    const Group& part = graph.groups[group];
    readers->insert(readers->end(), part.readers.begin(), part.readers.end());
    /*mutant outer-readers-not-skipped*/ AddReaders(graph, part.groups, seen, readers); /*end*/
  }
}

}  // namespace

std::vector<uint32_t> ReadersOf(const PlanGraph& graph, uint32_t step) {
  std::vector<uint32_t> readers = graph.steps[step].readers;
  std::set<uint32_t> seen;
  AddReaders(graph, graph.steps[step].groups, &seen, &readers);
  std::ranges::sort(readers);
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

uint32_t CompensationAround(const PlanGraph& graph, uint32_t section) {
  while (section != kNoSection && !graph.sections[section].compensates) {
    section = graph.sections[section].outer;
  }
  return section;
}

}  // namespace dfsmr
