// The secrets of a task.
#include "dcli/agent/secrets.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dcli/system/left.h"

namespace dfsmr::cli {
namespace secrets_test {

v1::Task TaskOf(const std::string& params, const std::string& input = "") {
  v1::Task task;
  task.set_instance_params(params);
  task.set_node_params(input);
  return task;
}

Worker WorkerOf(const std::vector<std::string>& secrets) {
  Worker worker;
  worker.name = "load";
  worker.secrets = secrets;
  return worker;
}

std::vector<SecretRef> Missing(const Worker& worker, const v1::Task& task,
                               const OwnSecrets& own = {}) {
  SecretValues have;
  auto missing = MissingSecrets(worker, task, true, own, &have);
  REQUIRE(missing);
  return *missing;
}

}  // namespace secrets_test

using secrets_test::Missing;
using secrets_test::TaskOf;
using secrets_test::WorkerOf;

TEST_CASE("placeholders are found wherever they stand in params and input, each once") {
  const v1::Task task =
      TaskOf(R"({"a":{"$secret":"db"},"b":[1,{"c":{"$secret":"tls","version":3}}]})",
             R"({"d":{"$secret":"db"}})");
  CHECK(Missing(WorkerOf({"*"}), task) == std::vector<SecretRef>{{"db", 0}, {"tls", 3}});
  CHECK(Missing(WorkerOf({"*"}), TaskOf(R"({"a":{"$secret":5},"b":{"$secret":"db","x":1,"y":2}})"))
            .empty());
  CHECK(Missing(WorkerOf({"*"}), TaskOf(R"({"a":"$secret","$secrets":{}})")).empty());
}

TEST_CASE("a worker asks for what it lists") {
  SecretValues have;
  const auto refused = MissingSecrets(WorkerOf({"customer-*"}), TaskOf(R"({"a":{"$secret":"db"}})"),
                                      true, {}, &have);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("db") != std::string::npos);
  CHECK(Missing(WorkerOf({"customer-*"}), TaskOf(R"({"a":{"$secret":"customer-7"}})")).size() == 1);
}

TEST_CASE("values stand in the places of their names, and all else as it was written") {
  SecretValues values;
  values.Set({"db", 0}, "p\"q\n");
  values.Set({"db", 2}, "old");
  const auto filled = WithSecrets(
      TaskOf(R"({ "n": 1.50, "a":{"$secret":"db"},"b":[{"$secret":"db","version":2}] })",
             R"({"x":  1e3})"),
      values);
  REQUIRE(filled);
  CHECK(filled->instance_params().find(R"("p\"q\n")") != std::string::npos);
  CHECK(filled->instance_params().find(R"(["old"])") != std::string::npos);
  CHECK(filled->instance_params().find("1.50") != std::string::npos);
  CHECK(filled->node_params() == R"({"x":  1e3})");
  values.Set({"db", 0}, "\xff\xfe");
  CHECK_FALSE(WithSecrets(TaskOf(R"({"a":{"$secret":"db"}})"), values));
}

TEST_CASE("an agent's own values are not asked for") {
  const auto own = ParseEnvFile("# of this machine\n\ndb=a=b c\r\ntls=\n", "own.env");
  REQUIRE(own);
  CHECK(own->at("db") == "a=b c");
  CHECK(own->at("tls").empty());
  Worker worker = WorkerOf({});
  worker.secret_env = {{"DB", "db", 4, false}, {"KEY", "key", 3, true}};
  SecretValues have;
  auto missing = MissingSecrets(worker, TaskOf("{}"), true, *own, &have);
  REQUIRE(missing);
  CHECK(*missing == std::vector<SecretRef>{{"key", 3}});
  REQUIRE(have.Find({"db", 4}));
  CHECK(*have.Find({"db", 4}) == "a=b c");
  missing = MissingSecrets(worker, TaskOf("{}"), false, *own, &have);
  CHECK(missing->empty());  // another task of a process that has its variables
}

TEST_CASE("what is wrong with a file of values is told by its line, and not shown") {
  for (const char* bad : {"x=1\nhunter2\n", "x=1\nhunter 2=3\n", "x=1\nx=hunter2\n"}) {
    const auto own = ParseEnvFile(bad, "own.env");
    REQUIRE_FALSE(own);
    CHECK(own.error().message.starts_with("own.env:2: "));
    CHECK(own.error().message.find("hunter") == std::string::npos);
  }
}

TEST_CASE("a command gets variables with secrets, and files that only it can read") {
  char folder[] = "/tmp/dfsmr-secrets-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  Launch launch;
  launch.folder = folder;
  launch.environment = {"HOME=/x", "DB=mine"};
  Worker worker = WorkerOf({});
  worker.secret_env = {{"DB", "db", 0, false}, {"KEY", "key", 3, true}};
  SecretValues values;
  values.Set({"db", 0}, "hunter2");
  values.Set({"key", 3}, std::string("a\0b", 3));
  REQUIRE(GiveSecrets(worker, values, &launch));
  const auto has = [&](const std::string& entry) {
    return std::ranges::find(launch.environment, entry) != launch.environment.end();
  };
  CHECK(has("DB=hunter2"));
  CHECK_FALSE(has("DB=mine"));
  const std::string path = std::string(folder) + "/secrets/KEY";
  CHECK(has("KEY=" + path));
  struct stat about {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == std::string("a\0b", 3));
  values.Set({"db", 0}, std::string("a\0b", 3));
  CHECK_FALSE(GiveSecrets(worker, values, &launch));
  DeleteFolder(folder);
}

}  // namespace dfsmr::cli
