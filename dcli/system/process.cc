#include "dcli/system/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dcli/system/pointers.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

constexpr std::chrono::milliseconds kReapInterval{20};  // only where there is no pidfd

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return Error{Code::kInternal, Reason::kNone, std::strerror(errno)};
  return Pipe{Descriptor(fds[0]), Descriptor(fds[1])};
}

// By number: glibc 2.36 declares pidfd_open for C only. -1 where the kernel does not have it.
int OpenPidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

void SetNonBlocking(const Descriptor& descriptor) {
  fcntl(descriptor.get(), F_SETFL, fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

// The child's environment: that of this process, with the names of `ours` replaced or added.
std::vector<std::string> Merged(const std::vector<std::string>& ours) {
  std::vector<std::string> merged = ours;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool given = std::any_of(ours.begin(), ours.end(),
                                   [&](const std::string& own) { return own.starts_with(name); });
    if (!given) merged.emplace_back(text);
  }
  return merged;
}

// In a process group of its own, with default signal settings.
class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&value_);
    posix_spawnattr_setflags(
        &value_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&value_, 0);
    sigset_t set;
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&value_, &set);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) sigaddset(&set, signal);
    posix_spawnattr_setsigdefault(&value_, &set);
  }
  ~Attributes() { posix_spawnattr_destroy(&value_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &value_; }

 private:
  posix_spawnattr_t value_;
};

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&value_); }
  ~Actions() { posix_spawn_file_actions_destroy(&value_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  void Place(const Descriptor& from, int to) {
    posix_spawn_file_actions_adddup2(&value_, from.get(), to);
  }
  const posix_spawn_file_actions_t* get() const { return &value_; }

 private:
  posix_spawn_file_actions_t value_;
};

// Reads what is there, at most as much as a pipe holds: a child that was left behind may go on
// writing for ever. Closes the descriptor at the end of the stream.
void Pull(Descriptor& from, const Process::Sink& sink) {
  constexpr int kReads = 64;
  std::array<char, 16'384> buffer;
  for (int i = 0; i < kReads && from.open(); ++i) {
    const ssize_t count = read(from.get(), buffer.data(), buffer.size());
    if (count > 0) {
      if (sink) sink({buffer.data(), static_cast<size_t>(count)});
      if (static_cast<size_t>(count) < buffer.size()) return;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      from.Close();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = other.fd_;
  other.fd_ = -1;
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void Tail::Add(std::string_view text) {
  text_ += text;
  if (text_.size() < limit_ * 2) return;
  const size_t cut = text_.size() - limit_;
  const size_t line = text_.find_last_of("\r\n", cut - 1);
  if (first_ == 0 || line != text_.npos) {
    const size_t begin = text_.find_first_not_of(" \t", line == text_.npos ? 0 : line + 1);
    first_ = begin == text_.npos ? ' ' : text_[begin];
  }
  text_.erase(0, cut);
}

Result<std::unique_ptr<Process>> Process::Start(Plan plan) {
  auto in = MakePipe();
  auto out = MakePipe();
  auto err = MakePipe();
  if (!in || !out || !err) return Error{Code::kInternal, Reason::kNone, std::strerror(errno)};
  Actions actions;
  actions.Place(in->read, STDIN_FILENO);
  actions.Place(out->write, STDOUT_FILENO);
  actions.Place(err->write, STDERR_FILENO);
  auto environment = Merged(plan.environment);
  auto arguments = Pointers(plan.command);
  auto variables = Pointers(environment);

  std::unique_ptr<Process> process(new Process(std::move(plan)));
  const int error = posix_spawnp(&process->pid_, arguments[0], actions.get(), Attributes().get(),
                                 arguments.data(), variables.data());
  if (error != 0) {
    process->ended_ = true;
    const Code code = error == ENOENT || error == EACCES ? Code::kNotFound : Code::kInternal;
    return Error{code, Reason::kNone,
                 "cannot run " + process->plan_.command[0] + ": " + std::strerror(error)};
  }
  process->end_ = Descriptor(OpenPidfd(process->pid_));
  process->in_ = std::move(in->write);
  process->out_ = std::move(out->read);
  process->err_ = std::move(err->read);
  for (const auto* end : {&process->in_, &process->out_, &process->err_}) SetNonBlocking(*end);
  if (process->plan_.input.empty()) process->in_.Close();
  return process;
}

Process::~Process() {
  if (ended_) return;
  Signal(SIGKILL);
  while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) continue;
}

bool Process::Run(std::chrono::milliseconds at_most, int wake) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  while (!Reap()) {
    const auto now = std::chrono::steady_clock::now();
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    if (left.count() <= 0) return false;
    const bool full = plan_.full && plan_.full();
    if (!end_.open() || full) left = std::min(left, kReapInterval);
    std::array<pollfd, 5> watched = {{{in_.get(), POLLOUT, 0},
                                      {full ? -1 : out_.get(), POLLIN, 0},
                                      {full ? -1 : err_.get(), POLLIN, 0},
                                      {end_.get(), POLLIN, 0},
                                      {wake, POLLIN, 0}}};
    const auto timeout = std::min<int64_t>(left.count(), 60'000);
    if (poll(watched.data(), watched.size(), static_cast<int>(timeout)) < 0) continue;
    if (watched[0].revents != 0) Feed();
    if (!full) Drain();
    if (watched[4].revents != 0) return false;
  }
  return true;
}

void Process::Signal(int signal) {
  if (!ended_) kill(-pid_, signal);
}

void Process::Feed() {
  const ssize_t count = write(in_.get(), plan_.input.data() + fed_, plan_.input.size() - fed_);
  if (count > 0) fed_ += static_cast<size_t>(count);
  const bool refused = count < 0 && errno != EAGAIN && errno != EINTR;  // it need not read
  if (refused || fed_ == plan_.input.size()) in_.Close();
}

void Process::Drain() {
  Pull(out_, plan_.out);
  Pull(err_, plan_.err);
}

bool Process::Reap() {
  if (ended_) return true;
  if (waitpid(pid_, &status_, WNOHANG) != pid_) return false;
  ended_ = true;
  Drain();
  return true;
}

std::string StatusText(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

bool IsOnPath(const std::string& command) {
  if (command.find('/') != std::string::npos) return access(command.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    if (access(((folder.empty() ? "." : folder) + "/" + command).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace dfsmr::cli
