#include "storage/zones/zones.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

TEST_CASE("each zone of the machine can be read") {
  Zones zones;
  const auto names = zones.Names();
  CHECK(names.size() > 400);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto zone = zones.Find(name);
    REQUIRE(zone);
    CHECK((*zone)->name() == name);
  }
}

}  // namespace
}  // namespace dfsmr
