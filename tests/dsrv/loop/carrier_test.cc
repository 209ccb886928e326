// Messages of one partition on their way to another, by loops on one store.
#include "dsrv/loop/carrier.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "dsrv/engine/messages.h"
#include "storage/memory_store.h"
#include "storage/rows/message.h"
#include "tests/dsrv/loop/outside.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

// One partition of two.
struct Half {
  Half(MemoryStore& shared, PartitionId id) : store(shared), partition(id) {
    auto opened = Engine::Open(store, {.partition = partition, .partitions = 2}, Timestamp());
    REQUIRE(opened);
    engine = *std::move(opened);
    loop = std::make_unique<Loop>(*engine, store, mailbox, QuietOutside());
  }
  ~Half() { loop->Stop(); }

  // Sends so many to the other one, durably.
  void Send(int count) {
    std::promise<void> durable;
    loop->Post({.run =
                    [&](Engine& in) {
                      for (int i = 0; i < count; ++i) {
                        in.messages().Send(static_cast<PartitionId>(1 - partition),
                                           {rows::Message::Ended{"ns", "a", "b"}});
                      }
                      in.AfterCommit([&] { durable.set_value(); });
                    },
                .drop = [] {},
                .owed = true});
    durable.get_future().wait();
  }
  const std::shared_ptr<Outgoing>& outgoing() { return engine->messages().outgoing(); }

  MemoryStore& store;
  const PartitionId partition;
  std::unique_ptr<Engine> engine;
  Mailbox mailbox;
  std::unique_ptr<Loop> loop;
};

// Up to which number the messages of a partition are applied in the other one, durably.
uint64_t AppliedOf(const MemoryStore& store, PartitionId from) {
  auto ins = rows::GetIns({store, static_cast<PartitionId>(1 - from)});
  REQUIRE(ins);
  return (*ins)[from];
}

template <typename Holds>
void Await(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(holds());
}

TEST_CASE("what a partition has for another one is applied there, and told back") {
  MemoryStore store;
  Half one(store, 0);
  Half other(store, 1);
  Half* const halves[] = {&one, &other};
  Carrier carrier([&](Carrier::Portion portion, Carrier::Told told) {
    Carrier::Take(*halves[portion.to]->loop, std::move(portion), std::move(told));
  });
  carrier.Join(0, one.outgoing(), *one.loop);
  carrier.Join(1, other.outgoing(), *other.loop);
  for (int i = 0; i < 3; ++i) {
    one.Send(700);
    other.Send(3);
  }
  Await([&] { return carrier.waiting() == 0; });
  CHECK(AppliedOf(store, 0) == 2'100);
  CHECK(AppliedOf(store, 1) == 9);
  carrier.Leave(0);
  carrier.Leave(1);
}

TEST_CASE("what is lost on the way, or cannot be applied yet, is sent again") {
  MemoryStore store;
  Half one(store, 0);
  Half other(store, 1);
  std::atomic<int> tries = 0;
  std::atomic<int> twice = 0;
  Carrier carrier([&](Carrier::Portion portion, Carrier::Told told) {
    const int number = ++tries;
    if (number <= 2) return told({});
    if (number == 3) return told(0);
    if (number == 4) {  // it arrives, and nobody hears of it
      ++twice;
      return Carrier::Take(*other.loop, std::move(portion),
                           [told](std::optional<uint64_t>) { told({}); });
    }
    Carrier::Take(*other.loop, std::move(portion), std::move(told));
  });
  one.Send(5);
  carrier.Join(0, one.outgoing(), *one.loop);
  Await([&] { return carrier.waiting(0) == 0; });
  CHECK(AppliedOf(store, 0) == 5);
  CHECK(twice == 1);
  carrier.Leave(0);
}

TEST_CASE("what was left unapplied goes on where its partition is opened next") {
  MemoryStore store;
  Half other(store, 1);
  Carrier carrier([&](Carrier::Portion portion, Carrier::Told told) {
    Carrier::Take(*other.loop, std::move(portion), std::move(told));
  });
  {
    Half one(store, 0);
    one.Send(3);  // nobody carries them
  }
  {
    Half one(store, 0);
    carrier.Join(0, one.outgoing(), *one.loop);
    Await([&] { return carrier.waiting(0) == 0; });
    one.Send(2);
    Await([&] { return AppliedOf(store, 0) == 5; });
    carrier.Leave(0);
    one.Send(1);
  }
  Half one(store, 0);
  carrier.Join(0, one.outgoing(), *one.loop);
  Await([&] { return AppliedOf(store, 0) == 6; });
  carrier.Leave(0);
}

TEST_CASE("an answer that comes after its partition has left is for nobody") {
  MemoryStore store;
  Carrier::Told late;
  std::promise<void> asked;
  Carrier carrier([&](const Carrier::Portion&, Carrier::Told told) {
    late = std::move(told);
    asked.set_value();
  });
  {
    Half one(store, 0);
    carrier.Join(0, one.outgoing(), *one.loop);
    one.Send(1);
    asked.get_future().wait();
    carrier.Leave(0);
  }
  late(1);
  CHECK(carrier.waiting() == 0);
}

}  // namespace
}  // namespace dfsmr
