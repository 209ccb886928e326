// What the exporter sends of a real engine's feed, and what it does while nobody takes it.
#include "dsrv/otlp/exporter.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/dsrv/engine/world.h"

namespace dfsmr::otlp {
namespace {

// An engine, its feed, and a collector that answers as it is told.
struct Server {
  Server() {
    world.OnCommit([this](const Turn& turn, const std::vector<Event>&) {
      if (!turn.feed->empty()) changes.Publish(turn.feed);
    });
    world.Define("id: job\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n");
    options.version = "1";
    options.linger = 1ms;
    options.first_wait = 1ms;
    options.post = [this](const std::string& json, std::chrono::milliseconds) {
      const Lock lock(mutex);
      ++tries;
      changed.NotifyAll();
      if (answer == Delivery::kTaken) taken.push_back(json);
      return Delivered{answer, "as it was told"};
    };
  }
  void Begin() { exporter = std::make_unique<Exporter>(options, world.engine().reader(), changes); }
  // Instances from start to end: four spans each.
  void Run(int count) {
    for (int i = 0; i < count; ++i) {
      StartArgs args{.machine = "job"};
      args.spec.trace = TraceContext{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true};
      REQUIRE(world.TryStart(std::move(args)));
      REQUIRE(world.Report(world.ReadyOne(), "ok"));
    }
  }
  void Tell(Delivery delivery) {
    const Lock lock(mutex);
    answer = delivery;
  }
  void AwaitTries(int count) {
    Lock lock(mutex);
    changed.Wait(lock, [&]() REQUIRES(mutex) { return tries >= count; });
  }

  World world;
  Pool pool{1};
  Changes changes{world.store(),
                  {world.partition(), world.engine().last_seq(), 1},
                  pool,
                  [](const Event&, PartitionId) { return std::string(); }};
  ExporterOptions options;
  Mutex mutex;
  ConditionVariable changed;
  Delivery answer GUARDED(mutex) = Delivery::kTaken;
  int tries GUARDED(mutex) = 0;
  std::vector<std::string> taken GUARDED(mutex);
  std::unique_ptr<Exporter> exporter;
};

TEST_CASE("it begins at the feed's end, and its end sends what is there") {
  Server server;
  server.Run(3);
  server.Begin();
  server.Run(5);
  server.exporter->Stop();
  CHECK(server.exporter->counts().sent == 20);
  CHECK(server.exporter->counts().dropped == 0);
}

TEST_CASE("a batch has so many spans at most, or little more") {
  Server server;
  server.options.batch = 8;
  server.options.linger = std::chrono::hours(1);
  server.Begin();
  server.Run(20);
  server.exporter->Stop();
  CHECK(server.exporter->counts().sent == 80);
  const Lock lock(server.mutex);
  CHECK(server.taken.size() >= 10);
  CHECK(server.taken.size() <= 11);
}

TEST_CASE("a collector that is away is tried again, and gets all of it when it is back") {
  Server server;
  server.Tell(Delivery::kLater);
  server.Begin();
  server.Run(10);
  server.AwaitTries(5);
  server.Tell(Delivery::kTaken);
  server.Run(1);
  server.exporter->Stop();
  CHECK(server.exporter->counts().sent == 44);
  CHECK(server.exporter->counts().dropped == 0);
}

TEST_CASE("a collector that stays away loses what is older than it was waited for") {
  Server server;
  server.options.patience = 0ms;
  server.Tell(Delivery::kLater);
  server.Begin();
  server.Run(10);
  server.exporter->Stop();
  CHECK(server.exporter->counts().sent == 0);
  CHECK(server.exporter->counts().dropped == 40);
}

TEST_CASE("what it does not take at all is dropped at once, and what follows is sent") {
  Server server;
  server.Tell(Delivery::kNever);
  server.Begin();
  server.Run(1);
  server.AwaitTries(1);
  server.Tell(Delivery::kTaken);
  server.Run(1);
  server.exporter->Stop();
  const auto counts = server.exporter->counts();
  CHECK(counts.sent + counts.dropped == 8);
  CHECK(counts.sent >= 4);
  CHECK(counts.dropped >= 1);
}

TEST_CASE("the end does not wait for a collector that is away") {
  Server server;
  server.Tell(Delivery::kLater);
  server.options.first_wait = std::chrono::hours(1);
  server.Begin();
  server.Run(2);
  server.AwaitTries(1);
  server.exporter->Stop();
  CHECK(server.exporter->counts().dropped == 8);
}

TEST_CASE("nor for as many batches as have gathered meanwhile") {
  Server server;
  server.Tell(Delivery::kLater);
  server.options.batch = 4;
  server.options.first_wait = std::chrono::hours(1);
  server.Begin();
  server.Run(200);
  server.AwaitTries(1);
  server.exporter->Stop();
  const Lock lock(server.mutex);
  CHECK(server.tries <= 3);  // that under way, once more, and a last one
}

TEST_CASE("what comes while it is given up is counted as dropped, without a wait for each batch") {
  Server server;
  server.Tell(Delivery::kLater);
  server.options.batch = 4;
  server.options.patience = 0ms;
  server.Begin();
  server.Run(50);
  server.exporter->Stop();
  CHECK(server.exporter->counts().dropped == 200);
  const Lock lock(server.mutex);
  CHECK(server.tries == 1);
}

}  // namespace
}  // namespace dfsmr::otlp
