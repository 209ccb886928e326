#include "fsm/package/worker.h"

#include <doctest/doctest.h>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// A place that has these programs only.
Result<std::string> Find(const std::string& word) {
  const Error none{Code::kInvalidArgument, Reason::kNone, "there is no program " + Quoted(word)};
  if (word.find('/') != word.npos) {
    return word.find("no-such") == word.npos ? Result<std::string>("/usr/bin/" + word) : none;
  }
  for (const char* known : {"sh", "cat", "env", "echo", "printf", "test", "kill", "pwd", "true"}) {
    if (word == known) return "/usr/bin/" + word;
  }
  return none;
}

std::string Wrong(const std::string& text) {
  std::vector<Diagnostic> found;
  ParseWorkersFile(text, "w.yaml", Find, &found);
  std::string lines;
  for (const Diagnostic& one : found) lines += Format(one) + "\n";
  return lines;
}

WorkersFile ReadWorkers(const std::string& text) {
  std::vector<Diagnostic> found;
  WorkersFile file = ParseWorkersFile(text, "w.yaml", Find, &found);
  for (const Diagnostic& one : found) FAIL_CHECK(Format(one));
  return file;
}

}  // namespace

TEST_CASE("an empty file of workers is told what it needs") {
  for (const char* empty : {"", "\n", "# workers\n"}) {
    CAPTURE(empty);
    CHECK(Wrong(empty) ==
          "w.yaml:1:1: workers: the file is empty; it needs workers: {NAME: {run: COMMAND}}\n");
  }
}

TEST_CASE("a worker is a command, or all that is said of it") {
  const WorkersFile file = ReadWorkers(R"(
workers:
  a.b: ./env X=1
  load:
    serves: [orders.load, "report.*"]
    run: [sh, -c, "exit 3"]
    env: {LEVEL: info, N: 7}
    directory: task
    requires: [gpu]
    jobs: 2
    timeout: 10m
    kill_after: 0s
    on_cancel: finish
    exit: {3: missing, 255: worse}
    memory: 512MiB
    cpu: 1.5
    processes: 256
    dry_run: true
  two: {run: "cat x; cat y"}
  own: {run: "cd /"}
  quick: {run: cat, mode: serve, concurrency: 4, idle: 1m, tasks: 10}
middleware: {audit: [env, A=1], loud: cat x;}
)");
  REQUIRE(file.workers.size() == 5);
  CHECK(file.workers[0].serves == std::vector<std::string>{"a.b"});
  CHECK(file.workers[0].run ==
        std::vector<std::string>{"/bin/sh", "-c", "exec '/usr/bin/./env' X=1"});
  const Worker& load = file.workers[1];
  CHECK(load.serves == std::vector<std::string>{"orders.load", "report.*"});
  CHECK(load.run.size() == 3);
  CHECK(load.run[0].ends_with("/sh"));
  CHECK(load.env == std::vector<std::string>{"LEVEL=info", "N=7"});
  CHECK(load.own_directory);
  CHECK(load.required == std::vector<std::string>{"gpu"});
  CHECK(load.jobs == 2);
  CHECK(load.timeout == std::chrono::minutes(10));
  CHECK(load.kill_after == Duration::zero());
  CHECK(load.finish);
  CHECK(load.exits == std::map<int, std::string>{{3, "missing"}, {255, "worse"}});
  CHECK(load.limits == ProcessLimits{512U << 20, 1.5, 256});
  CHECK(load.dry_run);
  CHECK(file.workers[2].run[2] == "cat x; cat y");
  CHECK(file.workers[3].run[2] == "cd /");
  CHECK(file.workers[4].run[2] == "exec cat");
  CHECK(file.workers[4].serve);
  CHECK(file.workers[4].concurrency == 4);
  CHECK(file.workers[4].tasks == 10);
  CHECK(file.middleware.at("audit").size() == 2);
  CHECK(file.middleware.at("loud") ==
        std::vector<std::string>{"/bin/sh", "-c", "cat x; \"$@\"", "loud"});
}

TEST_CASE("what the shell has of its own stays the shell's") {
  for (const std::string line : {"echo 'a'", "printf x", "test -e x", "kill 1", "pwd", "true"}) {
    CAPTURE(line);
    CHECK(ReadWorkers("workers: {a: {run: \"" + line + "\"}}\n").workers[0].run[2] == line);
  }
}

TEST_CASE("what is wrong is said with its place and what would be right") {
  const std::pair<const char*, const char*> kBad[] = {
      {"workers:\n  a: {run: cat, tiemout: 1s}\n",
       "w.yaml:2:17: workers.a.tiemout: unknown key 'tiemout' (did you mean 'timeout'?)"},
      {"workers:\n  a: {serves: b}\n", "w.yaml:2:3: workers.a: a worker needs run: COMMAND"},
      {"workers:\n  a: ./no-such\n", "w.yaml:2:6: workers.a: there is no program './no-such'"},
      {"workers:\n  a: [no-such-program]\n", "there is no program 'no-such-program'"},
      {"workers: {}\n", "there is no worker"},
      {"middleware: {}\n", "there is no workers"},
      {"workers: {a: {run: cat, exit: {0: x}}}\n", "from 1 to 255"},
      {"workers: {a: {run: cat, exit: {256: x}}}\n", "from 1 to 255"},
      {"workers: {a: {run: cat, kill_after: 11m}}\n", "at most 10m"},
      {"workers: {a: {run: cat, timeout: 0s}}\n", "workers.a.timeout"},
      {"workers: {a: {run: cat, memory: 512MB}}\n", "a size such as 512MiB"},
      {"workers: {a: {run: cat, cpu: 0}}\n", "from 0.01"},
      {"workers: {a: {run: cat, processes: 0}}\n", "workers.a.processes"},
      {"workers: {a: {run: cat, idle: 1s}}\n", "is for workers of mode: serve"},
      {"workers: {a: {run: cat, mode: sevre}}\n", "workers.a.mode"},
      {"workers: {a: {run: cat, serves: []}}\n", "serves nothing"},
      {"workers: {a: {run: cat, serves: ['*.b']}}\n", "NAME, NAME.* and *"},
      {"workers: {a: {run: cat, serves: x}, b: {run: cat, serves: x}}\n",
       "'x' is served by a, too"},
      {"workers: {a: {run: cat, env: {DFSMR_X: y}}}\n", "the agent's own variables"},
      {"workers: {a: {run: cat, env: {1X: y}}}\n", "letters, digits and _"},
      {"workers: {a: {run: cat, on_cancel: stpo}}\n", "workers.a.on_cancel"},
      {"workers: {a: {run: cat, directory: home}}\n", "workers.a.directory"},
      {"workers: {a: cat\n", "w.yaml:"},
      {"[]\n", "expected workers"},
  };
  for (const auto& [text, message] : kBad) {
    const std::string wrong = Wrong(text);
    CAPTURE(wrong);
    CHECK(wrong.find(message) != std::string::npos);
  }
}

TEST_CASE("the most specific pattern serves an action") {
  std::vector<Worker> workers(4);
  workers[0] = {.name = "all", .serves = {"*"}};
  workers[1] = {.name = "a", .serves = {"a.*"}};
  workers[2] = {.name = "ab", .serves = {"a.b.*"}};
  workers[3] = {.name = "abc", .serves = {"a.b.c"}};
  CHECK(Serving(workers, "a.b.c")->name == "abc");
  CHECK(Serving(workers, "a.b.d")->name == "ab");
  CHECK(Serving(workers, "a.x")->name == "a");
  CHECK(Serving(workers, "a")->name == "all");
  workers.erase(workers.begin());
  CHECK(Serving(workers, "x") == nullptr);
}

TEST_CASE("secrets stand in variables, as files, and as names and patterns") {
  const WorkersFile file = ReadWorkers(R"(
workers:
  load:
    run: cat
    env: {LEVEL: info, DB: {secret: db}, KEY: {secret: tls, version: 3, file: true}}
    secrets: ["customer-*", other]
)");
  const Worker& load = file.workers.at(0);
  CHECK(load.secret_env ==
        std::vector<SecretVariable>{{"DB", "db", 0, false}, {"KEY", "tls", 3, true}});
  CHECK(SecretsOf(load) == std::vector<std::string>{"customer-*", "db", "other", "tls"});
  CHECK(MayRead(load, "customer-7"));
  CHECK(MayRead(load, "tls"));
  CHECK(MayRead(load, "other"));
  CHECK_FALSE(MayRead(load, "others"));
  CHECK_FALSE(MayRead(load, "customer"));
  CHECK(Wrong("workers: {a: {run: cat, secrets: ['a*b']}}\n").find("one *, at its end") !=
        std::string::npos);
  CHECK(Wrong("workers: {a: {run: cat, env: {X: {secret: a, version: 0}}}}\n").find("version") !=
        std::string::npos);
}

}  // namespace dfsmr
