// Reads of the store for GetInstance, ListInstances and GetHistory. They block: for the pool.
//
// A reply is of one moment; the pages of a list are of several, one each. A page holds what matches
// at its moment of the ids after the last of the page before, live and stopped instances alike. So
// while a caller walks through the pages, an instance that exists and matches all the time is on
// exactly one of them, however it moves; one that appears, ceases to match or goes meanwhile is on
// one or on none; and none is on two. The pages of a history are alike: records are never lost or
// repeated, and those added meanwhile come last.
#pragma once

#include "dsrv/wire/requests.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

Result<InstanceView> ReadInstance(const Moment& moment, const std::string& ns,
                                  const std::string& id);

struct InstancePage {
  std::vector<InstanceView> instances;  // by id
  std::string last;                     // where the next page begins; empty: there is none
};
Result<InstancePage> ReadInstances(const Moment& moment, const InstanceQuery& query);

struct HistoryPage {
  std::vector<Event> events;  // oldest first
  uint64_t last = 0;          // where the next page begins; 0: there is none
};
Result<HistoryPage> ReadHistory(const Moment& moment, const std::string& ns, const std::string& id,
                                uint64_t after, size_t limit);

}  // namespace dfsmr
