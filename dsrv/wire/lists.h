// Reads of the store for GetInstance, ListInstances and GetHistory. They block: for the pool.
//
// A reply shows one moment, but each page of a list shows a moment of its own: the instances, live
// or stopped, that match then and whose ids come after the last id of the page before. So while a
// caller walks through the pages, an instance that exists and matches all the time is on exactly
// one page, whatever state it goes to. An instance that begins to match, ceases to match or is
// removed meanwhile is on one page or on none. No instance is on two. The pages of a history are
// similar: records are never lost or repeated, and those added meanwhile come last.
#pragma once

#include "dsrv/wire/requests.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

Result<InstanceView> ReadInstance(const Moment& moment, const std::string& ns,
                                  const std::string& id);

struct InstancePage {
  std::vector<InstanceView> instances;  // in the order that is asked for
  std::vector<std::string> places;      // theirs, where the query asks for them
  std::string last;                     // the next page begins after it; empty: there is none
  uint64_t looked_at = 0;               // rows
  Timestamp back_to = {};               // in order of time: how far the search has come
};
Result<InstancePage> ReadInstances(const Moment& moment, const InstanceQuery& query);

inline constexpr size_t kHistoryLook = 10'000;  // records for one page of a history

struct HistoryQuery {
  std::string ns;
  std::string id;
  uint64_t after = 0;  // the record that the page begins after; 0: with the first
  size_t limit = 0;
  bool newest_first = false;
  uint64_t kinds = 0;  // a bit for each kind; 0: all
  std::string node = {};
};
struct HistoryPage {
  std::vector<Event> events;
  uint64_t last = 0;          // the next page begins after it; 0: there is none
};
Result<HistoryPage> ReadHistory(const Moment& moment, const HistoryQuery& query);

}  // namespace dfsmr
