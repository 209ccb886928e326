// The rows of agents, and of what they still hold of visits that are over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/rules/tokens.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct HostRow {
  std::string hostname;
  std::string os;
  std::string kernel;
  std::string arch;
  uint32_t cpus = 0;
  uint64_t memory = 0;  // bytes
  bool cgroups = false;
  std::string boot_id;
};

struct AgentRow {
  enum class Presence : uint8_t {
    kConnected,
    kLost,       // its stream broke
    kLeft,       // it said good-bye
    kForgotten,  // it was evicted: only `evicted` counts
  };
  std::string session;
  std::string version;
  std::string address;
  HostRow host;
  std::map<std::string, std::string> labels;
  std::vector<std::string> cached;        // digests of packages
  std::vector<std::string> capabilities;  // sorted
  std::vector<std::string> packages;
  std::vector<std::string> queues;
  std::vector<std::string> actions;
  uint32_t slots = 0;
  Presence presence = Presence::kConnected;
  Timestamp connect_time;
  Timestamp last_seen;
  bool drained = false;  // takes nothing
  std::string drain_reason;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t abandoned = 0;
  std::string evicted;  // the session that may not come back
};

void PutAgent(const Writer& writer, std::string_view ns, std::string_view name,
              const AgentRow& row);
void DropAgent(const Writer& writer, std::string_view ns, std::string_view name);
Result<Ok> ScanAgents(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view name, AgentRow)>& visit);

struct LeftoverRow {
  std::string ns;
  std::string agent;
  ClaimId id;
  std::string session;
  std::string instance;
  std::string machine;
  uint32_t version = 0;
  std::string node;
  uint64_t visit = 0;
  uint32_t attempt = 0;
  std::string claim;  // as text
  Timestamp claim_time;
  Timestamp begin_time;
  Timestamp deadline = kNever;
  double progress = 0;
  std::string note;
  bool killed = false;  // it is to be killed, and not only stopped
  Timestamp order_time;
  Timestamp signal_time;
  bool dry_run = false;
};

void PutLeftover(const Writer& writer, const LeftoverRow& row);
void DropLeftover(const Writer& writer, const LeftoverRow& row);
Result<Ok> ScanLeftovers(const Reader& reader, const std::function<void(LeftoverRow)>& visit);
// How many there are of each instance of the namespace that has any.
Result<std::map<std::string, size_t>> CountLeftovers(const Reader& reader, std::string_view ns);

}  // namespace dfsmr::rows
