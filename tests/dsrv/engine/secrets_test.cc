// Secrets: versions and bounds, keys that change, over crashes. Who may ask is drawn in the
// simulator, too.
#include "dsrv/engine/secrets.h"

#include <doctest/doctest.h>

#include "dsrv/engine/deletions.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

SecretKeysPtr Keys(const std::vector<char>& digits) {
  std::string text;
  for (const char digit : digits) text += std::string(64, digit) + "\n";
  auto keys = ParseSecretKeys(text, "test");
  REQUIRE(keys);
  return std::make_shared<const SecretKeys>(*std::move(keys));
}

EngineOptions With(SecretKeysPtr keys) {
  EngineOptions options;
  options.secret_keys = std::move(keys);
  return options;
}

class Vault : public World {
 public:
  explicit Vault(const std::vector<char>& keys = {'1'}) : World(With(Keys(keys))) {}

  Result<rows::SecretRow> Put(const std::string& name, const std::string& value,
                              const std::string& ns = "ns") {
    return Do([&](Engine& e) { return e.secrets().Put(ns, name, value, "me"); });
  }
  Result<rows::SecretRow> Delete(const std::string& name, uint32_t version = 0) {
    return Do([&](Engine& e) { return e.secrets().Delete("ns", name, version); });
  }
  void SetKeys(SecretKeysPtr keys) {
    Do([&](Engine& e) {
      e.secrets().SetKeys(keys);
      return true;
    });
  }
  Result<std::string> Newest(const std::string& name) {
    auto sealed = Do([&](Engine& e) { return e.secrets().Newest("ns", name); });
    if (!sealed) return sealed.error();
    return sealed->Open();
  }
  Result<Ok> MayAsk(const Task& task) {
    return Do([&](Engine& e) {
      return e.secrets().MayAsk("ns", task.instance, ClaimRef(task.claim), {"db"});
    });
  }
};

constexpr const char* kServed = R"(
id: m
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

}  // namespace

TEST_CASE("versions count from 1, ten are kept, and no number is given twice") {
  Vault vault;
  for (uint32_t i = 1; i <= 12; ++i) {
    auto put = vault.Put("db", "value" + std::to_string(i));
    REQUIRE(put);
    CHECK(put->last == i);
    CHECK(put->versions.size() == std::min<size_t>(i, 10));
  }
  CHECK(*vault.Newest("db") == "value12");
  CHECK(vault.Delete("db", 2).error().reason == Reason::kNoSuchSecret);  // dropped by the newest
  REQUIRE(vault.Delete("db", 12));
  CHECK(*vault.Newest("db") == "value11");
  REQUIRE(vault.Delete("db"));
  CHECK(vault.Newest("db").error().reason == Reason::kNoSuchSecret);
  CHECK(vault.Delete("db").error().reason == Reason::kNoSuchSecret);
  vault.Crash();
  CHECK(vault.Put("db", "again")->last == 13);
}

TEST_CASE("a namespace has a thousand names of secrets") {
  Vault vault;
  vault.Do([](Engine& e) {
    for (size_t i = 0; i < Secrets::kNames; ++i) {
      REQUIRE(e.secrets().Put("ns", "s" + std::to_string(i), "x", ""));
    }
    return true;
  });
  CHECK(vault.Put("more", "x").error().reason == Reason::kTooLarge);
  CHECK(vault.Put("s7", "another version"));
  vault.Crash();
  CHECK(vault.Put("more", "x").error().reason == Reason::kTooLarge);
  CHECK(vault.Put("more", "x", "other"));
  REQUIRE(vault.Delete("s7"));
  CHECK(vault.Put("more", "x"));
}

TEST_CASE("without a key nothing is put, and what is sealed is named by its key") {
  Vault vault;
  REQUIRE(vault.Put("db", "value"));
  const std::string key = Keys({'1'})->first().id;
  vault.SetKeys(nullptr);
  CHECK(vault.Put("db", "value").error().reason == Reason::kSecretsLocked);
  const auto locked = vault.Newest("db");
  CHECK(locked.error().reason == Reason::kSecretsLocked);
  CHECK(locked.error().message.find(key) != std::string::npos);
  vault.SetKeys(Keys({'2'}));
  CHECK(vault.Put("tls", "value"));
  CHECK(vault.Newest("db").error().reason == Reason::kSecretsLocked);
  vault.SetKeys(Keys({'2', '1'}));
  CHECK(*vault.Newest("db") == "value");
}

TEST_CASE("a new key on top seals all anew, some at a time, over crashes") {
  Vault vault;
  for (int i = 0; i < 60; ++i) REQUIRE(vault.Put("s" + std::to_string(i), std::to_string(i)));
  const SecretKeysPtr both = Keys({'2', '1'});
  const std::string old = both->keys[1].id;
  size_t crashes = 0;
  for (uint64_t left = 60; left > 0;) {
    vault.SetKeys(both);
    vault.Drain(1);
    vault.Crash();
    ++crashes;
    const auto& counts = vault.engine().secrets().by_key();
    const uint64_t now = counts.contains(old) ? counts.at(old) : 0;
    CHECK(now < left);
    left = now;
  }
  CHECK(crashes > 1);  // not all at once
  vault.SetKeys(Keys({'2'}));
  for (int i = 0; i < 60; ++i) CHECK(*vault.Newest("s" + std::to_string(i)) == std::to_string(i));
  CHECK(vault.engine().secrets().by_key() ==
        std::map<std::string, uint64_t>{{both->first().id, 60}});
}

TEST_CASE("who may still report on a task may have its secrets") {
  Vault vault;
  vault.Define(kServed);
  vault.Start("m", "a");
  vault.Start("m", "b");
  auto tasks = vault.Ready();
  REQUIRE(tasks.size() == 2);
  CHECK(vault.MayAsk(tasks[0]));
  REQUIRE(vault.Report(tasks[0], "ok"));
  CHECK(vault.MayAsk(tasks[0]).error().reason == Reason::kStaleClaim);
  REQUIRE(vault.Relinquish(tasks[1]));
  CHECK(vault.MayAsk(tasks[1]).error().reason == Reason::kStaleClaim);
  Task forged = vault.ReadyOne();
  CHECK(vault.MayAsk(forged));
  vault.Crash();
  CHECK(vault.MayAsk(forged));
  forged.claim += "0";
  CHECK(vault.MayAsk(forged).error().reason == Reason::kStaleClaim);
  forged.instance = "nobody";
  CHECK_FALSE(vault.MayAsk(forged));
}

TEST_CASE("the secrets of a namespace go with it") {
  Vault vault;
  REQUIRE(vault.Put("db", "value", "gone"));
  REQUIRE(vault.Put("db", "value"));
  REQUIRE(vault.Do([](Engine& e) { return e.Delete("gone", 0s, "me"); }));
  vault.Elapse(2s);
  vault.Drain();
  const rows::Reader reader{vault.store(), vault.partition()};
  CHECK(rows::SecretsOf(reader, "gone")->empty());
  CHECK_FALSE(*rows::GetSealed(reader, "gone", "db", 1));
  CHECK(*vault.Newest("db") == "value");
  CHECK(vault.engine().secrets().by_key().begin()->second == 1);
  CHECK(vault.Put("db", "value", "gone")->last == 1);
}

}  // namespace dfsmr
