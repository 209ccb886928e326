// The commands about agents: dcli agent, agents and ps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dcli/call/context.h"
#include "dfsmr/v1/agent.pb.h"

namespace dfsmr::cli {

// dcli/agent/serve_as_agent.cc
struct AgentOptions {
  std::vector<std::string> packages;
  std::string workers;  // a file
  std::vector<std::string> queues;
  std::vector<std::string> actions;
  std::vector<std::string> capabilities;
  std::vector<std::string> labels;
  // What no name can be: that of the host.
  static constexpr const char* kHostName = "the name of the host";
  std::string name = kHostName;
  static constexpr int kCpus = -1'000'000;  // as many as there are CPUs
  int jobs = kCpus;
  std::string cache;
  int cache_mb = 2048;
  std::string trusted_keys;  // a file
  std::string begin_within = "30s";
  std::string keep_for = "10s";
  std::string grace = "5m";
  std::string idle_exit;
  bool once = false;
  std::string wrap;
  std::vector<std::string> pass_env;
  std::vector<std::string> middleware;  // NAME=COMMAND
  bool no_logs = false;
  bool print = false;
  bool check = false;
  std::string env_file;
};
int ServeAsAgent(Context& context, const AgentOptions& options);

// agents.cc
struct AgentsOptions {
  std::string action;  // list, show, drain, undrain, evict; or the name of an agent to show
  std::string name;
  std::string state;
  std::vector<std::string> capabilities;
  std::vector<std::string> labels;
  std::string reason;
  bool wait = false;
};
int Agents(Context& context, const AgentsOptions& options);

struct PsOptions {
  std::string instance;
  std::string agent;
};
int Ps(Context& context, const PsOptions& options);

// A cancel --kill. Make it before the call: what agents have in hand is looked at then, so that
// Await, which waits until no process of the instance and its children is left, tells of each of
// them.
class Leftovers {
 public:
  Leftovers(Context& context, std::string instance);
  // The exit status.
  int Await();

 private:
  // Takes what is left now, and tells what no longer is. False: agents are unknown to the server.
  Result<bool> Look();

  Context& context_;
  const std::string instance_;
  std::map<std::string, v1::Operation> left_;  // by what people call it
};

}  // namespace dfsmr::cli
