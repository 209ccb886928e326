// Which tasks of which partitions a worker gets.
#include "dsrv/cluster/levels.h"

#include <doctest/doctest.h>
#include <google/protobuf/util/time_util.h>

namespace dfsmr {
namespace {

struct Level {
  int64_t priority;
  uint32_t tasks;
  int64_t since;  // microseconds
};

peer::PeekResponse Has(const std::vector<Level>& levels) {
  peer::PeekResponse found;
  for (const Level& level : levels) {
    auto& one = *found.add_levels();
    one.set_priority(level.priority);
    one.set_tasks(level.tasks);
    *one.mutable_since() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(level.since);
  }
  return found;
}

using Order = std::vector<PartitionId>;

TEST_CASE("nothing is dealt of nothing") {
  CHECK(Deal({}, 10).empty());
  CHECK(Deal({Has({}), Has({})}, 10).empty());
  CHECK(Deal({Has({{5, 3, 0}})}, 0).empty());
  CHECK(Deal({Has({{5, 0, 0}})}, 1).empty());
}

TEST_CASE("the highest priority is first, whatever its partition and however new it is") {
  const auto low = Has({{1, 100, 10}});
  const auto high = Has({{7, 2, 99}, {1, 1, 5}});
  CHECK(Deal({low, high}, 2) == Order{1, 1});
  CHECK(Deal({low, high}, 5) == Order{1, 1, 1, 0, 0});
  CHECK(Deal({Has({{-3, 1, 0}}), Has({{-2, 1, 0}})}, 2) == Order{1, 0});
}

TEST_CASE("of equals each partition has its turn, beginning with the oldest") {
  const std::vector<peer::PeekResponse> found{Has({{0, 4, 30}}), Has({{0, 1, 10}}), Has({}),
                                              Has({{0, 2, 20}})};
  CHECK(Deal(found, 3) == Order{1, 3, 0});
  CHECK(Deal(found, 100) == Order{1, 3, 0, 3, 0, 0, 0});
}

}  // namespace
}  // namespace dfsmr
