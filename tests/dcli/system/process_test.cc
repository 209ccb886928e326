#include "dcli/system/process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace dfsmr::cli {
namespace {

constexpr std::chrono::seconds kLong{60};

struct Run {
  std::string out;
  std::string err;
  std::unique_ptr<Process> process;

  explicit Run(const std::string& script, std::string input = "") {
    auto started = Process::Start({.command = {"sh", "-c", script},
                                   .environment = {"DFSMR_NODE=crawl", "HOME=/nowhere"},
                                   .input = std::move(input),
                                   .out = [this](std::string_view text) { out += text; },
                                   .err = [this](std::string_view text) { err += text; }});
    REQUIRE(started);
    process = *std::move(started);
  }
};

}  // namespace

TEST_CASE("a command gets its input and environment, and its output comes back") {
  Run run("cat; echo $DFSMR_NODE $HOME; echo oops >&2; exit 3", "hello\n");
  CHECK(run.process->Run(kLong, -1));
  CHECK(run.out == "hello\ncrawl /nowhere\n");
  CHECK(run.err == "oops\n");
  CHECK(StatusText(run.process->status()) == "exit status 3");
}

TEST_CASE("more than a pipe holds goes both ways") {
  const std::string much(1 << 20, 'x');
  Run run("cat", much);
  CHECK(run.process->Run(kLong, -1));
  CHECK(run.out == much);
}

TEST_CASE("a command need not read its input") {
  signal(SIGPIPE, SIG_IGN);
  Run run("exec 0<&-; echo done", std::string(1 << 20, 'x'));
  CHECK(run.process->Run(kLong, -1));
  CHECK(run.out == "done\n");
}

TEST_CASE("waiting ends when the time is over or someone wakes it") {
  Run run("exec sleep 60");
  CHECK_FALSE(run.process->Run(std::chrono::milliseconds(1), -1));
  Descriptor wake(eventfd(1, EFD_CLOEXEC));
  CHECK_FALSE(run.process->Run(kLong, wake.get()));
  run.process->Signal(SIGTERM);
  CHECK(run.process->Run(kLong, -1));
  CHECK(StatusText(run.process->status()) == "killed by signal 15 (Terminated)");
}

TEST_CASE("children left behind with the streams open are not waited for") {
  Run run("sleep 60 & echo $!");
  CHECK(run.process->Run(kLong, -1));
  kill(std::stoi(run.out), SIGKILL);
}

TEST_CASE("a command that is not there cannot be started") {
  const auto none = Process::Start({.command = {"no-such-command-here"}});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::kNotFound);
  CHECK_FALSE(IsOnPath("no-such-command-here"));
  CHECK(IsOnPath("sh"));
  CHECK(IsOnPath("/bin/sh"));
}

TEST_CASE("a tail holds the last of a text, and knows how the line began that it cut") {
  Tail tail(4);
  tail.Add("abcd");
  CHECK(tail.text() == "abcd");
  CHECK(tail.first() == 0);
  tail.Add("efgh");
  CHECK(tail.text() == "efgh");
  CHECK(tail.first() == 'a');
  tail.Add("ij\n{");
  CHECK(tail.text() == "ij\n{");
  CHECK(tail.first() == 'a');
  tail.Add("klmnop");
  CHECK(tail.text() == "mnop");
  CHECK(tail.first() == '{');
}

TEST_CASE("nothing is read of a command as long as there is no room for it") {
  std::string out;
  bool full = true;
  auto process = Process::Start({.command = {"sh", "-c", "echo one; sleep 60"},
                                 .out = [&](std::string_view text) { out += text; },
                                 .full = [&full] { return full; }});
  REQUIRE(process);
  CHECK_FALSE((*process)->Run(std::chrono::milliseconds(50), -1));
  CHECK(out.empty());
  full = false;
  while (out.empty()) (void)(*process)->Run(std::chrono::milliseconds(50), -1);
  CHECK(out == "one\n");
}

}  // namespace dfsmr::cli
