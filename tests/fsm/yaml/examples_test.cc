// Every example in machines/ is a sound definition.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fsm/yaml/definitions.h"
#include "storage/zones/zones.h"

namespace dfsmr {
namespace {

TEST_CASE("every machine in the examples folder can be defined") {
  int machines = 0;
  Zones zones;
  const FindZone find = [&zones](std::string_view name) { return zones.Find(name); };
  for (const auto& entry : std::filesystem::recursive_directory_iterator(DFSMR_MACHINES)) {
    const auto extension = entry.path().extension();
    if (extension != ".yaml" && extension != ".yml") continue;
    if (entry.path().stem() == "workers") continue;  // of agents: it holds no document
    if (entry.path().string().find("/etl/") != std::string::npos) continue;  // a package
    CAPTURE(entry.path().string());
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const Parsed parsed = ParseDefinitions(text.str(), entry.path().filename().string(), find);
    std::string problems;
    for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
    CHECK_MESSAGE(problems.empty(), problems);
    CHECK_FALSE((parsed.definitions.empty() && parsed.documents.empty()));
    machines += static_cast<int>(parsed.definitions.size());
    for (const Machine& one : parsed.definitions) {
      CHECK_MESSAGE(!one.description.empty(), one.id, " says what it is for");
    }
    for (const Document& one : parsed.documents) {
      CHECK_MESSAGE(!one.description.empty(), one.name, " says what it is for");
    }
  }
  CHECK(machines > 0);
}

}  // namespace
}  // namespace dfsmr
