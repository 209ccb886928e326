// Which tasks of which partitions a worker gets.
#include "dsrv/cluster/levels.h"

#include <doctest/doctest.h>
#include <google/protobuf/util/time_util.h>

#include "dsrv/cluster/taking.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

struct Level {
  int64_t priority;
  uint32_t tasks;
  std::vector<int64_t> since;  // microseconds; of the oldest
};

peer::PeekResponse Has(const std::vector<Level>& levels) {
  peer::PeekResponse found;
  for (const Level& level : levels) {
    auto& one = *found.add_levels();
    one.set_priority(level.priority);
    one.set_tasks(level.tasks);
    *one.mutable_since() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(level.since[0]);
    for (size_t i = 1; i < level.since.size(); ++i) {
      one.add_later(static_cast<uint64_t>(level.since[i] - level.since[0]));
    }
  }
  return found;
}

using Order = std::vector<PartitionId>;

TEST_CASE("nothing is dealt of nothing") {
  CHECK(Deal({}, 10).empty());
  CHECK(Deal({Has({}), Has({})}, 10).empty());
  CHECK(Deal({Has({{5, 3, {0}}})}, 0).empty());
  CHECK(Deal({Has({{5, 0, {0}}})}, 1).empty());
}

TEST_CASE("the highest priority is first, whatever its partition and however new it is") {
  const auto low = Has({{1, 100, {10}}});
  const auto high = Has({{7, 2, {99}}, {1, 1, {5}}});
  CHECK(Deal({low, high}, 2) == Order{1, 1});
  CHECK(Deal({low, high}, 5) == Order{1, 1, 0, 1, 0});
  CHECK(Deal({Has({{-3, 1, {0}}}), Has({{-2, 1, {0}}})}, 2) == Order{1, 0});
}

TEST_CASE("of those whose age nobody has told each partition has its turn") {
  const std::vector<peer::PeekResponse> found{Has({{0, 4, {30}}}), Has({{0, 1, {10}}}), Has({}),
                                              Has({{0, 2, {20}}})};
  CHECK(Deal(found, 3) == Order{0, 1, 3});
  CHECK(Deal(found, 100) == Order{0, 1, 3, 3, 0, 0, 0});
}

TEST_CASE("tasks of a partition go together where they overtake nobody by more than 30 ms") {
  const auto first = Has({{0, 4, {1'000, 2'000, 3'000, 31'000}}});
  const auto second = Has({{0, 3, {10'000, 31'000, 31'001}}});
  CHECK(Deal({first, second}, 4) == Order{0, 0, 0, 0});
  CHECK(Deal({first, second}, 2, {.turn = 0}) == Order{0, 0});
  CHECK(Deal({first, second}, 2, {.turn = 1}) == Order{1, 1});
  // Of the other the third is too young.
  CHECK(Deal({first, second}, 3, {.turn = 1}) == Order{0, 0, 0});
  CHECK(Deal({first, second}, 7) == Order{0, 0, 0, 0, 1, 1, 1});
  const auto old = Has({{0, 1, {0}}});
  CHECK(Deal({old, first, second}, 3) == Order{1, 1, 1});  // which is overtaken by 3 ms
  CHECK(Deal({old, second}, 3) == Order{0, 1, 1});
  CHECK(Deal({Has({{0, 2, {0, 90'000}}}), Has({{0, 2, {40'000, 50'000}}})}, 4) ==
        Order{0, 1, 1, 0});
}

TEST_CASE("what was found is for others, too, until it is theirs") {
  TopLevel top({Has({{5, 3, {1'000, 2'000, 9'000}}, {0, 90, {0}}}), Has({{5, 2, {2'000, 8'000}}}),
                Has({{0, 99, {500}}})});
  CHECK(top.Take(2, {}) == Order{0, 0});
  CHECK(top.Take(3, {}) == Order{1, 1, 0});
  CHECK_FALSE(top.Take(1, {}));  // others have less of that priority
}

TEST_CASE("of partitions that would do equally well a near one is taken") {
  const auto two = Has({{0, 4, {1'000, 2'000, 3'000, 60'000}}});
  const Choice near{.turn = 0, .near = {false, true, false}};
  CHECK(Deal({two, two, two}, 3, near) == Order{1, 1, 1});
  CHECK(Deal({two, two, two}, 5, near) == Order{1, 1, 1, 0, 0});
  // Not where others have more, or have waited for longer.
  CHECK(Deal({two, Has({{0, 1, {1'000}}}), two}, 3, near) == Order{0, 0, 0});
  CHECK(Deal({Has({{0, 2, {0, 1}}}), Has({{0, 3, {40'000}}}), {}}, 2, near) == Order{0, 0});
}

TEST_CASE("what may be older than all that is known takes another look") {
  TopLevel top({Has({{0, 9, {1'000, 2'000}}}), Has({{0, 2, {1'500, 33'000}}})});
  CHECK(top.Take(3, {}) == Order{0, 0, 1});
  CHECK_FALSE(top.Take(1, {}));  // partition 0 has more, perhaps ready since 2 ms
}

TEST_CASE("a reply has as many tasks as a client can receive, one at least") {
  v1::ReadyResponse taken;
  for (int i = 0; i < 5; ++i) {
    auto& task = *taken.add_tasks();
    task.set_instance(std::to_string(i));
    task.set_checkpoint(std::string(1 << 20, 'x'));
  }
  v1::ReadyResponse others = CutToMessage(&taken);
  CHECK(taken.tasks_size() == 3);
  REQUIRE(others.tasks_size() == 2);
  CHECK(others.tasks(0).instance() == "3");
  CHECK(taken.ByteSizeLong() < limits::kMessage);
  v1::ReadyResponse large;
  large.add_tasks()->set_checkpoint(std::string(2 * limits::kMessage, 'x'));
  CHECK(CutToMessage(&large).tasks().empty());
  CHECK(large.tasks_size() == 1);
}

}  // namespace
}  // namespace dfsmr
