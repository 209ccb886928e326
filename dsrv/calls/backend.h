// Everything that a service needs to serve its calls. main makes it, and it outlives the services.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "dsrv/access/access.h"
#include "dsrv/access/tls.h"
#include "dsrv/calls/call_meter.h"
#include "dsrv/engine/reader.h"
#include "dsrv/feed/changes.h"
#include "dsrv/logs/logs.h"
#include "dsrv/loop/loop.h"
#include "dsrv/runtime/gate.h"
#include "dsrv/runtime/log.h"
#include "dsrv/runtime/pool.h"
#include "fsm/when/zones.h"
#include "storage/secrets/seal.h"

namespace dfsmr {

namespace v1 {
class Cluster;
}

class Backups;
struct Others;
class Watchers;

// What there is to say of the process.
struct ServerFacts {
  std::string version;
  std::string address;
  std::filesystem::path data;  // the folder of the store
  Timestamp start_time;
  const TlsExpiry& tls_expiry;
};

struct Backend {
  Reader reader;
  Loop& loop;
  Changes& changes;
  Watchers& watchers;
  Pool& pool;
  Gate& gate;
  Access& access;
  Refusals& refusals;
  std::function<Timestamp()> clock;  // real time; the server's own is loop.Now()
  FindZone zones = OnlyUtc;
  Logs& logs;
  Backups& backups;
  const SecretKeyring& secret_keys;
  bool tls = false;   // calls come by TLS only
  uint64_t life = 0;  // of the store: another one after a restored backup
  const ServerFacts* server = nullptr;  // null: a test's, which has none
  CallMeter* calls = nullptr;           // the same
  // Says which servers share the store, and who owns what; all but the counts. Any thread.
  std::function<void(v1::Cluster*)> cluster = {};
  bool shared = false;  // fronts of servers that share the store ask it
  const Others* others = nullptr;  // these; null: there are none
};

}  // namespace dfsmr
