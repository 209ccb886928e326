// Reads of the store for GetInstance, ListInstances and GetHistory. They block: for the pool.
#pragma once

#include "dsrv/engine/engine.h"
#include "dsrv/wire/convert.h"

namespace dfsmr {

Result<InstanceView> ReadInstance(const Engine& engine, const std::string& ns,
                                  const std::string& id);

struct InstancePage {
  std::vector<InstanceView> instances;  // by id
  std::string last;                     // where the next page begins; empty: there is none
};
Result<InstancePage> ReadInstances(const Engine& engine, const InstanceQuery& query);

struct HistoryPage {
  std::vector<Event> events;  // oldest first
  uint64_t last = 0;          // where the next page begins; 0: there is none
};
Result<HistoryPage> ReadHistory(const Engine& engine, const std::string& ns, const std::string& id,
                                uint64_t after, size_t limit);

}  // namespace dfsmr
