// Where instances live.
#include "storage/place.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace dfsmr {
namespace {

TEST_CASE("an instance lives where the contract says") {
  struct Row {
    const char* ns;
    const char* id;
    uint64_t hash;
    PartitionId of_16;
    PartitionId of_1024;
  };
  for (const Row& row : std::vector<Row>{
           {"default", "hello", 0x2a584165814304a9, 9, 169},
           {"", "hello", 0x2a584165814304a9, 9, 169},
           {"default", "order/4711", 0x74c3c84529499a4b, 11, 587},
           {"default", "shop/order/4711", 0x1960bdc3c129c620, 0, 544},
           {"acme", "infra/fleet/12/node.0.vm/3", 0x52e6fa1edbf1052b, 11, 299}}) {
    INFO(row.id);
    CHECK(PlaceHash(row.ns, row.id) == row.hash);
    CHECK(PartitionOf(row.ns, row.id, 16) == row.of_16);
    CHECK(PartitionOf(row.ns, row.id, 1'024) == row.of_1024);
    CHECK(PartitionOf(row.ns, row.id, 1) == 0);
  }
}

TEST_CASE("the root of an id is what is left without the ends of children") {
  struct Row {
    const char* id;
    const char* root;
  };
  for (const Row& row : std::vector<Row>{
           {"hello", "hello"},
           {"order/4711", "order/4711"},  // nothing would be before it
           {"/order/4711", "/order/4711"},
           {"a/order/4711", "a"},
           {"shop/order/1", "shop"},
           {"a/b/c/1", "a/b"},
           {"a/b.0_c-D/12/e/3", "a"},
           {"x//s/1", "x/"},
           {"a/s/", "a/s/"},
           {"a//1", "a//1"},
           {"a/s/1x", "a/s/1x"},
           {"a/s!/1", "a/s!/1"},
           {"a/s/12345678901234567890", "a"},
           {"a/s/123456789012345678901", "a/s/123456789012345678901"},
           {"7/8/9", "7"},
           {"6/7/8/9", "6/7"},
           {"", ""},
           {"/", "/"},
           {"//", "//"},
           {"a/s/1/", "a/s/1/"}}) {
    CAPTURE(row.id);
    CHECK(Root(row.id) == row.root);
  }
}

TEST_CASE("children live with their parents, whatever these are called") {
  for (const std::string parent : {"a", "order/4711", "shop/order/1", "x/", "a//b", "!/7", "7/8"}) {
    for (const std::string end : {"/s/0", "/node.0.vm/3", "/a-b_c/18446744073709551615"}) {
      CAPTURE(parent + end);
      CHECK(Root(parent + end) == Root(parent));
      CHECK(PlaceHash("ns", parent + end) == PlaceHash("ns", parent));
      CHECK(PlaceHash("ns", parent + end + "/t/1") == PlaceHash("ns", parent));
    }
  }
}

TEST_CASE("partitions get like shares, and namespaces do not share places") {
  std::vector<int> shares(16);
  int same = 0;
  for (int i = 0; i < 16'000; ++i) {
    const std::string id = "job-" + std::to_string(i);
    const uint64_t hash = PlaceHash("one", id);
    ++shares[hash % 16];
    if (hash % 16 == PlaceHash("two", id) % 16) ++same;
  }
  for (const int share : shares) CHECK(std::abs(share - 1'000) < 150);
  CHECK(std::abs(same - 1'000) < 150);
}

}  // namespace
}  // namespace dfsmr
