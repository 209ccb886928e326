// The mailbox when more comes than the engine can take.
#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "dsrv/loop/mailbox.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

Mailbox::Mail Letter(size_t bytes = 0, bool owed = false) {
  return {.run = [](Engine&) {}, .drop = [] {}, .bytes = bytes, .owed = owed};
}

size_t TakeAll(Mailbox* mailbox) {
  mailbox->Close();
  size_t items = 0;
  while (auto taken = mailbox->Take(std::chrono::steady_clock::now())) {
    CHECK(taken->mail.size() <= limits::kTurnItems);
    items += taken->mail.size();
  }
  return items;
}

TEST_CASE("a full mailbox refuses what is new and takes what is owed") {
  Mailbox mailbox;
  size_t posted = 0;
  SUBCASE("by count") {
    while (mailbox.Post(Letter())) ++posted;
    CHECK(posted <= limits::kMailboxItems);
    CHECK(posted > limits::kTurnItems);
  }
  SUBCASE("by bytes") {
    while (mailbox.Post(Letter(limits::kMessage))) ++posted;
    CHECK(posted <= limits::kMailboxBytes / limits::kMessage);
  }
  for (int i = 0; i < 10; ++i) CHECK(mailbox.Post(Letter(0, /*owed=*/true)));
  CHECK(!mailbox.Post(Letter()));
  CHECK(TakeAll(&mailbox) == posted + 10);
  CHECK(!mailbox.Post(Letter(0, /*owed=*/true)));
}

TEST_CASE("a mailbox that was full takes more once a turn was taken") {
  Mailbox mailbox;
  while (mailbox.Post(Letter(limits::kMessage))) continue;
  REQUIRE(mailbox.Take(std::chrono::steady_clock::now()));
  CHECK(mailbox.Post(Letter()));
}

TEST_CASE("who waits for mail only while something holds is woken when it ends") {
  Mailbox mailbox;
  std::atomic<bool> writing = true;
  std::optional<Mailbox::Taken> taken;
  std::thread decider([&] {
    taken = mailbox.Take(std::chrono::steady_clock::now() + std::chrono::hours(1), &writing);
  });
  writing = false;
  mailbox.Wake();
  decider.join();
  REQUIRE(taken);  // not closed
  CHECK(taken->mail.empty());
}

TEST_CASE("a crowd is refused whose last would have to wait for long, at the pace of late") {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kMiB = 1 << 20;
  Mailbox mailbox;
  for (int i = 0; i < 8; ++i) REQUIRE(mailbox.Post(Letter(kMiB)));  // no crowd yet
  for (int turn = 0; turn < 4; ++turn) {  // 25 MiB/s
    REQUIRE(mailbox.Take(Clock::now())->mail.size() == 1);
    for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(40);) {
      continue;
    }
  }
  REQUIRE(mailbox.Take(Clock::now())->mail.size() == 1);
  size_t waiting = 3;
  while (mailbox.Post(Letter(kMiB))) ++waiting;
  CHECK(waiting > 8);
  CHECK(waiting <= 26);
  CHECK(mailbox.Post(Letter(kMiB, /*owed=*/true)));
}

TEST_CASE("small turns, each of which waits for a sync, do not tell the pace of a crowd") {
  using Clock = std::chrono::steady_clock;
  Mailbox mailbox;
  REQUIRE(mailbox.Post(Letter(100)));
  for (int turn = 0; turn < 4; ++turn) {
    REQUIRE(mailbox.Take(Clock::now())->mail.size() == 1);
    REQUIRE(mailbox.Post(Letter(100)));
    for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(10);) {
      continue;
    }
  }
  int posted = 0;
  while (posted < 1'000 && mailbox.Post(Letter(10 << 10))) ++posted;
  CHECK(posted == 1'000);
}

}  // namespace
}  // namespace dfsmr
