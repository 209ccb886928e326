// `cluster`: which servers share the store, and who serves what.
#include <algorithm>
#include <set>

#include "dcli/call/views.h"
#include "dcli/commands/views.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace cluster_command {

constexpr uint64_t kUneven = 3;  // times the mean of live instances

// An owner is known by its address; by its id where it is gone.
std::string AddressOf(const v1::Cluster& cluster, const std::string& id) {
  for (const v1::Server& server : cluster.servers()) {
    if (server.id() == id) return server.address();
  }
  return id;
}

void PrintPartitions(Context& context, const v1::Cluster& cluster) {
  Table table({"PARTITION", "STATE", "SERVER", "EPOCH", "LIVE", "READY", "CLAIMED", "OUTBOX"});
  for (const v1::Partition& partition : cluster.partitions()) {
    table.Add({std::to_string(partition.id()), v1::Partition::State_Name(partition.state()),
               AddressOf(cluster, partition.server()), std::to_string(partition.epoch()),
               std::to_string(partition.live()), std::to_string(partition.ready()),
               std::to_string(partition.claimed()), std::to_string(partition.outbox())});
  }
  context.out << '\n';
  table.Print(context.out, context.look);
}

void PrintAll(Context& context, const v1::Cluster& cluster, bool partitions) {
  Description lines;
  lines.Add("Store", cluster.store() + " " + cluster.database());
  lines.Add("Durability", cluster.durability());
  lines.Add("Level", std::to_string(cluster.level()));
  lines.Print(context.out, context.look);
  context.out << '\n';
  PrintServers(context, cluster);
  if (partitions) PrintPartitions(context, cluster);
}

}  // namespace cluster_command

void PrintServers(Context& context, const v1::Cluster& cluster) {
  Table table({"SERVER", "ADDRESS", "VERSION", "STATE", "PARTITIONS", "SILENT"});
  for (const v1::Server& server : cluster.servers()) {
    table.Add({server.id(), server.address(), server.version(),
               v1::Server::State_Name(server.state()) +
                   std::string(server.reachable() ? "" : ", unreachable"),
               std::to_string(server.partitions()), DurationText(FromProto(server.silent()))});
  }
  table.Print(context.out, context.look);
}

std::vector<std::string> ProblemsOf(const v1::Cluster& cluster) {
  std::vector<std::string> problems;
  std::set<std::string> versions;
  for (const v1::Server& server : cluster.servers()) {
    const std::string name = "server " + server.id() + " at " + server.address();
    versions.insert(server.version());
    if (server.state() == v1::Server::SILENT) {
      problems.push_back(name + " has been silent for " + DurationText(FromProto(server.silent())));
    } else if (!server.reachable()) {
      problems.push_back(name + " cannot be reached from " +
                         cluster_command::AddressOf(cluster, cluster.answered_by()));
    }
  }
  if (versions.size() > 1) {
    problems.push_back("the servers' versions differ: " +
                       Join({versions.begin(), versions.end()}, ", "));
  }
  uint64_t live = 0;
  for (const v1::Partition& partition : cluster.partitions()) live += partition.live();
  const auto count = static_cast<uint64_t>(cluster.partitions_size());
  for (const v1::Partition& partition : cluster.partitions()) {
    const std::string name = "partition " + std::to_string(partition.id());
    if (partition.state() == v1::Partition::NO_OWNER) problems.push_back(name + " has no owner");
    if (partition.live() * count > cluster_command::kUneven * live) {
      problems.push_back(name + " has " + std::to_string(partition.live()) +
                         " live instances, over three times the mean of all");
    }
  }
  return problems;
}

int ShowCluster(Context& context, const ClusterOptions& options) {
  v1::GetClusterRequest request;
  request.set_with_counts(options.partitions || options.check);
  const auto cluster = context.client->views().GetCluster(request);
  if (!cluster) return context.Fail(cluster.error());
  if (context.names()) {
    for (const v1::Server& server : cluster->servers()) context.out << server.id() << '\n';
  } else if (!context.Print(*cluster)) {
    cluster_command::PrintAll(context, *cluster, options.partitions);
  }
  if (!options.check) return kSucceeded;
  const std::vector<std::string> problems = ProblemsOf(*cluster);
  for (const std::string& problem : problems) context.Note(problem);
  return problems.empty() ? kSucceeded : kRefused;
}

}  // namespace dfsmr::cli
