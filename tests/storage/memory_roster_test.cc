#include "storage/memory_roster.h"

#include <doctest/doctest.h>

using namespace dfsmr;
using std::chrono::seconds;

namespace {

ServerRow Server(const std::string& id, const std::string& address = "") {
  return {.id = id, .address = address.empty() ? id + ":3004" : address, .version = "1"};
}

// One partition, and the servers a and b.
struct Cluster {
  Cluster() {
    CHECK(roster.Open(1));
    CHECK(roster.Join(Server("a"), {}));
    CHECK(roster.Join(Server("b"), {}));
  }
  void Pass(Duration time) { roster.SetClock(roster.clock() + time); }
  PartRow Part() { return roster.Renew("nobody", false, false)->parts[0]; }

  MemoryRoster roster;
};

}  // namespace

TEST_CASE("a roster keeps the number of partitions it was made with") {
  MemoryRoster roster;
  CHECK(roster.Open(3)->partitions == 3);
  CHECK(roster.Open(3)->partitions == 3);
  const auto other = roster.Open(4);
  REQUIRE(!other);
  CHECK(other.error().code == Code::kFailedPrecondition);
  CHECK(other.error().message.find("3 partitions, not 4") != std::string::npos);
}

TEST_CASE("who renews is not buried, and who was buried cannot renew") {
  Cluster cluster;
  cluster.Pass(kLease);
  CHECK(*cluster.roster.Bury("b") == false);  // not silent for longer than the lease
  CHECK(cluster.roster.Renew("a", true, false)->alive);
  cluster.Pass(seconds(1));
  CHECK(*cluster.roster.Bury("a") == false);
  CHECK(*cluster.roster.Bury("b") == true);
  const auto seen = cluster.roster.Renew("b", true, false);
  CHECK(seen->alive == false);
  REQUIRE(seen->servers.size() == 2);
  CHECK(seen->servers[0].reached);
  CHECK(seen->servers[1].dead);
  CHECK(!seen->servers[1].reached);
  CHECK(*cluster.roster.Bury("nobody"));
}

TEST_CASE("a server that joins buries others of its address, and joins once") {
  Cluster cluster;
  CHECK(cluster.roster.Join(Server("c", "a:3004"), {"a"}));
  CHECK(!cluster.roster.Renew("a", false, false)->alive);
  cluster.Pass(seconds(5));
  CHECK(cluster.roster.Join(Server("c", "a:3004"), {"a"}));
  const auto seen = cluster.roster.Renew("b", false, false);
  CHECK(seen->servers[2].started + seconds(5) == seen->now);
}

TEST_CASE("a join that is done late buries nobody, and joins nobody beside its successor") {
  Cluster cluster;
  CHECK(cluster.roster.Join(Server("late", "a:3004"), {}));
  CHECK(cluster.roster.Renew("a", false, false)->alive);
  CHECK(!cluster.roster.Renew("late", false, false)->alive);
}

TEST_CASE("a partition is taken from nobody and from the dead, and by one only") {
  Cluster cluster;
  const PartRow free = cluster.Part();
  const auto taken = cluster.roster.Take(free, "a");
  REQUIRE(taken);
  CHECK((*taken)->epoch == 1);
  CHECK(!*cluster.roster.Take(free, "b"));
  CHECK(!*cluster.roster.Take(cluster.Part(), "b"));  // a lives
  CHECK(cluster.roster.Commit(0, **taken, 7));
  cluster.Pass(kLease + seconds(1));
  CHECK(cluster.roster.Renew("b", false, false)->alive);
  CHECK(*cluster.roster.Bury("a"));
  const auto next = cluster.roster.Take(cluster.Part(), "b");
  REQUIRE(*next);
  CHECK(**next == Holding{.epoch = 2, .seq = 1, .feed = 7});
  const auto late = cluster.roster.Commit(0, {.epoch = 1, .seq = 1, .feed = 7}, 8);
  CHECK(late.error().code == Code::kAborted);
  CHECK(cluster.Part().held == **next);
  CHECK(!*cluster.roster.Take(cluster.Part(), "a"));  // the dead take nothing
}

TEST_CASE("what another one has taken meanwhile is not taken by what was seen before") {
  Cluster cluster;
  const PartRow free = cluster.Part();
  CHECK(*cluster.roster.Take(free, "a"));
  CHECK(cluster.roster.Leave("a"));
  CHECK(!*cluster.roster.Take(free, "b"));  // it was nobody's then
  CHECK(cluster.Part().owner == "a");
  const PartRow dead = cluster.Part();
  CHECK((*cluster.roster.Take(dead, "b"))->epoch == 2);
  const PartRow own = cluster.Part();
  CHECK((*cluster.roster.Take(own, "b"))->epoch == 3);
  CHECK(!*cluster.roster.Take(own, "b"));  // it has another epoch
  CHECK(cluster.Part().held.epoch == 3);
}

TEST_CASE("an owner takes anew what it has, and gives it away") {
  Cluster cluster;
  CHECK((*cluster.roster.Take(cluster.Part(), "a"))->epoch == 1);
  CHECK((*cluster.roster.Take(cluster.Part(), "a"))->epoch == 2);
  CHECK(!*cluster.roster.Give(0, 1, "a", "b"));
  CHECK(!*cluster.roster.Give(0, 2, "b", "b"));
  CHECK(*cluster.roster.Give(0, 2, "a", "b"));
  CHECK(cluster.Part().owner == "b");
  CHECK(cluster.Part().held.epoch == 3);
  CHECK(cluster.roster.Leave("b"));
  CHECK((*cluster.roster.Take(cluster.Part(), "a"))->epoch == 4);
}
