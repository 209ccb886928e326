#include "dcli/line/cli.h"

#include <doctest/doctest.h>

#include "dcli/line/completion.h"
#include "dcli/system/process.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/temporary_file.h"

// Under AddressSanitizer: the resolver that gRPC uses keeps a few bytes for each name it looked up.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }

namespace dfsmr::cli {
namespace {

const std::vector<std::string> kCommands = {
    "define",  "check",     "machines", "graph",      "start",  "instances",  "show",
    "history", "ready",     "changes",  "transition", "extend", "relinquish", "work",
    "pause",   "resume",    "skip",     "cancel",     "groups", "token",      "completion",
    "clock",   "schedules", "triggers", "limits",    "logs"};

constexpr const char* kTwo =
    "id: a\nnodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n---\n"
    "id: b\nnodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n";

}  // namespace

TEST_CASE("a number that counts is not negative") {
  for (const char* flag : {"--visit", "--attempt", "--tail"}) {
    CAPTURE(flag);
    const Outcome outcome = Dcli({"--server", "localhost:1", "logs", "i", flag, "-1"});
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(flag) != std::string::npos);
    CHECK(outcome.err.find("-1 is negative; it takes a number from 0 on") != std::string::npos);
  }
}

TEST_CASE("every command has help with an example") {
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    const Outcome help = Dcli({command, "--help"});
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK(help.out.find("\n  dcli " + command) != std::string::npos);
    CHECK(Dcli({"--help"}).out.find("\n  " + command + " ") != std::string::npos);
  }
}

TEST_CASE("bad usage is said on standard error, with a hint and status 2") {
  const std::vector<std::vector<std::string>> kBad = {
      {},
      {"--server"},
      {"nonsense"},
      {"start"},
      {"start", "m", "novalue"},
      {"start", "m", "--params", "[1]"},
      {"start", "m", "--id", "x", "--count", "2"},
      {"start", "m", "--count", "0"},
      {"start", "m", "--at", "later"},
      {"start", "m", "--priority", "high"},
      {"machines", "a", "b"},
      {"machines", "--frobnicate"},
      {"machines", "-o", "xml"},
      {"machines", "--timeout", "soon"},
      {"instances", "--state", "runing"},
      {"changes", "--kind", "begun"},
      {"extend", "i"},
      {"cancel", "i", "--force", "--kill"},
      {"work", "m"},
      {"work", "m", "--"},
      {"work", "m", "--jobs", "0", "--", "true"},
      {"work", "--", "no-such-command-here"},
      {"graph", "m", "--format", "png"},
      {"completion", "tcsh"},
      {"check", "/no/such/file"},
      {"define", "/no/such/file"},
      {"help", "nonsense"},
      {"machines", "--server", ""},
      {"show", "\xff"},
      {"start", "m", "a=\xff"},
      {"transition", "i", "ok", "--error", "caf\xe9"},
      {"start", "m", "--dry-run", "--answer", "first={bad"},
  };
  for (const auto& words : kBad) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    CAPTURE(line);
    const Outcome bad = Dcli(words);
    CHECK(bad.status == 2);
    CHECK(bad.out == "");
    if (words.empty()) continue;  // that shows the help
    CHECK(bad.err.starts_with("dcli: "));
    CHECK(bad.err.find("\nhint: ") != std::string::npos);
  }
}

TEST_CASE("help is of a command, or of all") {
  CHECK(Dcli({"help"}).out == Dcli({"--help"}).out);
  CHECK(Dcli({"help", "start"}).out == Dcli({"start", "--help"}).out);
  CHECK(Dcli({"help", "strat"}).err.find("did you mean \"start\"?") != std::string::npos);
}

TEST_CASE("unknown commands and flags come with the nearest known one") {
  CHECK(Dcli({"strat"}).err.find("did you mean \"start\"?") != std::string::npos);
  CHECK(Dcli({"start", "m", "--parms", "{}"}).err.find("did you mean \"--params\"?") !=
        std::string::npos);
  CHECK(Dcli({"machines", "--sever", "x"}).err.find("\"--server\"?") != std::string::npos);
}

TEST_CASE("what looks like a flag may be a term of a filter") {
  const Outcome outcome = Dcli({"count", "-state:stopped"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("count has no flag -state:stopped; a term that begins with a dash comes "
                         "after --, or is written not:state:stopped") != std::string::npos);
}

TEST_CASE("bulk stop asks which one") {
  const Outcome outcome = Dcli({"--server", "localhost:1", "bulk", "stop"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("bulk stop: which one? ID is required") != std::string::npos);
}

TEST_CASE("global flags stand before or after the command; nobody there is status 3") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--server", "localhost:1", "-o", "json", "machines"},
        std::vector<std::string>{"machines", "--server=:1", "-ojson"},
        std::vector<std::string>{"-o", "json", "machines", "ready", "--server", ":1"},
        std::vector<std::string>{"-o", "yaml", "transition", "i", "skip", "--server", ":1", "-o",
                                 "name"},
        std::vector<std::string>{"start", "start", "--priority", "-5", "a=-1", "--server", ":1"},
        std::vector<std::string>{"work", "--server", ":1", "start", "--", "true", "--help"}}) {
    const Outcome gone = Dcli(words);
    CHECK(gone.status == 3);
    CHECK(gone.out == "");
    CHECK(gone.err.starts_with("dcli: cannot reach the server at localhost:1: "));
  }
}

TEST_CASE("check says what is wrong and where") {
  const TemporaryFile good(kTwo);
  const Outcome well = Dcli({"check", good.path, "-o", "name"});
  CHECK(well.status == 0);
  CHECK(well.out == "a\nb\n");

  const TemporaryFile bad("id: a\nnodes:\n  s: {start: true, transitions: {ok: nowhere}}\n");
  const Outcome refused = Dcli({"check", bad.path});
  CHECK(refused.status == 1);
  CHECK(refused.out == "");
  CHECK(refused.err.find(bad.path + ":3:38: nodes.s.transitions.ok: ") != std::string::npos);
  CHECK(refused.err.find("dcli: 1 file of 1 has errors\n") != std::string::npos);
}

TEST_CASE("plans in files are compiled without a server, with all that is given") {
  const TemporaryFile action("action: vm.create\nphases: [run, finalize]\n");
  const TemporaryFile plan(
      "plan: machine\nflow:\n  - {step: vm, action: vm.create}\n"
      "  - {step: dns, action: dns.add, input: {ip: \"${vm.output.ip}\"}}\n");
  const TemporaryFile nests("plan: infra\nflow: [{step: web, plan: machine}]\n");
  const Outcome well = Dcli({"check", action.path, plan.path, nests.path});
  CHECK(well.status == 0);
  CHECK(well.out == "action vm.create  ok  " + action.path + "\nplan machine  ok  2 steps  " +
                        plan.path + "\nplan infra  ok  2 steps  " + nests.path + "\n");
  CHECK(Dcli({"check", plan.path, "-o", "name"}).out == "machine\n");

  const Outcome alone = Dcli({"check", nests.path});
  CHECK(alone.status == 1);
  CHECK(alone.out == "");
  const std::string where = nests.path + ":2:26: flow[0].plan: there is no plan 'machine'";
  CHECK(alone.err.find(where) != std::string::npos);

  const Outcome drawn = Dcli({"graph", plan.path});
  CHECK(drawn.status == 0);
  CHECK(drawn.out.find("vm -->|ok| dns\n") != std::string::npos);
  CHECK(Dcli({"graph", plan.path, "--flow"}).out ==
        "flowchart TD\n  %% machine\n  vm[\"vm<br/>vm.create\"]\n  dns[\"dns<br/>dns.add\"]\n"
        "  vm --> dns\n");
}

TEST_CASE("a file is drawn without a server") {
  const TemporaryFile two(kTwo);
  const Outcome which = Dcli({"graph", two.path});
  CHECK(which.status == 2);
  CHECK(which.err.find("several machines: a, b") != std::string::npos);
  const Outcome drawn = Dcli({"graph", two.path, "--machine", "b", "--format", "dot"});
  CHECK(drawn.status == 0);
  CHECK(drawn.out.starts_with("digraph \"b\" {\n"));
}

TEST_CASE("completion knows commands, flags and their values, and is silent without a server") {
  CHECK(Dcli({"__complete", "star"}).out == "start\tStart an instance\n");
  CHECK(Dcli({"__complete", "start", "m", "--wa"}).out.find("--wait\t") != std::string::npos);
  CHECK(Dcli({"__complete", "machines", "-o", "j"}).out == "json\n");
  CHECK(Dcli({"__complete", "-o", "json", "instances", "--state", "pau"}).out == "paused\n");
  CHECK(Dcli({"__complete", "completion", ""}).out == "bash\nzsh\nfish\n");
  CHECK(Dcli({"__complete", "define", ""}).out == "");  // the shell offers files
  CHECK(Dcli({"__complete", "start", "m", "--"}).out.starts_with("--params\t"));
  CHECK(Dcli({"__complete", "work", "m", "--", "--"}).out == "");  // another command's words
  const Outcome gone = Dcli({"__complete", "--server", ":1", "show", ""});
  CHECK(gone.status == 0);
  CHECK(gone.out == "");
  CHECK(gone.err == "");
}

TEST_CASE("the scripts are what their shells can read") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    const auto script = CompletionScript(shell, {});
    REQUIRE(script);
    CHECK(script->find("dcli __complete") != std::string::npos);
    if (!IsOnPath(shell)) continue;
    auto process = Process::Start({.command = {shell, "-n"}, .input = *script});
    REQUIRE(process);
    CHECK((*process)->Run(std::chrono::seconds(60), -1));
    CHECK((*process)->status() == 0);
  }
}

}  // namespace dfsmr::cli
