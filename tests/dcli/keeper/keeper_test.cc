#include "dcli/keeper/keeper.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>

#include "dcli/keeper/descendants.h"

namespace dfsmr::cli {
namespace {

constexpr int kSoon = 5'000;  // milliseconds

Launch Shell(const std::string& script) {
  return {.file = "/bin/sh",
          .arguments = {"sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "DFSMR_AGENT_ID=test"},
          .directory = "/",
          .cgroup = ""};
}

// The next word of a warden; nullopt when it is gone or says nothing.
std::optional<Word> Next(const Reins& reins) {
  pollfd watched{reins.control.get(), POLLIN, 0};
  poll(&watched, 1, kSoon);
  bool gone = false;
  return Hear(reins.control.get(), &gone);
}

std::string Line(const Reins& reins) {
  std::string text;
  while (true) {
    pollfd watched{reins.out.get(), POLLIN, 0};
    if (poll(&watched, 1, kSoon) <= 0) return text;
    char c = 0;
    if (read(reins.out.get(), &c, 1) != 1 || c == '\n') return text;
    text += c;
  }
}

bool Gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

bool Eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kSoon);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

// Leaves its group and session by forking twice, tells its pid, and stays.
constexpr const char* kAway = "setsid sh -c 'setsid sleep 1000 & echo $!; exec sleep 1000' & wait";

}  // namespace

TEST_CASE("a launch is the same after it was sent") {
  Launch launch = Shell("true");
  launch.environment.emplace_back(300'000, 'x');
  launch.cgroup = "/a";
  launch.folder = "/b";
  CHECK(Decoded(Encoded(launch)) == launch);
  CHECK_FALSE(Decoded(Encoded(launch) + "x").has_value());
  CHECK_FALSE(Decoded("abc").has_value());
}

TEST_CASE("a warden tells how its command begins and ends, and what it used") {
  auto keeper = Keeper::Start();
  REQUIRE(keeper.has_value());
  auto reins = (*keeper)->Run(Shell("read a; echo got $a; exit 3"));
  REQUIRE(reins.has_value());
  const auto started = Next(*reins);
  REQUIRE(started.has_value());
  CHECK(started->kind == Word::Kind::kStarted);
  REQUIRE(write(reins->in.get(), "it\n", 3) == 3);
  CHECK(Line(*reins) == "got it");
  const auto exited = Next(*reins);
  REQUIRE(exited.has_value());
  CHECK(exited->kind == Word::Kind::kExited);
  CHECK(WEXITSTATUS(exited->number) == 3);
  const auto gone = Next(*reins);
  REQUIRE(gone.has_value());
  CHECK(gone->kind == Word::Kind::kGone);
  CHECK(gone->memory > 0);
}

TEST_CASE("a program that cannot be run is said, with what failed") {
  auto keeper = Keeper::Start();
  REQUIRE(keeper.has_value());
  Launch launch = Shell("true");
  launch.file = "/bin/no-such-program";
  auto reins = (*keeper)->Run(launch);
  REQUIRE(reins.has_value());
  const auto failed = Next(*reins);
  REQUIRE(failed.has_value());
  CHECK(failed->kind == Word::Kind::kFailed);
  CHECK(failed->number == ENOENT);
  CHECK(static_cast<LaunchStep>(failed->detail) == LaunchStep::kProgram);
}

TEST_CASE("what left its group and session by forking twice ends with its command") {
  auto keeper = Keeper::Start();
  REQUIRE(keeper.has_value());
  SUBCASE("the command ends by itself") {
    auto reins = (*keeper)->Run(Shell("setsid sh -c 'setsid sleep 1000 & echo $!' & wait"));
    REQUIRE(reins.has_value());
    const pid_t away = std::stoi(Line(*reins));
    CHECK(Next(*reins)->kind == Word::Kind::kStarted);
    CHECK(Next(*reins)->kind == Word::Kind::kExited);
    CHECK(Next(*reins)->kind == Word::Kind::kGone);
    CHECK(Gone(away));
  }
  SUBCASE("it is killed") {
    auto reins = (*keeper)->Run(Shell(kAway));
    REQUIRE(reins.has_value());
    const pid_t away = std::stoi(Line(*reins));
    CHECK(Next(*reins)->kind == Word::Kind::kStarted);
    CHECK(Say(reins->control.get(), {.kind = Word::Kind::kKill}));
    CHECK(Next(*reins)->kind == Word::Kind::kExited);
    CHECK(Next(*reins)->kind == Word::Kind::kGone);
    CHECK(Gone(away));
  }
  SUBCASE("the agent lets go of it") {
    auto reins = (*keeper)->Run(Shell(kAway));
    REQUIRE(reins.has_value());
    const pid_t away = std::stoi(Line(*reins));
    reins->control.Close();
    CHECK(Eventually([&] { return Gone(away); }));
  }
  SUBCASE("its warden is killed") {
    auto reins = (*keeper)->Run(Shell(kAway));
    REQUIRE(reins.has_value());
    const pid_t away = std::stoi(Line(*reins));
    const auto below = Descendants((*keeper)->pid());
    REQUIRE_FALSE(below.empty());
    kill(below.front(), SIGKILL);
    CHECK(Eventually([&] { return Gone(away); }));
    auto next = (*keeper)->Run(Shell("true"));
    REQUIRE(next.has_value());
    CHECK(Next(*next)->kind == Word::Kind::kStarted);
  }
  SUBCASE("the keeper is killed") {
    auto reins = (*keeper)->Run(Shell(kAway));
    REQUIRE(reins.has_value());
    const pid_t away = std::stoi(Line(*reins));
    kill((*keeper)->pid(), SIGKILL);
    Keeper::KillOrphans();
    CHECK(Eventually([&] { return Gone(away); }));
  }
  SUBCASE("it is told to end") {
    auto reins = (*keeper)->Run(Shell("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done"));
    REQUIRE(reins.has_value());
    Line(*reins);
    CHECK(Next(*reins)->kind == Word::Kind::kStarted);
    CHECK(Say(reins->control.get(), {.kind = Word::Kind::kSignal, .number = SIGTERM}));
    CHECK(WEXITSTATUS(Next(*reins)->number) == 7);
  }
}

TEST_CASE("an agent that is killed takes its processes with it") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t agent = fork();
  if (agent == 0) {
    auto keeper = Keeper::Start();
    auto reins = (*keeper)->Run(Shell(kAway));
    const std::string line = Line(*reins) + "\n";
    if (write(ends[1], line.data(), line.size()) < 0) _exit(1);
    pause();
  }
  close(ends[1]);
  char text[32] = "";
  REQUIRE(read(ends[0], text, sizeof text - 1) > 0);
  close(ends[0]);
  const pid_t away = std::stoi(text);
  CHECK_FALSE(Gone(away));
  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  CHECK(Eventually([&] { return Gone(away); }));
}

TEST_CASE("processes are found by a mark in their environment") {
  const pid_t marked = fork();
  if (marked == 0) {
    char program[] = "sleep", time[] = "1000", mark[] = "DFSMR_AGENT_ID=0123456789abcdef";
    char* arguments[] = {program, time, nullptr};
    char* environment[] = {mark, nullptr};
    execve("/bin/sleep", arguments, environment);
    _exit(1);
  }
  CHECK(KillMarked("DFSMR_AGENT_ID=0123456789abcdee", 0) == 0);
  CHECK(Eventually([] { return KillMarked("DFSMR_AGENT_ID=0123456789abcdef", 0) > 0; }));
  int status = 0;
  waitpid(marked, &status, 0);
  CHECK(WTERMSIG(status) == SIGKILL);
}

}  // namespace dfsmr::cli
