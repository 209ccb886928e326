// Servers that come, fall silent and go, as rows of a database.
#include "storage/postgres/pg_roster.h"

#include <doctest/doctest.h>

#include <set>

#include "storage/postgres/pg_store.h"
#include "tests/storage/postgres/postgres_server.h"
#include "tests/storage/postgres/proxy.h"

namespace dfsmr {
namespace {

class Cluster {
 public:
  explicit Cluster(uint16_t partitions = kAsMade)
      : database_(MustOpen({.uri = SharedPostgres().Uri(),
                            .schema = schema_,
                            .partitions = partitions})) {}

  std::unique_ptr<PgRoster> Roster() const { return std::make_unique<PgRoster>(database_); }
  std::shared_ptr<PgDatabase> database() const { return database_; }
  // As if it had not been heard of for so long.
  void Silence(const std::string& server, int seconds) {
    SharedPostgres().Sql("update " + schema_ + ".server set seen = seen - interval '" +
                         std::to_string(seconds) + " s' where id = '" + server + "'");
  }

 private:
  const std::string schema_ = NewSchema();
  const std::shared_ptr<PgDatabase> database_;
};

ServerRow Row(const std::string& id, const std::string& address) {
  return {.id = id, .address = address, .version = "1.0.0", .level = 1};
}

Roster::Seen Look(PgRoster& roster, const std::string& self, bool reached = true) {
  const auto seen = roster.Renew(self, reached, false);
  REQUIRE_MESSAGE(seen, (seen ? "" : seen.error().message));
  return *seen;
}

Result<Ok> JoinOf(PgRoster& roster, const ServerRow& self) {
  return roster.Join(self, Roster::LivingAt(Look(roster, ""), self.address));
}

TEST_CASE("a roster of PostgreSQL shows who lives, by the time of the database") {
  const Cluster cluster;
  const auto roster = cluster.Roster();
  const auto opened = roster->Open(1);
  REQUIRE(opened);
  CHECK(opened->partitions == 1);
  CHECK(opened->secret.size() == 32);
  CHECK(opened->moved.empty());
  const auto other = roster->Open(2);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Code::kFailedPrecondition);
  REQUIRE(JoinOf(*roster, Row("a", "host1:1")));
  REQUIRE(JoinOf(*roster, Row("b", "host2:1")));
  const auto now = std::chrono::system_clock::now();
  const Roster::Seen seen = Look(*roster, "a");
  CHECK(seen.alive);
  CHECK(seen.cluster == *opened);
  CHECK(std::chrono::abs(seen.now - now) < std::chrono::minutes(1));
  REQUIRE(seen.servers.size() == 2);
  CHECK(seen.servers[0].id == "a");
  CHECK(seen.servers[0].reached);
  CHECK(seen.servers[0].address == "host1:1");
  CHECK(seen.servers[0].version == "1.0.0");
  CHECK_FALSE(seen.servers[1].reached);
  CHECK(seen.servers[0].seen <= seen.now);
  CHECK_FALSE(Look(*roster, "nobody").alive);
  REQUIRE(roster->Raise(3));
  REQUIRE(roster->Raise(2));
  CHECK(Look(*roster, "a").cluster.level == 3);
}

TEST_CASE("a server is buried when it is silent, by its address' next, or when it leaves") {
  Cluster cluster;
  const auto roster = cluster.Roster();
  REQUIRE(JoinOf(*roster, Row("a", "host1:1")));
  REQUIRE(JoinOf(*roster, Row("b", "host2:1")));
  CHECK_FALSE(*roster->Bury("a"));
  cluster.Silence("a", 11);
  CHECK(*roster->Bury("a"));
  CHECK(*roster->Bury("a"));
  CHECK(*roster->Bury("nobody"));
  CHECK_FALSE(Look(*roster, "a").alive);  // for good
  REQUIRE(JoinOf(*roster, Row("c", "host2:1")));
  CHECK_FALSE(Look(*roster, "b").alive);
  REQUIRE(JoinOf(*roster, Row("c", "host2:1")));  // again: it changes nothing
  CHECK(Look(*roster, "c").alive);
  REQUIRE(roster->Leave("c"));
  CHECK_FALSE(Look(*roster, "c").alive);
}

TEST_CASE("a join that is done late buries nobody, and joins nobody beside its successor") {
  Cluster cluster;
  const auto roster = cluster.Roster();
  REQUIRE(roster->Join(Row("b", "host:1"), {}));
  REQUIRE(roster->Join(Row("a", "host:1"), {}));
  CHECK(Look(*roster, "b").alive);
  CHECK_FALSE(Look(*roster, "a").alive);
  REQUIRE(roster->Join(Row("c", "host:1"), {"b", "z"}));
  CHECK_FALSE(Look(*roster, "b").alive);
  CHECK(Look(*roster, "c").alive);
}

TEST_CASE("a partition is taken from nobody and from the dead, and given by its owner") {
  Cluster cluster;
  const auto roster = cluster.Roster();
  REQUIRE(JoinOf(*roster, Row("a", "host1:1")));
  REQUIRE(JoinOf(*roster, Row("b", "host2:1")));
  const PartRow free = Look(*roster, "a").parts.at(0);
  CHECK(free.owner.empty());
  CHECK_FALSE(roster->Take(free, "nobody")->has_value());
  const auto first = roster->Take(free, "a");
  REQUIRE(first->has_value());
  CHECK((*first)->epoch == free.held.epoch + 1);
  CHECK_FALSE(roster->Take(free, "b")->has_value());  // it is not as seen any more
  const PartRow owned = Look(*roster, "b").parts.at(0);
  CHECK(owned.owner == "a");
  CHECK(owned.held == **first);
  CHECK_FALSE(roster->Take(owned, "b")->has_value());  // its owner lives
  CHECK_FALSE(*roster->Give(0, owned.held.epoch, "b", "b"));
  CHECK(*roster->Give(0, owned.held.epoch, "a", "b"));
  const PartRow given = Look(*roster, "b").parts.at(0);
  CHECK(given.owner == "b");
  CHECK(given.held.epoch == owned.held.epoch + 1);
  CHECK(*roster->Give(0, given.held.epoch, "b", "a"));
  cluster.Silence("a", 11);
  REQUIRE(*roster->Bury("a"));
  const PartRow dead = Look(*roster, "b").parts.at(0);
  const auto taken = roster->Take(dead, "b");
  REQUIRE(taken->has_value());
  CHECK((*taken)->epoch == given.held.epoch + 2);
  CHECK_FALSE(roster->Take(dead, "b")->has_value());
  const PartRow own = Look(*roster, "b").parts.at(0);
  REQUIRE(roster->Take(own, "b")->has_value());
  CHECK_FALSE(roster->Take(own, "b")->has_value());  // it has another epoch by now
  CHECK_FALSE(*roster->Give(0, own.held.epoch, "b", "a"));
  CHECK(Look(*roster, "b").parts.at(0).owner == "b");
}

TEST_CASE("no partition ever has the epoch of another one") {
  Cluster cluster(3);
  const auto roster = cluster.Roster();
  REQUIRE(JoinOf(*roster, Row("a", "host1:1")));
  REQUIRE(JoinOf(*roster, Row("b", "host2:1")));
  constexpr PartitionId kCount = 3;
  PgStore store(cluster.database(), {.fresh = true});
  std::set<Epoch> epochs;
  size_t taken = 0;
  for (int round = 0; round < 3; ++round) {
    for (PartitionId id = 0; id < kCount; ++id) {
      const auto held = roster->Take(Look(*roster, "a").parts.at(id), "a");
      REQUIRE(held->has_value());
      epochs.insert((*held)->epoch);
      REQUIRE(*roster->Give(id, (*held)->epoch, "a", "b"));
      const Epoch given = Look(*roster, "b").parts.at(id).held.epoch;
      CHECK(given > (*held)->epoch);
      epochs.insert(given);
      const auto above = store.AcquireAbove(id, given + 1 + id);
      REQUIRE(above);
      CHECK(*above > given + 1 + id);
      epochs.insert(*above);
      taken += 3;
    }
  }
  CHECK(epochs.size() == taken);
}

TEST_CASE("who was buried writes no more, and its heir has all that it wrote") {
  Cluster cluster;
  const auto roster = cluster.Roster();
  REQUIRE(JoinOf(*roster, Row("a", "host1:1")));
  REQUIRE(JoinOf(*roster, Row("b", "host2:1")));
  const auto held = roster->Take(Look(*roster, "a").parts.at(0), "a");
  REQUIRE(held->has_value());
  PgStore before(cluster.database(), {});
  before.Hold(0, **held);
  const auto epoch = before.Acquire(0);
  REQUIRE(epoch);
  CHECK(*epoch == (*held)->epoch);
  Batch batch;
  batch.Put(std::string("\0\0\1k", 4), "v");
  REQUIRE(before.Write(0, *epoch, batch));
  cluster.Silence("a", 11);
  REQUIRE(*roster->Bury("a"));
  const auto heir = roster->Take(Look(*roster, "b").parts.at(0), "b");
  REQUIRE(heir->has_value());
  CHECK((*heir)->seq == 1);
  CHECK(before.Write(0, *epoch, batch).error().code == Code::kAborted);
  PgStore after(cluster.database(), {});
  after.Hold(0, **heir);
  REQUIRE(after.Write(0, *after.Acquire(0), batch));
}

TEST_CASE("a renewal without a database fails, and the next one finds it again") {
  Proxy proxy(SharedPostgres().folder());
  const std::string schema = NewSchema();
  PgRoster roster(MustOpen({.uri = proxy.Uri(), .schema = schema}));
  REQUIRE(JoinOf(roster, Row("a", "host1:1")));
  proxy.Cut();
  CHECK(Look(roster, "a").alive);
  proxy.Set(Proxy::Mode::kRefuse);
  proxy.Cut();
  const auto lost = roster.Renew("a", true, false);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == Code::kUnavailable);
  proxy.Set(Proxy::Mode::kPass);
  CHECK(Look(roster, "a").alive);
}

}  // namespace
}  // namespace dfsmr
