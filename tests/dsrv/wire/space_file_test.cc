// The files of an export that people may read: what is written is read again, as it was.
#include "dsrv/wire/space_file.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

TEST_CASE("settings, keys and names of secrets are read as they were written") {
  SpaceFile file;
  file.name = "acme";
  file.settings.set_description("the \"shop\":\n# no comment");
  (*file.settings.mutable_labels())["team"] = "yes";
  (*file.settings.mutable_labels())["a"] = "";
  file.settings.set_require_signatures(true);
  file.settings.mutable_quotas()->set_live_instances(0);
  file.settings.mutable_quotas()->set_starts_per_second(0.25);
  file.settings.mutable_quotas()->mutable_retention()->set_seconds(90);
  file.keys = {{"ann", "ssh-ed25519 AAAA ann@example.org", false},
               {"bob", "ssh-ed25519 BBBB", true}};
  file.secrets = {"db", "tls"};
  const std::string text = ToYaml(file);
  const auto read = ReadSpaceFile(text, "namespace.yaml");
  REQUIRE(read.has_value());
  CHECK(ToYaml(*read) == text);
  CHECK(read->settings.description() == file.settings.description());
  CHECK(read->settings.labels().at("team") == "yes");
  CHECK(read->settings.quotas().has_live_instances());
  CHECK(!read->settings.quotas().has_ready_tasks());
  CHECK(read->keys[1].revoked);
  CHECK(read->secrets == file.secrets);
}

TEST_CASE("what is wrong with it is said with its place") {
  for (const char* text : {"quotas: {cows: 1}", "quotas: {live_instances: -1}", "secrets: 7",
                           "trusted_keys: {a: b}", "namespace: [a]", "- 1", "a: b\n---\nc: d"}) {
    CAPTURE(text);
    const auto read = ReadSpaceFile(text, "namespace.yaml");
    REQUIRE(!read.has_value());
    CHECK(read.error().reason == Reason::kBadArchive);
    CHECK(read.error().message.starts_with("namespace.yaml:"));
  }
}

TEST_CASE("what is in force is read as it was written") {
  const ActiveFile file = {{"etl", {"1.4.0", "", 0}}, {"shop", {"1.0.0", "1.1.0-rc.1", 525}}};
  const auto read = ReadActiveFile(ToYaml(file), "packages/active.yaml");
  REQUIRE(read.has_value());
  CHECK(ToYaml(*read) == ToYaml(file));
  CHECK(read->at("shop").share == 525);
  for (const char* text :
       {"etl: {}", "etl: {active: 1.0.0, candidate: 1.1.0}", "etl: {active: 1.0.0, percent: 5}",
        "etl: 1.0.0", "etl: {active: 1.0.0, candidate: 1.1.0, percent: 100}"}) {
    CAPTURE(text);
    CHECK(!ReadActiveFile(text, "packages/active.yaml").has_value());
  }
}

}  // namespace
}  // namespace dfsmr
