// The mailbox when more comes than the engine can take.
#include <doctest/doctest.h>

#include "dsrv/loop.h"
#include "fsm/limits.h"

namespace dfsmr {
namespace {

Mailbox::Mail Letter(size_t bytes = 0, bool owed = false) {
  return {.run = [](Engine&) {}, .drop = [] {}, .bytes = bytes, .owed = owed};
}

size_t TakeAll(Mailbox* mailbox) {
  mailbox->Close();
  size_t taken = 0;
  while (auto mail = mailbox->Take(std::chrono::steady_clock::now())) {
    CHECK(mail->size() <= limits::kTurnItems);
    taken += mail->size();
  }
  return taken;
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

}  // namespace
}  // namespace dfsmr
