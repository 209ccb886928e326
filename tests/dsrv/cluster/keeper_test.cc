#include "dsrv/cluster/keeper.h"

#include "storage/memory_roster.h"
#include "tests/dsrv/cluster/servers.h"

namespace dfsmr {

namespace {

// A server that keeps a lease, and serves as soon as it owns the partition.
struct Kept {
  explicit Kept(MemoryRoster& its_roster, const std::string& id,
                std::function<std::string(const std::string&)> where = {}, uint16_t partitions = 1,
                LeaseTime busy = kRenewal)
      : roster(its_roster), server(id, partitions) {
    ServerRow row{.id = id, .address = server.Address()};
    CHECK(roster.Join(row, {}));
    Keeper::Outside outside{.dial =
                                [where](const std::string& address) {
                                  return grpc::CreateChannel(where ? where(address) : address,
                                                             grpc::InsecureChannelCredentials());
                                },
                            .took =
                                [this](const PartRow& part) {
                                  epoch = part.held.epoch;
                                  keeper->Serves(part.id, server.inside, nullptr);
                                },
                            .lost = [this](const std::string& why) { lost = why; },
                            .give =
                                [this, partitions](const Keeper::Gift& gift) {
                                  if (partitions > 1) Give(gift);
                                },
                            .end = [](const std::string&) {},
                            .time = [](Timestamp) {},
                            .alive = [this](bool is) { alive = is; },
                            .redial = seconds(3),
                            .busy = busy};
    keeper = std::make_unique<Keeper>(roster, row, LeaseTimeNow(), server.front, outside);
    server.may_answer = [this] { return keeper->MayAnswer(); };
    server.pinged = [this](bool look) { keeper->Pinged(look); };
    keeper->Start();
  }
  ~Kept() {
    std::vector<std::future<void>> under_way;
    {
      const Lock lock(mutex);
      ends = true;
      under_way.swap(gifts);
    }
    under_way.clear();
    server.Stop();  // it asks the keeper
    keeper.reset();
  }
  void Give(const Keeper::Gift& gift) {
    const Lock lock(mutex);
    if (ends) return;
    gifts.push_back(std::async(std::launch::async, [this, gift] {
      server.front.SetRoute(gift.first, {});
      keeper->Give(gift);
    }));
  }

  MemoryRoster& roster;
  Server server;
  std::atomic<Epoch> epoch = 0;
  std::string lost;
  std::atomic<bool> alive = false;
  std::unique_ptr<Keeper> keeper;
  Mutex mutex;
  bool ends GUARDED(mutex) = false;
  std::vector<std::future<void>> gifts GUARDED(mutex);
};

std::chrono::steady_clock::time_point Soon() {
  return std::chrono::steady_clock::now() + seconds(10);
}

}  // namespace

TEST_CASE("one server owns the partition, and another passes calls on to it") {
  MemoryRoster roster;
  CHECK(roster.Open(1));
  Kept a(roster, "a");
  CHECK(a.server.Call(kChange, "hello").reply == "hello");
  CHECK(a.epoch == 1);
  CHECK(a.alive);
  CHECK(a.server.front.meter().handovers() == 1);
  CHECK(a.keeper->lease_left() > seconds(5));
  Kept b(roster, "b");
  CallOutcome outcome;
  for (int left = 10; left > 0 && outcome.reply.empty(); --left) {
    outcome = b.server.Call(kChange, "hello");
  }
  CHECK(outcome.reply == "hello");
  CHECK(b.epoch == 0);
  CHECK(b.server.echo.Calls() == 0);
  REQUIRE(b.keeper->sight());
  CHECK(b.keeper->sight()->peers.size() == 1);
}

TEST_CASE("a server that leaves gives the partition away, and no call fails") {
  MemoryRoster roster;
  CHECK(roster.Open(1));
  Kept a(roster, "a");
  CHECK(a.server.Call(kChange, "hello").status.ok());
  Kept b(roster, "b");
  std::atomic<bool> over = false;
  auto crowd = std::async(std::launch::async, [&] {
    int failed = 0;
    while (!over) {
      if (!b.server.Call(kChange, "hello").status.ok()) ++failed;
    }
    return failed;
  });
  const auto gift = a.keeper->Leave(Soon());  // when b was seen to answer
  REQUIRE(gift);
  CHECK(*gift == Keeper::Gift{0, "b"});
  a.server.Nobody();
  CHECK(a.server.front.AwaitInside(Soon(), {}));
  CHECK(a.keeper->Give(*gift));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(a.server.Call(kChange, "hello").reply == "hello");  // by way of b
  CHECK(std::chrono::steady_clock::now() - begin < seconds(2));
  over = true;
  CHECK(crowd.get() == 0);
  CHECK(b.epoch == 3);
  CHECK(a.server.echo.Calls() > 0);
  CHECK(!a.keeper->Give(*gift));
}

TEST_CASE("what a server that ended had is another one's at once") {
  MemoryRoster roster;
  CHECK(roster.Open(1));
  Kept a(roster, "a");
  CHECK(a.server.Call(kChange, "hello").status.ok());
  Kept b(roster, "b");
  while (!b.keeper->sight() || b.keeper->sight()->peers.empty() ||
         !b.keeper->sight()->peers[0]->answers) {
    (void)b.server.Call(kRead, "x");
  }
  (void)a.keeper->Leave(Soon());
  a.server.Nobody();
  a.keeper->Quit();
  CHECK(a.lost.empty());
  CallOutcome outcome;
  for (int left = 10; left > 0 && outcome.reply.empty(); --left) {
    outcome = b.server.Call(kChange, "hello");
  }
  CHECK(outcome.reply == "hello");
  CHECK(b.epoch == 2);
}

TEST_CASE("a server that does not answer is dialled anew") {
  MemoryRoster roster;
  CHECK(roster.Open(1));
  Kept a(roster, "a");
  CHECK(a.server.Call(kChange, "hello").reply == "hello");
  std::atomic<int> dialled = 0;
  Kept b(roster, "b", [&dialled](const std::string& address) {
    return ++dialled == 1 ? "127.0.0.1:1" : address;  // as if a certificate had run out meanwhile
  });
  CallOutcome outcome;
  for (int left = 10; left > 0 && outcome.reply.empty(); --left) {
    outcome = b.server.Call(kChange, "hello");
  }
  CHECK(outcome.reply == "hello");
  CHECK(dialled >= 2);
}

namespace {

std::map<std::string, int> Shares(MemoryRoster& roster) {
  std::map<std::string, int> shares;
  for (const PartRow& part : roster.Renew("", false, false)->parts) ++shares[part.owner];
  return shares;
}

}  // namespace

TEST_CASE("servers share several partitions, and each call finds the owner of its own") {
  constexpr uint16_t kPartitions = 4;
  MemoryRoster roster;
  CHECK(roster.Open(kPartitions));
  Kept a(roster, "a", {}, kPartitions);
  for (PartitionId partition = 0; partition < kPartitions; ++partition) {
    CHECK(a.server.Call(kChange, StartIn(partition, kPartitions)).status.ok());
  }
  Kept b(roster, "b", {}, kPartitions);
  // What moves holds calls up, and fails none.
  int failed = 0;
  const auto until = Soon();
  while (Shares(roster)["b"] < 2 && std::chrono::steady_clock::now() < until) {
    for (PartitionId partition = 0; partition < kPartitions; ++partition) {
      Kept& asked = partition % 2 == 0 ? a : b;
      if (!asked.server.Call(kChange, StartIn(partition, kPartitions)).status.ok()) ++failed;
    }
  }
  CHECK(failed == 0);
  CHECK(Shares(roster) == std::map<std::string, int>{{"a", 2}, {"b", 2}});
  for (PartitionId partition = 0; partition < kPartitions; ++partition) {
    for (Kept* asked : {&a, &b}) {
      CHECK(asked->server.Call(kChange, StartIn(partition, kPartitions)).status.ok());
    }
  }
  CHECK(b.server.echo.Calls() > 0);
  CHECK(a.lost.empty());
  CHECK(b.lost.empty());
}

namespace {

// Renews leases, and fails to do anything else.
class Stubborn final : public MemoryRoster {
 public:
  Result<std::optional<Holding>> Take(const PartRow&, const std::string&) override {
    ++takes;
    return Error{Code::kUnavailable, Reason::kNone, "no"};
  }
  std::atomic<int> takes = 0;
};

}  // namespace

TEST_CASE("what fails at once is not tried again at once") {
  Stubborn roster;
  CHECK(roster.Open(1));
  Kept a(roster, "a");
  CHECK(a.server.Call(kChange, "hello").reason == "NO_OWNER");  // for two seconds
  CHECK(roster.takes >= 2);
  CHECK(roster.takes <= 15);
}

namespace {

// Each take lasts as long as the server may be busy. Counts those that follow each other without a
// renewal between them.
class Slow final : public MemoryRoster {
 public:
  Result<Seen> Renew(const std::string& self, bool reached, bool leaving) override {
    renewed = true;
    return MemoryRoster::Renew(self, reached, leaving);
  }
  Result<std::optional<Holding>> Take(const PartRow& part, const std::string& self) override {
    ++takes;
    if (!renewed.exchange(false)) ++unrenewed;
    return MemoryRoster::Take(part, self);
  }
  std::atomic<bool> renewed = false;
  std::atomic<int> takes = 0;
  std::atomic<int> unrenewed = 0;
};

}  // namespace

TEST_CASE("a lease is renewed while many partitions are taken slowly") {
  constexpr uint16_t kPartitions = 4;
  Slow roster;
  CHECK(roster.Open(kPartitions));
  Kept a(roster, "a", {}, kPartitions, LeaseTime::zero());
  for (PartitionId partition = 0; partition < kPartitions; ++partition) {
    CHECK(a.server.Call(kChange, StartIn(partition, kPartitions)).status.ok());
  }
  CHECK(roster.takes == kPartitions);
  CHECK(roster.unrenewed == 0);
}

}  // namespace dfsmr
