#include "dsrv/cluster/member.h"

#include <doctest/doctest.h>

#include "storage/memory_roster.h"

namespace dfsmr {
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr LeaseTime kMemberBegin = seconds(1'000);

// Servers that share a roster, and do what their members say. One clock for all.
struct Servers {
  explicit Servers(uint16_t partitions) { CHECK(roster.Open(partitions)); }

  void Start(const std::string& id, const std::string& address = "", uint32_t level = 0) {
    const std::string at = address.empty() ? id + ":1" : address;
    const auto before = Roster::LivingAt(*roster.Renew("", false, false), at);
    CHECK(roster.Join({.id = id, .address = at, .level = level}, before));
    members.emplace(id, Member(id, at, now));
  }
  void Pass(LeaseTime time) {
    now += time;
    roster.SetClock(roster.clock() + std::chrono::duration_cast<Duration>(time));
  }
  Member::Todo Look(const std::string& id) {
    Member& member = members.at(id);
    const auto seen = roster.Renew(id, member.Reached(now), member.leaving());
    return member.Look(*seen, now, now);
  }
  // Everybody reaches everybody, renews, and does as told.
  void Round(const std::set<std::string>& silent = {}) {
    for (auto& [id, member] : members) {
      if (silent.contains(id)) continue;
      if (members.size() - silent.size() > 1) member.NotePing(now);
      Do(id, Look(id));
    }
  }
  void Do(const std::string& id, const Member::Todo& todo) {
    Member& member = members.at(id);
    for (const PartitionId part : todo.drop) member.Dropped(part);
    for (const std::string& other : todo.bury) CHECK(roster.Bury(other));
    for (const PartRow& part : todo.take) {
      if (const auto held = *roster.Take(part, id)) member.Took(part.id, held->epoch);
    }
    if (todo.raise) CHECK(roster.Raise(*todo.raise));
    if (!todo.give) return;
    for (const PartRow& part : Parts()) {
      if (part.id == todo.give->first) {
        CHECK(*roster.Give(part.id, part.held.epoch, id, todo.give->second));
      }
    }
    member.Dropped(todo.give->first);
  }
  void Rounds(int count, const std::set<std::string>& silent = {}) {
    for (int i = 0; i < count; ++i) {
      Round(silent);
      Pass(kRenewal);
    }
  }
  std::vector<PartRow> Parts() { return roster.Renew("nobody", false, false)->parts; }
  // "a a b": the owners, by partition.
  std::string Owners() {
    std::string text;
    for (const PartRow& part : Parts()) text += (text.empty() ? "" : " ") + part.owner;
    return text;
  }

  MemoryRoster roster;
  LeaseTime now = kMemberBegin;
  std::map<std::string, Member> members;
};

ServerRow Row(const std::string& id) { return {.id = id, .reached = true}; }

}  // namespace

TEST_CASE("a server alone takes everything at its first look") {
  Servers servers(3);
  servers.Start("a");
  servers.Round();
  CHECK(servers.Owners() == "a a a");
  CHECK(servers.Look("a").take.empty());
}

TEST_CASE("who joins gets its share, one partition at a time and only what must move") {
  Servers servers(5);
  servers.Start("a");
  servers.Rounds(2);
  servers.Start("b");
  servers.Round();
  CHECK(servers.Owners() == "a a a a a");
  servers.Rounds(6);
  CHECK(servers.Owners() == "a a a b b");
  servers.Start("c");
  servers.Rounds(6);
  CHECK(servers.Owners() == "a a c b b");
}

TEST_CASE("one partition stays where it is when others join") {
  Servers servers(1);
  servers.Start("b");
  servers.Rounds(2);
  servers.Start("a");
  servers.Start("c");
  servers.Rounds(5);
  CHECK(servers.Owners() == "b");
  CHECK(servers.Parts()[0].held.epoch == 1);
}

TEST_CASE("what a silent server had serves again within 15 seconds, and nobody answers twice") {
  Servers servers(1);
  servers.Start("a");
  servers.Start("b");
  servers.Rounds(6);
  REQUIRE(servers.Owners() == "a");
  const LeaseTime silent_since = servers.now - kRenewal;
  while (servers.Owners() == "a") {
    const auto todo = servers.Look("b");
    servers.Do("b", todo);
    servers.Do("b", servers.Look("b"));
    if (servers.Owners() == "a") servers.Pass(todo.wait);
    REQUIRE(servers.now < silent_since + seconds(15));
  }
  CHECK(servers.now > silent_since + seconds(10));
  CHECK(servers.now < silent_since + milliseconds(10'100));
  CHECK(!servers.members.at("a").MayAnswer(servers.now));
  CHECK(servers.members.at("b").MayAnswer(servers.now));
  const auto late = servers.Look("a");
  CHECK(late.rejoin);
  CHECK(late.end.empty());
  CHECK(late.drop == std::vector<PartitionId>{0});
  CHECK(!servers.members.at("a").MayAnswer(servers.now));
}

TEST_CASE("after an outage of the store nobody is buried before all could renew") {
  Servers servers(1);
  servers.Start("a");
  servers.Start("b");
  servers.Rounds(6);
  servers.Pass(seconds(60));  // nobody could renew
  CHECK(!servers.members.at("a").MayAnswer(servers.now));
  CHECK(servers.Look("b").bury.empty());
  servers.Pass(seconds(2));
  CHECK(servers.Look("b").bury.empty());
  CHECK(!servers.Look("a").rejoin);
  servers.Rounds(10);
  CHECK(servers.Owners() == "a");
}

TEST_CASE("a leap of the store's clock buries nobody") {
  Servers servers(1);
  servers.Start("a");
  servers.Start("b");
  servers.Rounds(6);
  servers.roster.SetClock(servers.roster.clock() + seconds(3'600));
  CHECK(servers.Look("b").bury.empty());
  servers.Rounds(6);
  servers.roster.SetClock(servers.roster.clock() - seconds(7'200));
  servers.Rounds(8);
  CHECK(servers.Owners() == "a");
  CHECK(servers.Parts()[0].held.epoch == 1);
}

TEST_CASE("who just joined buries nobody for the length of a lease") {
  Servers servers(1);
  servers.Start("a");
  servers.Rounds(2);
  servers.Pass(seconds(9));
  servers.Start("b");
  CHECK(servers.Look("b").bury.empty());
  servers.Pass(seconds(2));
  const auto todo = servers.Look("b");
  CHECK(todo.bury.empty());
  CHECK(todo.wait <= kRenewal);
  for (int i = 0; i < 3; ++i) {
    servers.Pass(seconds(2));
    CHECK(servers.Look("b").bury.empty());
  }
  servers.Pass(seconds(2));
  CHECK(servers.Look("b").bury == std::vector<std::string>{"a"});
}

TEST_CASE("who first looks long after it joined buries nobody for a leap that it has not seen") {
  Servers servers(1);
  servers.Start("a");
  servers.Rounds(2);
  servers.Start("b");
  servers.Rounds(6, {"b"});
  servers.roster.SetClock(servers.roster.clock() + seconds(3'600));
  CHECK(servers.Look("b").bury.empty());
  servers.Rounds(6);
  CHECK(servers.Owners() == "a");
}

TEST_CASE("a server that leaves gives what it has, at once, to one that stays") {
  Servers servers(2);
  servers.Start("a");
  servers.Rounds(2);
  servers.Start("b");
  servers.Pass(milliseconds(10));
  servers.members.at("a").Leave();
  servers.Round();
  servers.Round();
  servers.Round();
  CHECK(servers.Owners() == "b b");
  CHECK(servers.Look("a").take.empty());
}

TEST_CASE("a server that leaves and is alone keeps what it has") {
  Servers servers(1);
  servers.Start("a");
  servers.Round();
  servers.members.at("a").Leave();
  servers.Round();
  CHECK(servers.Owners() == "a");
  CHECK(servers.Look("a").drop.empty());
}

TEST_CASE("who cannot be reached gets nothing, unless nobody else lives") {
  Servers servers(2);
  servers.Start("a");
  servers.Rounds(2);
  servers.Start("b");
  for (int i = 0; i < 8; ++i) {
    servers.members.at("a").NotePing(servers.now);
    servers.Do("a", servers.Look("a"));
    servers.Do("b", servers.Look("b"));
    servers.Pass(kRenewal);
  }
  CHECK(servers.Owners() == "a a");
  CHECK(!servers.members.at("b").Reached(servers.now));
  for (int i = 0; i < 8; ++i) {
    servers.Do("b", servers.Look("b"));
    servers.Do("b", servers.Look("b"));
    servers.Pass(kRenewal);
  }
  CHECK(servers.Owners() == "b b");
}

TEST_CASE("who was not reached during an outage of the store gives nothing away for that") {
  Servers servers(1);
  servers.Start("a");
  servers.Rounds(2);
  servers.Start("b");
  servers.Rounds(8);
  CHECK(servers.Owners() == "a");
  servers.Pass(LeaseTime(std::chrono::seconds(15)));
  // The owner is the first to renew, and nobody has reached it meanwhile.
  CHECK_FALSE(servers.members.at("a").Reached(servers.now));
  servers.Do("a", servers.Look("a"));
  servers.Rounds(4);
  CHECK(servers.Owners() == "a");
}

TEST_CASE("a server that was buried by one of its own address ends") {
  Servers servers(1);
  servers.Start("a", "host:1");
  servers.Round();
  servers.Pass(seconds(1));
  servers.Start("b", "host:1");
  const auto todo = servers.Look("a");
  CHECK(todo.end.find("server b advertises host:1, too") != std::string::npos);
  servers.Do("b", servers.Look("b"));
  CHECK(servers.Owners() == "b");
}

TEST_CASE("a server that was buried answers no more, whenever it renewed last") {
  Servers servers(1);
  servers.Start("a");
  servers.Round();
  REQUIRE(servers.members.at("a").MayAnswer(servers.now));
  CHECK(servers.roster.Leave("a"));
  const auto todo = servers.Look("a");
  CHECK(todo.rejoin);
  CHECK(todo.drop == std::vector<PartitionId>{0});
  CHECK(!servers.members.at("a").MayAnswer(servers.now));
}

TEST_CASE("a server drops what is another one's, and what it has under another epoch") {
  Servers servers(1);
  servers.Start("a");
  servers.Round();
  servers.Start("b");
  REQUIRE(servers.Owners() == "a");
  CHECK(servers.Look("a").drop.empty());
  CHECK(*servers.roster.Take(servers.Parts()[0], "a"));
  CHECK(servers.Look("a").drop == std::vector<PartitionId>{0});
  servers.members.at("a").Took(0, 2);
  CHECK(servers.Look("a").drop.empty());
  CHECK(*servers.roster.Give(0, 2, "a", "b"));
  CHECK(servers.Look("a").drop == std::vector<PartitionId>{0});
}

TEST_CASE("a server takes what it was given, also from one that lives") {
  Servers servers(1);
  servers.Start("a");
  servers.Round();
  servers.Start("b");
  CHECK(servers.Look("b").take.empty());
  CHECK(*servers.roster.Give(0, 1, "a", "b"));
  const auto todo = servers.Look("b");
  REQUIRE(todo.take.size() == 1);
  CHECK(todo.take[0].owner == "b");
}

TEST_CASE("a server that slept and finds its successor at its address joins anew") {
  Servers servers(1);
  servers.Start("a", "host:1");
  servers.Round();
  servers.Pass(seconds(30));
  servers.Start("b", "host:1");
  const auto todo = servers.Look("a");
  CHECK(todo.end.empty());
  CHECK(todo.rejoin);
}

TEST_CASE("a server that runs through a restore ends") {
  Servers servers(1);
  servers.Start("a");
  auto seen = *servers.roster.Renew("a", false, false);
  CHECK(servers.members.at("a").Look(seen, servers.now, servers.now).end.empty());
  ++seen.cluster.life;
  CHECK(servers.members.at("a").Look(seen, servers.now, servers.now).end.find("restored") !=
        std::string::npos);
  --seen.cluster.life;
  seen.cluster.moved = "elsewhere";
  CHECK(servers.members.at("a").Look(seen, servers.now, servers.now).end.find("elsewhere") !=
        std::string::npos);
}

TEST_CASE("a server ends that sees an epoch again which was used already") {
  Servers servers(1);
  servers.Start("a");
  servers.Rounds(2);
  auto seen = *servers.roster.Renew("a", false, false);
  CHECK(servers.members.at("a").Look(seen, servers.now, servers.now).end.empty());
  REQUIRE(seen.parts[0].held.epoch == 1);
  seen.parts[0].held.epoch = 0;
  const auto todo = servers.members.at("a").Look(seen, servers.now, servers.now);
  CHECK(todo.end.find("restored") != std::string::npos);
}

TEST_CASE("the level of the rows rises once all servers have known it for a minute") {
  Servers servers(1);
  servers.Start("a", "", 3);
  servers.Start("b", "", 2);
  servers.Rounds(20);
  const auto level = [&] { return servers.roster.Renew("", false, false)->cluster.level; };
  CHECK(level() == 0);
  servers.Rounds(20);
  CHECK(level() == 2);
  CHECK(servers.roster.Leave("b"));
  servers.members.erase("b");
  servers.Rounds(25);
  CHECK(level() == 2);
  servers.Rounds(10);
  CHECK(level() == 3);
}

TEST_CASE("the plan is the same for all, and moves as little as it can") {
  std::vector<PartRow> parts;
  for (PartitionId id = 0; id < 7; ++id) parts.push_back({.id = id});
  auto plan = Member::Plan({Row("a"), Row("b"), Row("c")}, parts);
  CHECK(plan["a"] == std::vector<PartitionId>{0, 1, 2});
  CHECK(plan["b"] == std::vector<PartitionId>{3, 4});
  CHECK(plan["c"] == std::vector<PartitionId>{5, 6});
  for (PartRow& part : parts) part.owner = part.id < 4 ? "c" : "gone";
  plan = Member::Plan({Row("a"), Row("b"), Row("c")}, parts);
  CHECK(plan["c"] == std::vector<PartitionId>{0, 1, 2});
  CHECK(plan["a"] == std::vector<PartitionId>{3, 4});
  CHECK(plan["b"] == std::vector<PartitionId>{5, 6});
}

TEST_CASE("a reply waits for the lease: eight seconds from when the renewal was sent") {
  Member member("a", "a:1", kMemberBegin);
  CHECK(!member.MayAnswer(kMemberBegin));
  Servers servers(1);
  servers.Start("a");
  const auto seen = servers.roster.Renew("a", false, false);
  CHECK(member.Look(*seen, kMemberBegin, kMemberBegin + seconds(3)).end.empty());
  CHECK(member.MayAnswer(kMemberBegin + seconds(8) - milliseconds(1)));
  CHECK(!member.MayAnswer(kMemberBegin + seconds(8)));
}

}  // namespace dfsmr
