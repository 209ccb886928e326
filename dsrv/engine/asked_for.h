// Who asks for the work of nodes at which nothing was ever ready, so that the agenda has no queue
// for them. In the loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "fsm/derived/agenda.h"

namespace dfsmr {

// As of when it is made.
class AskedFor {
 public:
  struct Askers {
    uint64_t waiters = 0;
    Timestamp last;  // Timestamp(): nobody has asked
  };

  AskedFor(const Agenda& agenda, const std::string& ns) {
    agenda.VisitFilters(ns, [this](const Filter& filter, size_t waiters, Timestamp asked) {
      if (asked != Timestamp()) filters_.emplace(filter.machine, One{&filter, {waiters, asked}});
    });
  }
  bool empty() const { return filters_.empty(); }
  Askers Of(const QueueKey& key) const {
    Askers all;
    for (const std::string& machine : {key.machine, std::string()}) {
      const auto [begin, end] = filters_.equal_range(machine);
      for (auto at = begin; at != end; ++at) {
        const auto& [filter, askers] = at->second;
        if (!filter->Matches(key)) continue;
        all.waiters += askers.waiters;
        all.last = std::max(all.last, askers.last);
      }
    }
    return all;
  }

 private:
  struct One {
    const Filter* filter;
    Askers askers;
  };
  std::multimap<std::string, One> filters_;  // by machine; "": of any
};

}  // namespace dfsmr
