#include <doctest/doctest.h>

#include "dcli/call/client.h"
#include "dcli/commands/views.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"

namespace dfsmr::cli {
namespace {

v1::Cluster Sound() {
  v1::Cluster cluster;
  for (const char* id : {"a", "b"}) {
    v1::Server& server = *cluster.add_servers();
    server.set_id(id);
    server.set_address(std::string(id) + ":3004");
    server.set_version("1");
    server.set_state(v1::Server::UP);
    server.set_reachable(true);
  }
  for (uint32_t number = 0; number < 4; ++number) {
    v1::Partition& partition = *cluster.add_partitions();
    partition.set_id(number);
    partition.set_state(v1::Partition::SERVING);
    partition.set_server("a");
    partition.set_live(10);
  }
  cluster.set_answered_by("b");
  return cluster;
}

bool Tells(const v1::Cluster& cluster, const std::string& what) {
  const std::vector<std::string> problems = ProblemsOf(cluster);
  return problems.size() == 1 && problems[0].find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a list of servers is taken apart, and each is an address") {
  using List = std::vector<std::string>;
  CHECK(ServerAddresses("a:1") == List{"a:1"});
  CHECK(ServerAddresses("a,b:2,:3") == List{"a:3004", "b:2", "localhost:3"});
  CHECK(ServerAddresses("a:1,") == List{"a:1"});
  CHECK(ServerAddresses("") == List{":3004"});
}

TEST_CASE("of several servers dcli asks the next one when one is not there") {
  FakeServer server;
  server.instance.set_id("c-1");
  server.instance.set_machine("crawler");
  const std::string servers = "127.0.0.1:1,127.0.0.1:2," + server.address;
  const Outcome shown = Dcli({"show", "c-1", "--server", servers, "-o", "name"});
  CHECK(shown.status == 0);
  CHECK(shown.out == "c-1\n");
  const Outcome none = Dcli({"show", "c-1", "--server", "127.0.0.1:1,127.0.0.1:2"});
  CHECK(none.status == 3);
  CHECK(none.err.find("127.0.0.1:1,127.0.0.1:2") != std::string::npos);
}

TEST_CASE("a sound cluster has no problems") { CHECK(ProblemsOf(Sound()).empty()); }

TEST_CASE("dcli cluster --check finds what is wrong") {
  v1::Cluster cluster = Sound();
  cluster.mutable_partitions(2)->set_state(v1::Partition::NO_OWNER);
  CHECK(Tells(cluster, "partition 2 has no owner"));
  cluster = Sound();
  cluster.mutable_servers(0)->set_state(v1::Server::SILENT);
  cluster.mutable_servers(0)->mutable_silent()->set_seconds(7);
  CHECK(Tells(cluster, "server a at a:3004 has been silent for 7.00s"));
  cluster = Sound();
  cluster.mutable_servers(0)->set_reachable(false);
  CHECK(Tells(cluster, "server a at a:3004 cannot be reached from b:3004"));
  cluster = Sound();
  cluster.mutable_servers(1)->set_version("2");
  CHECK(Tells(cluster, "versions differ: 1, 2"));
  cluster = Sound();
  cluster.mutable_partitions(1)->set_live(100);
  CHECK(Tells(cluster, "partition 1 has 100 live instances"));
  cluster.mutable_partitions(1)->set_live(30);
  CHECK(ProblemsOf(cluster).empty());
}

}  // namespace dfsmr::cli
