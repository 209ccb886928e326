// Webhooks, as the HTTP door calls them.
#include "dsrv/calls/webhooks.h"

#include <doctest/doctest.h>

#include <deque>

#include "dsrv/engine/secrets.h"
#include "dsrv/engine/triggers.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr const char* kTriggers = R"(
trigger: push
on: {webhook: {path: git/push, token: {secret: git, header: X-Token}}}
dedupe: "${item.headers.x-delivery}"
start: {machine: m, params: {after: "${item.body.after}"}}
---
id: m
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

SecretKeysPtr Keys() {
  auto keys = ParseSecretKeys(std::string(64, '1'), "test");
  REQUIRE(keys);
  return std::make_shared<const SecretKeys>(*std::move(keys));
}

EngineOptions Options() {
  EngineOptions options;
  options.secret_keys = Keys();
  return options;
}

// A door to a world: what it posts is run in turns, one after the other.
class Door {
 public:
  Door() {
    door_.post = [this](Mailbox::Mail mail) {
      mail_.push_back(std::move(mail));
      return !full;
    };
    door_.elsewhere = [this](std::function<void()> job) { jobs_.push_back(std::move(job)); };
    Put("s3cret");
    Parsed parsed = ParseDefinitions(kTriggers, "test");
    REQUIRE(parsed.ok());
    std::vector<DefineProblem> problems;
    REQUIRE(world.Do([&](Engine& engine) {
      return DefineAtOnce(engine, "ns",
                          {std::move(parsed.definitions), std::move(parsed.documents)}, false,
                          &problems);
    }));
  }

  Result<WebhookAnswer> Receive(const std::string& path, const std::string& token,
                                const std::string& delivery, const std::string& body) {
    std::optional<Result<WebhookAnswer>> answer;
    ReceiveWebhook(door_,
                   {.ns = "ns",
                    .path = path,
                    .headers = {{"Content-Type", "application/json"},
                                {"X-Token", token},
                                {"X-Delivery", delivery}},
                    .body = body},
                   [&answer](Result<WebhookAnswer> given) { answer = std::move(given); });
    while (!answer && (!mail_.empty() || !jobs_.empty())) {
      for (auto jobs = std::exchange(jobs_, {}); const auto& job : jobs) job();
      for (auto mail = std::exchange(mail_, {}); auto& one : mail) {
        world.Decide([&one](Engine& engine) { one.run(engine); });
        if (answer) CHECK(!*answer);  // not before it is durable
        world.Commit();
      }
    }
    REQUIRE(answer);
    return *answer;
  }
  // OK, or how it was refused.
  Code CodeOf(const std::string& path, const std::string& token, const std::string& delivery,
              const std::string& body) {
    const auto answer = Receive(path, token, delivery, body);
    return answer ? Code::kOk : answer.error().code;
  }

  void Put(const std::string& value) {
    REQUIRE(world.Do([&](Engine& e) { return e.secrets().Put("ns", "git", value, "me"); }));
  }

  World world{Options()};
  bool full = false;

 private:
  WebhookDoor door_;
  std::deque<Mailbox::Mail> mail_;
  std::deque<std::function<void()>> jobs_;
};

constexpr const char* kBody = R"({"after":"4f2a"})";

}  // namespace

TEST_CASE(
    "a webhook that is proven starts what its trigger says, and answers when that is durable") {
  Door door;
  const auto answer = door.Receive("git/push", "s3cret", "1", kBody);
  REQUIRE(answer);
  CHECK(answer->trigger == "push");
  CHECK(answer->occurrence.outcome == OccurrenceOutcome::kStarted);
  CHECK(door.world.Must("push-1").machine == "m");
  const auto again = door.Receive("git/push", "s3cret", "1", kBody);
  REQUIRE(again);
  CHECK(again->occurrence.outcome == OccurrenceOutcome::kDuplicate);
  const auto failed = door.Receive("git/push", "s3cret", "2", "{}");
  REQUIRE(failed);
  CHECK(failed->occurrence.outcome == OccurrenceOutcome::kFailed);
}

TEST_CASE("a webhook that is not proven leaves no trace") {
  Door door;
  const uint64_t before = door.world.engine().last_seq();
  CHECK(door.CodeOf("git/push", "wrong", "1", kBody) == Code::kUnauthenticated);
  CHECK(door.CodeOf("git", "s3cret", "1", kBody) == Code::kNotFound);
  door.full = true;
  CHECK(door.CodeOf("git/push", "s3cret", "1", kBody) == Code::kResourceExhausted);
  CHECK(door.world.engine().last_seq() == before);
}

TEST_CASE("a webhook asks for the newest value of its secret") {
  Door door;
  CHECK(door.CodeOf("git/push", "s3cret", "1", kBody) == Code::kOk);
  door.Put("another");
  CHECK(door.CodeOf("git/push", "s3cret", "2", kBody) == Code::kUnauthenticated);
  CHECK(door.CodeOf("git/push", "another", "2", kBody) == Code::kOk);
  door.world.Do([](Engine& e) {
    e.secrets().SetKeys(nullptr);
    return true;
  });
  const auto locked = door.Receive("git/push", "another", "3", kBody);
  REQUIRE(!locked);
  CHECK(locked.error().code == Code::kUnavailable);
  CHECK(locked.error().reason == Reason::kSecretsLocked);
  REQUIRE(door.world.Do([](Engine& e) { return e.secrets().Delete("ns", "git", 0); }));
  CHECK(door.CodeOf("git/push", "another", "3", kBody) == Code::kUnauthenticated);
  CHECK(door.CodeOf("git/push", "", "3", kBody) == Code::kUnauthenticated);
}

TEST_CASE("a webhook of a paused trigger is to be tried again later") {
  Door door;
  REQUIRE(door.world.Do(
      [](Engine& engine) { return engine.triggers().Pause("ns", "push", "lunch", "me"); }));
  const auto answer = door.Receive("git/push", "s3cret", "1", kBody);
  REQUIRE(!answer);
  CHECK(answer.error().code == Code::kUnavailable);
  CHECK(answer.error().message.find("lunch") != std::string::npos);
  REQUIRE(
      door.world.Do([](Engine& engine) { return engine.triggers().Resume("ns", "push", false); }));
  CHECK(door.CodeOf("git/push", "s3cret", "1", kBody) == Code::kOk);
}

}  // namespace dfsmr
