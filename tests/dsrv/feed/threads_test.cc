// All threads of a server but gRPC's, at once: clients, the loop's two, watchers of the feed, the
// pool, readers. `make tsan` runs it under ThreadSanitizer.
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dsrv/engine/reader.h"
#include "dsrv/feed/changes.h"
#include "dsrv/loop/loop.h"
#include "fsm/base/mutex.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

// Follows the feed from its begin, as a stream does whose client reads at once.
class Follower final : public Changes::Watcher, public std::enable_shared_from_this<Follower> {
 public:
  explicit Follower(Changes& changes) : changes_(changes) {}

  void Wake() override {
    while (true) {
      auto portion = changes_.Read(at_, UINT64_MAX, {});
      if (!portion) {
        changes_.pool().Post([self = shared_from_this()] {
          auto read = self->changes_.ReadStore(self->at_, UINT64_MAX, {});
          self->Take(read ? *read : nullptr);
          self->Wake();
        });
        return;
      }
      Take(portion);
      if (portion->at_head) return changes_.WakeLater(weak_from_this(), at_);
    }
  }

  // Waits until the feed was read up to `seq`. How often a record did not follow the one before.
  int AwaitUpTo(uint64_t seq) {
    Lock lock(mutex_);
    changed_.Wait(lock, [&]() REQUIRES(mutex_) { return seen_ >= seq; });
    return gaps_;
  }

 private:
  void Take(const Changes::PortionPtr& portion) {
    const Lock lock(mutex_);
    if (!portion) {
      ++gaps_;
      return;
    }
    for (const auto& change : portion->changes) {
      const uint64_t seq = std::stoull(*change);
      if (seq != seen_ + 1) ++gaps_;
      seen_ = seq;
    }
    at_ = portion->up_to;
    changed_.NotifyAll();
  }

  Changes& changes_;
  uint64_t at_ = 0;  // changed by whoever was woken
  Mutex mutex_;
  ConditionVariable changed_;
  uint64_t seen_ GUARDED(mutex_) = 0;
  int gaps_ GUARDED(mutex_) = 0;
};

class Server {
 public:
  Server()
      : engine_(Open(store_)),
        changes_(store_, {engine_->reader().partition, engine_->last_seq(), 1}, pool_,
                 [](const Event& event, PartitionId) { return std::to_string(event.seq); }),
        loop_(*engine_, store_, mailbox_,
              {.clock = Now,
               .entropy = [this] { return entropy_(); },
               .room = nullptr,
               .publish = [this](auto feed) { changes_.Publish(std::move(feed)); },
               .trimmed = [this](uint64_t first) { changes_.Trim(first); },
               .fail = [](const Error& error) { FAIL(error.message); }}) {}
  ~Server() {
    loop_.Stop();
    pool_.Stop();
  }

  static Timestamp Now() {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }

  // What `command` answers, when it is durable.
  template <typename Command>
  auto Do(Command command) {
    using Outcome = decltype(command(*engine_));
    auto promise = std::make_shared<std::promise<Outcome>>();
    auto future = promise->get_future();
    REQUIRE(loop_.Post({.run =
                            [=](Engine& engine) mutable {
                              auto outcome = command(engine);
                              engine.AfterCommit([=] { promise->set_value(outcome); });
                            },
                        .drop = [] {}}));
    return future.get();
  }
  // Waits for one task.
  Task Take() {
    auto promise = std::make_shared<std::promise<Task>>();
    auto future = promise->get_future();
    REQUIRE(loop_.Post({.run =
                            [=](Engine& engine) {
                              (void)engine.Poll({.filter = {.ns = "ns"},
                                                 .worker = "w",
                                                 .max_tasks = 1,
                                                 .until = Now() + 600s},
                                                [=](std::vector<Task> tasks) {
                                                  promise->set_value(tasks.at(0));
                                                });
                            },
                        .drop = [] {}}));
    return future.get();
  }

  Changes& changes() { return changes_; }
  Reader reader() const { return engine_->reader(); }

 private:
  static std::unique_ptr<Engine> Open(Store& store) {
    auto opened = Engine::Open(store, {.compile = CompileOne, .parse_flow = ToFlow}, Now());
    REQUIRE(opened);
    return *std::move(opened);
  }

  MemoryStore store_;
  Pool pool_{2};
  std::mt19937_64 entropy_{1};
  std::unique_ptr<Engine> engine_;
  Changes changes_;
  Mailbox mailbox_;
  Loop loop_;
};

TEST_CASE("each watcher sees every change once and in order, whatever else goes on") {
  constexpr int kClients = 4;
  constexpr int kEach = 50;
  Server server;
  auto machines = ParseMachines(kJob);
  REQUIRE(server.Do([&](Engine& engine) { return TryDefine(engine, machines); }));

  std::vector<std::shared_ptr<Follower>> followers;
  for (int i = 0; i < 3; ++i) {
    followers.push_back(std::make_shared<Follower>(server.changes()));
    followers.back()->Wake();
  }
  std::atomic<bool> over = false;
  std::atomic<int> refused = 0;
  std::thread reading([&] {
    const Reader reader = server.reader();
    while (!over) {
      const auto view = reader.store.Snapshot();
      auto scanned = view->Scan("", "", [](auto, auto) { return true; });
      if (!scanned || !reader.registry.Find("ns", "job")) ++refused;
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&server, &refused, client] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = std::to_string(client) + "-" + std::to_string(i);
        auto started = server.Do([id](Engine& engine) {
          return engine.Start({.ns = "ns", .machine = "job", .id = id});
        });
        const Task task = server.Take();
        auto answer = server.Do([task](Engine& engine) {
          return engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim});
        });
        if (!started || !answer) ++refused;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  over = true;
  reading.join();
  CHECK(refused == 0);
  // Defined; started, claimed and reported each.
  CHECK(server.changes().head() >= 1 + 3 * kClients * kEach);
  for (const auto& follower : followers) {
    CHECK(follower->AwaitUpTo(server.changes().head()) == 0);
  }
}

}  // namespace
}  // namespace dfsmr
