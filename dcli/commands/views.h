// What people look at besides single instances: counts, steps, queues, workers, the whole server.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/context.h"
#include "dfsmr/v1/cluster.pb.h"

namespace dfsmr::cli {

// The words of a command line as one filter. A word that holds a space was quoted for the shell,
// and its value is quoted again, unless the word is several terms.
std::string FilterOf(const std::vector<std::string>& terms);

struct CountOptions {
  std::vector<std::string> terms;
  std::string by;
};
int Count(Context& context, const CountOptions& options);

struct StatusOptions {
  std::string machine;
  bool watch = false;
};
int Status(Context& context, const StatusOptions& options);

struct ClusterOptions {
  bool partitions = false;
  bool check = false;
};
int ShowCluster(Context& context, const ClusterOptions& options);
// The servers of a cluster, for people.
void PrintServers(Context& context, const v1::Cluster& cluster);
// What is wrong with a cluster: each a sentence.
std::vector<std::string> ProblemsOf(const v1::Cluster& cluster);

// What is usually wrong, and how to mend it; exit status 1 when anything is.
struct DoctorOptions {};
int Doctor(Context& context, const DoctorOptions& options);

struct ConsoleOptions {
  std::string subject;  // an instance, or "machine/ID"; empty: the overview
  std::string http;     // the URL that the console is at; empty: as the server's address says
};
int Console(Context& context, const ConsoleOptions& options);

struct QueuesOptions {
  std::string machine;
  std::string queue;
};
int Queues(Context& context, const QueuesOptions& options);

int Workers(Context& context, const QueuesOptions& options);

struct StepsOptions {
  std::string instance;
  std::string under;
  std::string state;
};
int ShowSteps(Context& context, const StepsOptions& options);

struct DurationsOptions {
  std::string machine;  // ID or ID@VERSION
  std::string node;
};
int Durations(Context& context, const DurationsOptions& options);

}  // namespace dfsmr::cli
