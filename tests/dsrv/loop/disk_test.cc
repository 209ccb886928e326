// The rule by which free bytes become room.
#include "dsrv/loop/disk.h"

#include <doctest/doctest.h>

#include <vector>

namespace dfsmr {
namespace {

TEST_CASE("room is scarce below the reserve, none below half of it, and back a little later") {
  struct Row {
    uint64_t free;
    Room was;
    Room is;
  };
  using enum Room;
  for (const Row& row : std::vector<Row>{{80, kAmple, kAmple},
                                         {79, kAmple, kScarce},
                                         {40, kAmple, kScarce},
                                         {39, kAmple, kNone},
                                         {80, kScarce, kScarce},
                                         {89, kScarce, kScarce},
                                         {90, kScarce, kAmple},
                                         {49, kNone, kNone},
                                         {50, kNone, kScarce},
                                         {89, kNone, kScarce},
                                         {90, kNone, kAmple}}) {
    CAPTURE(row.free);
    CAPTURE(row.was);
    CHECK(RoomOf(row.free, 80, row.was) == row.is);
  }
  CHECK(RoomOf(0, 0, kNone) == kAmple);
}

TEST_CASE("what can be done without goes before room is scarce") {
  constexpr uint64_t kMebibyte = 1 << 20;
  CHECK(NearlyScarce(1'249 * kMebibyte, 1'000 * kMebibyte));
  CHECK(!NearlyScarce(1'250 * kMebibyte, 1'000 * kMebibyte));
  CHECK(NearlyScarce(73 * kMebibyte, 10 * kMebibyte));
  CHECK(!NearlyScarce(74 * kMebibyte, 10 * kMebibyte));
  CHECK(!NearlyScarce(0, 0));
}

TEST_CASE("what may come is what is free beside the reserve and the store's own work") {
  CHECK(SpareRoom(100, 20, 30) == 50);
  CHECK(SpareRoom(50, 20, 30) == 0);
  CHECK(SpareRoom(10, 20, 30) == 0);
  CHECK(!SpareRoom("/", 0, 30));
  CHECK(!SpareRoom("/no/such/folder", 20, 30));
  CHECK(*SpareRoom("/", uint64_t{1} << 62, 30) == 0);
}

}  // namespace
}  // namespace dfsmr
