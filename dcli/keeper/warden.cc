#include "dcli/keeper/warden.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "dcli/keeper/descendants.h"
#include "dcli/system/pointers.h"

namespace dfsmr::cli {
namespace {

constexpr int kOrphaned = SIGUSR1;    // from the kernel, when the keeper dies
constexpr int kAgain = 5;             // milliseconds between two rounds of killing
constexpr int kRoundsBeforeStop = 3;  // then whoever forks faster than we kill is stopped first

// What a child that could not become the command says before it ends.
struct Failure {
  LaunchStep step;
  int error;
};

// glibc 2.36 has close_range, but its header only with _GNU_SOURCE, which the tests lack.
void CloseOnExecFrom(unsigned first) { syscall(SYS_close_range, first, ~0U, 1U << 2); }

bool JoinCgroup(const std::string& cgroup) {
  const int fd = open((cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool joined = write(fd, "0", 1) == 1;
  const int error = errno;
  close(fd);
  errno = error;
  return joined;
}

void DefaultSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

class Warden {
 public:
  explicit Warden(WardenPlan plan) : plan_(std::move(plan)) {}

  [[noreturn]] void Run(pid_t keeper);

 private:
  void Prepare(pid_t keeper);
  bool Begin();
  [[noreturn]] void Become(int failures);
  void Listen();
  void Reap();
  void KillRound();
  [[noreturn]] void End();
  void Tell(Word word) { Say(plan_.control.get(), word); }

  WardenPlan plan_;
  Descriptor signals_;
  pid_t command_ = -1;
  bool killing_ = false;
  bool empty_ = false;  // no child is left
  int rounds_ = 0;
};

void Warden::Prepare(pid_t keeper) {
  prctl(PR_SET_NAME, "dcli-warden");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, kOrphaned);
  sigprocmask(SIG_SETMASK, &awaited, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
  signals_ = Descriptor(signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK));
  prctl(PR_SET_PDEATHSIG, kOrphaned);
  if (getppid() != keeper) killing_ = true;  // it died before we asked to be told
}

// In the child: becomes the command, or says why it cannot.
void Warden::Become(int failures) {
  const auto fail = [failures](LaunchStep step) {
    const Failure failure{step, errno};
    [[maybe_unused]] const ssize_t written = write(failures, &failure, sizeof failure);
    _exit(127);
  };
  Launch& launch = plan_.launch;
  setpgid(0, 0);
  const pid_t warden = getppid();
  if (!launch.cgroup.empty() && !JoinCgroup(launch.cgroup)) fail(LaunchStep::kCgroup);
  dup2(plan_.in.get(), STDIN_FILENO);
  dup2(plan_.out.get(), STDOUT_FILENO);
  dup2(plan_.err.get(), STDERR_FILENO);
  CloseOnExecFrom(STDERR_FILENO + 1);
  if (chdir(launch.directory.c_str()) != 0) fail(LaunchStep::kDirectory);
  DefaultSignals();
  umask(022);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != warden) _exit(127);
  auto arguments = Pointers(launch.arguments);
  auto environment = Pointers(launch.environment);
  execve(launch.file.c_str(), arguments.data(), environment.data());
  fail(LaunchStep::kProgram);
  _exit(127);
}

bool Warden::Begin() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  command_ = fork();
  if (command_ == 0) Become(write_end.get());
  const int error = errno;
  write_end.Close();
  for (Descriptor* ours : {&plan_.in, &plan_.out, &plan_.err}) ours->Close();
  if (command_ < 0) {
    Tell({.kind = Word::Kind::kFailed, .number = error});
    return false;
  }
  Failure failure{};
  ssize_t count = 0;
  do {
    count = read(read_end.get(), &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof failure) {
    Tell({.kind = Word::Kind::kFailed,
          .number = failure.error,
          .detail = static_cast<uint32_t>(failure.step)});
    command_ = -1;
    return false;
  }
  Tell({.kind = Word::Kind::kStarted, .number = command_});
  return true;
}

void Warden::Reap() {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    empty_ = ended < 0;
    if (ended <= 0) return;
    if (ended != command_) continue;
    Tell({.kind = Word::Kind::kExited, .number = status});
    killing_ = true;
  }
}

void Warden::Listen() {
  bool gone = false;
  while (const auto word = Hear(plan_.control.get(), &gone)) {
    if (word->kind == Word::Kind::kSignal) SignalDescendants(getpid(), word->number);
    if (word->kind == Word::Kind::kKill) killing_ = true;
  }
  if (gone) killing_ = true;
}

void Warden::KillRound() {
  if (!plan_.launch.cgroup.empty()) {
    std::ofstream(plan_.launch.cgroup + "/cgroup.kill") << "1";
  }
  if (rounds_++ >= kRoundsBeforeStop) SignalDescendants(getpid(), SIGSTOP);
  SignalDescendants(getpid(), SIGKILL);
}

void Warden::End() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto micros = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
  };
  Tell({.kind = Word::Kind::kGone,
        .cpu = micros(used.ru_utime) + micros(used.ru_stime),
        .memory = used.ru_maxrss});
  _exit(0);
}

void Warden::Run(pid_t keeper) {
  Prepare(keeper);
  if (!killing_) Begin();
  if (command_ < 0) killing_ = true;
  while (true) {
    Reap();
    if (killing_ && empty_) End();
    if (killing_) KillRound();
    std::array<pollfd, 2> watched = {
        {{plan_.control.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    // Once all is being killed the agent has nothing more to say, and its end would keep us awake.
    poll(watched.data() + (killing_ ? 1 : 0), killing_ ? 1 : 2, killing_ ? kAgain : -1);
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == static_cast<uint32_t>(kOrphaned)) killing_ = true;
    }
    if (!killing_) Listen();
  }
}

}  // namespace

void RunWarden(WardenPlan plan, pid_t keeper) { Warden(std::move(plan)).Run(keeper); }

}  // namespace dfsmr::cli
