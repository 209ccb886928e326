// The server's flags, from the command line and from a file with the same keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsrv/access/tls.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "storage/rocks/rocks_store.h"
#include "storage/roster.h"
#include "storage/rows/space.h"

namespace dfsmr {

inline constexpr const char* kVersion = DFSMR_VERSION;  // as in CMakeLists.txt

// Of the HTTP door.
struct HttpFlags {
  std::string addr;    // empty: off
  bool given = false;  // by its flag: then a port that is taken is an error
  std::vector<std::string> hosts;
  std::vector<std::string> origins;
  std::vector<std::string> proxies;
  std::string base;  // "" or "/PATH"
  size_t connections = 1024;
  size_t metrics_series = 2'000;  // nodes that have series of their own
  std::string client_ca;  // as --tls-client-ca; empty: clients need no certificate
  bool console = true;
  std::string console_dir;
};

// Of a store in a database, which servers share.
struct StoreFlags {
  std::string url;  // libpq's; empty: the store is in the directory `data`
  std::string schema = "dfsmr";
  uint16_t partitions = kAsMade;
  std::string advertise;  // where the other servers reach this one; empty: by addr
  size_t writers = 2;     // connections
  size_t readers = 4;
  std::string peer_ca;  // who signs their certificates; empty: tls.client_ca
  bool allow_loss = false;
};

// Of traces.
struct TraceFlags {
  std::string otlp;   // "http://HOST:PORT", perhaps with a path; empty: spans go nowhere
  double sample = 0;  // the share of starts without a traceparent that get one
  std::string url;    // where people see a trace, with {trace_id} in it; empty: the console has no link
};

struct Flags {
  std::string addr = "localhost:3004";
  HttpFlags http;
  TraceFlags trace;
  std::string data = "./data";
  Duration grace = std::chrono::seconds(10);
  Duration retention = std::chrono::hours(24 * 7);
  size_t cache_mb = 256;
  size_t memtable_mb = 64;
  size_t cached_instances = 100'000;
  size_t logs_mb = 4096;
  std::optional<size_t> min_free_mb;  // nullopt: the default of disk.h
  bool verify = false;
  std::optional<Timestamp> virtual_clock;
  bool compat = true;
  bool reflection = true;
  TlsFiles tls;
  bool auth = false;  // asks every call for an access token
  std::string admin_token_file;
  std::string audit_log;
  std::string secret_key_file;
  bool insecure = false;
  StoreFlags store;
  bool closed_namespaces = false;
  rows::Quotas quotas;      // of namespaces that have none of their own
  std::string restore;      // a backup to make the store of; empty: serve
  Duration backup_every{};  // zero: never
  std::string backup_to;
  size_t backup_keep = 24;
  std::string log_level = "info";
  std::string log_format = "text";
};

// Exits with 0 after --help and --version. The error says what is wrong with the command line, or
// with the file, at FILE:LINE:COL.
Result<Flags> ParseFlags(int argc, char** argv);

}  // namespace dfsmr
