// Where the numbers of a snapshot come from.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "dsrv/access/audit.h"
#include "dsrv/calls/backend.h"
#include "dsrv/engine/engine.h"
#include "dsrv/metrics/snapshot.h"
#include "dsrv/otlp/exporter.h"
#include "storage/rocks/rocks_store.h"

namespace dfsmr::metrics {

struct DoorCounts {
  uint64_t open = 0;
  std::map<std::string, uint64_t> closed;  // by why
};

// What a server is made of, as far as it is counted. All of it outlives whoever is given it.
struct Sources {
  const Backend& backend;
  const RocksStore* store;                   // null: the rows are elsewhere
  const Audit* audit = nullptr;              // null: there is none
  std::function<DoorCounts()> door;          // any thread
  std::function<Room()> room;                // any thread
  const otlp::Exporter* exporter = nullptr;  // null: spans go nowhere
  // Null: the store is this server's alone. Any thread.
  std::function<std::shared_ptr<const ClusterCounts>()> cluster = {};
};

// What only the deciding thread knows. In the loop; hand it on after the commit of the turn.
void GatherEngine(Engine& engine, Snapshot* snapshot);
// The rest, which takes some milliseconds. Any other thread.
void GatherServer(const Sources& sources, Snapshot* snapshot);
// Of it, what is of the process. Any thread.
void GatherProcess(const ServerFacts& server, Snapshot* snapshot);

}  // namespace dfsmr::metrics
