// The two threads around an engine, on a store whose writes end when the test says so.
#include "dsrv/loop/loop.h"

#include <doctest/doctest.h>

#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "fsm/base/limits.h"
#include "fsm/base/mutex.h"
#include "storage/memory_store.h"
#include "tests/dsrv/loop/outside.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

class SlowStore final : public MemoryStore {
 public:
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override {
    Lock lock(mutex_);
    ++begun_;
    changed_.NotifyAll();
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return begun_ <= let_; });
    return MemoryStore::Write(partition, epoch, batch);
  }

  void AwaitBegun(int writes) {
    Lock lock(mutex_);
    changed_.Wait(lock, [&]() REQUIRES(mutex_) { return begun_ >= writes; });
  }
  void Let(int writes) {
    const Lock lock(mutex_);
    let_ = writes;
    changed_.NotifyAll();
  }
  int begun() {
    const Lock lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int begun_ GUARDED(mutex_) = 0;
  int let_ GUARDED(mutex_) = 0;
};

struct Rig {
  Rig() {
    auto opened = Engine::Open(store, {}, Timestamp());
    REQUIRE(opened);
    engine = *std::move(opened);
    loop = std::make_unique<Loop>(*engine, store, mailbox, QuietOutside());
  }

  ~Rig() {
    store.Let(std::numeric_limits<int>::max());
    loop->Stop();
  }

  // Of a row that has to be written. What it waits for has been decided, and then been written.
  struct Call {
    std::future<void> decided;
    std::future<void> told;
  };
  Call Post(const std::string& key) {
    auto decided = std::make_shared<std::promise<void>>();
    auto told = std::make_shared<std::promise<void>>();
    Call call{decided->get_future(), told->get_future()};
    REQUIRE(loop->Post({.run =
                            [=](Engine& in) {
                              in.writer().batch.Put(key, "");
                              in.AfterCommit([told] { told->set_value(); });
                              decided->set_value();
                            },
                        .drop = [] {}}));
    return call;
  }

  SlowStore store;
  std::unique_ptr<Engine> engine;
  Mailbox mailbox;
  std::unique_ptr<Loop> loop;
};

bool Ready(const std::future<void>& future) {
  return future.wait_for(0s) == std::future_status::ready;
}

TEST_CASE("what comes while a turn is written is decided meanwhile, and shares one commit") {
  Rig rig;
  auto first = rig.Post("a");
  rig.store.AwaitBegun(1);
  std::vector<Rig::Call> later;
  for (int i = 0; i < 10; ++i) {
    later.push_back(rig.Post("b" + std::to_string(i)));
    later.back().decided.wait();
  }
  CHECK(!Ready(first.told));
  rig.store.Let(1);
  first.told.wait();
  rig.store.AwaitBegun(2);
  for (auto& call : later) CHECK(!Ready(call.told));
  rig.store.Let(2);
  for (auto& call : later) call.told.wait();
  CHECK(rig.store.begun() == 2);
}

TEST_CASE("an answer that need not be durable does not wait for the disk") {
  Rig rig;
  auto first = rig.Post("a");
  rig.store.AwaitBegun(1);
  std::promise<void> told;
  REQUIRE(rig.loop->Post({.run =
                              [&told](Engine& in) {
                                in.writer().batch.Put("b", "");
                                in.AfterPass(SessionId{}, [&told](bool) { told.set_value(); });
                              },
                          .drop = [] {}}));
  told.get_future().wait();
  CHECK(!Ready(first.told));
  CHECK(rig.store.begun() == 1);
}

TEST_CASE("a turn that waits for the disk takes only so much") {
  Rig rig;
  auto first = rig.Post("a");
  rig.store.AwaitBegun(1);
  std::vector<Rig::Call> later;
  for (size_t i = 0; i < limits::kTurnItems; ++i) {
    later.push_back(rig.Post("b" + std::to_string(i)));
    later.back().decided.wait();
  }
  auto last = rig.Post("c");
  rig.store.Let(2);
  rig.store.AwaitBegun(3);
  for (auto& call : later) call.told.wait();
  CHECK(!Ready(last.told));
  rig.store.Let(3);
  last.told.wait();
}

TEST_CASE("a loop that stops while a turn is open writes it first") {
  Rig rig;
  auto first = rig.Post("a");
  rig.store.AwaitBegun(1);
  auto second = rig.Post("b");
  second.decided.wait();
  std::thread stopping([&] { rig.loop->Stop(); });
  rig.store.Let(1'000);
  stopping.join();
  CHECK(Ready(first.told));
  CHECK(Ready(second.told));
}

}  // namespace
}  // namespace dfsmr
