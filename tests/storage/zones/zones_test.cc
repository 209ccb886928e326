#include "storage/zones/zones.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "storage/zones/tzif.h"

namespace dfsmr {
namespace {

std::string Problem(Zones& zones, std::string_view name) {
  const auto zone = zones.Find(name);
  return zone ? "" : zone.error().message;
}

std::string FileOf(std::string_view name) {
  std::ifstream file(std::string(Zones::kFolder) + "/" + std::string(name), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

TEST_CASE("each zone of the machine can be read, once") {
  Zones zones;
  const auto names = zones.Names();
  CHECK(names.size() > 400);
  CHECK(std::ranges::binary_search(names, "America/Argentina/Buenos_Aires"));
  CHECK(std::ranges::binary_search(names, "Etc/GMT+5"));
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto zone = zones.Find(name);
    REQUIRE(zone);
    CHECK((*zone)->name() == name);
    CHECK(*zones.Find(name) == *zone);
  }
}

TEST_CASE("an unknown zone is refused with the nearest") {
  Zones zones;
  auto suggests = [&zones](std::string_view name, std::string_view known) {
    const std::string problem = Problem(zones, name);
    INFO(problem);
    return problem.find("did you mean '" + std::string(known) + "'?") != std::string::npos;
  };
  CHECK(suggests("Europe/Berln", "Europe/Berlin"));
  CHECK(suggests("europe/berlin", "Europe/Berlin"));
  CHECK(suggests("Berlin", "Europe/Berlin"));
  CHECK(suggests("America/NewYork", "America/New_York"));
  CHECK(suggests("utc", "UTC"));
  CHECK(Problem(zones, "Mars/Olympus").find("is no time zone") != std::string::npos);
}

TEST_CASE("what is not a name of a zone is not looked up") {
  Zones zones;
  for (const char* name : {"", "/etc/passwd", "../../../etc/passwd", "Europe/../Europe/Berlin",
                           "posix/Europe/Berlin", "right/Europe/Berlin", "localtime", "posixrules",
                           "zone.tab", "Europe", "Europe/", "Europe/Berlin ", "Europe//Berlin"}) {
    CAPTURE(name);
    CHECK(Problem(zones, name) != "");
  }
}

TEST_CASE("without tzdata there is UTC") {
  Zones zones("/nonexistent");
  CHECK(Problem(zones, "UTC") == "");
  const auto berlin = zones.Find("Europe/Berlin");
  REQUIRE(!berlin);
  CHECK(berlin.error().code == Code::kUnavailable);
}

TEST_CASE("a damaged file is an error") {
  const std::string bytes = FileOf("Europe/Berlin");
  REQUIRE(ReadTzif("X", bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = ReadTzif("X", std::string_view(bytes).substr(0, size));
    REQUIRE(!cut);
    CHECK(cut.error().code == Code::kDataLoss);
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x91);
    (void)ReadTzif("X", changed);
  }
  CHECK(!ReadTzif("X", FileOf("right/Europe/Berlin")));
}

}  // namespace
}  // namespace dfsmr
