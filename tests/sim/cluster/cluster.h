// What simulated servers share, and whom they tell what they do.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/types.h"
#include "tests/sim/cluster/database.h"
#include "tests/sim/cluster/network.h"

namespace dfsmr::cluster_sim {

class Server;

struct Cluster {
  Network& network;
  Database& database;
  EngineOptions options;
  int lost_commits = 0;   // percent of which the answer is lost, of each kind
  int lost_renewals = 0;  // the same of what is asked of the roster
  int late_acts = 0;      // percent of takes, gifts and burials that are done long after
  int stale_reads = 0;    // percent
  int pace = 0;           // clocks of servers are off in pace by up to so many per thousand
  bool well = false;      // what is late now is not done any more
  std::function<Timestamp()> store_time;
  std::vector<std::unique_ptr<Server>> servers;
  std::function<void(const std::string& what)> wrong;
  std::function<void(const std::string& what)> note;
  std::map<std::string, uint64_t> hits;
  uint64_t commits = 0;  // numbers of them
};

}  // namespace dfsmr::cluster_sim
