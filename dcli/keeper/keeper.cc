#include "dcli/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "dcli/keeper/descendants.h"
#include "dcli/keeper/warden.h"
#include "dcli/system/left.h"

namespace dfsmr::cli {
namespace {

constexpr int kPassed = 5;  // descriptors beside a request: the launch, three streams, the control
constexpr int kOrphanRounds = 400;
constexpr int kOrphanPause = 5;  // milliseconds

Error SystemError(const std::string& what) {
  return {Code::kInternal, Reason::kNone, what + ": " + std::strerror(errno)};
}

struct Pair {
  Descriptor ours;
  Descriptor theirs;
};

Result<Pair> SocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("cannot make a socket");
  }
  return Pair{Descriptor(ends[0]), Descriptor(ends[1])};
}

// `we_write`: the pipe leads to the command.
Result<Pair> PipePair(bool we_write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  Pair pair{Descriptor(ends[we_write ? 1 : 0]), Descriptor(ends[we_write ? 0 : 1])};
  fcntl(pair.ours.get(), F_SETFL, fcntl(pair.ours.get(), F_GETFL) | O_NONBLOCK);
  return pair;
}

// A launch may be larger than a packet: it goes in a file of its own in memory.
Result<Descriptor> FileWith(const std::string& text) {
  Descriptor file(static_cast<int>(syscall(SYS_memfd_create, "launch", 1U)));  // MFD_CLOEXEC
  if (!file.open()) return SystemError("cannot make a file in memory");
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = write(file.get(), text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return SystemError("cannot write to memory");
    at += static_cast<size_t>(count);
  }
  return file;
}

std::string ContentOf(const Descriptor& file) {
  std::string text;
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return text;
  text.resize(static_cast<size_t>(about.st_size));
  for (size_t at = 0; at < text.size();) {
    const ssize_t count =
        pread(file.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    at += static_cast<size_t>(count);
  }
  return text;
}

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * kPassed)>;

bool SendDescriptors(int socket, const std::array<int, kPassed>& fds) {
  alignas(cmsghdr) ControlBuffer buffer{};
  char mark = 'r';
  iovec data{&mark, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer.data();
  message.msg_controllen = buffer.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kPassed);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * kPassed);
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

// False when the agent is gone.
bool ReceiveDescriptors(int socket, std::array<Descriptor, kPassed>* to) {
  alignas(cmsghdr) ControlBuffer buffer{};
  char mark = 0;
  iovec data{&mark, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer.data();
  message.msg_controllen = buffer.size();
  ssize_t count = 0;
  do {
    count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  const cmsghdr* header = count == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof(int) * kPassed)) return false;
  std::array<int, kPassed> fds{};
  std::memcpy(fds.data(), CMSG_DATA(header), sizeof(int) * kPassed);
  for (size_t i = 0; i < fds.size(); ++i) (*to)[i] = Descriptor(fds[i]);
  return true;
}

// The keeper's process, which has one thread.
class KeeperProcess {
 public:
  explicit KeeperProcess(Descriptor agent) : agent_(std::move(agent)) {}

  [[noreturn]] void Run() {
    Prepare();
    while (true) {
      std::array<pollfd, 2> watched = {
          {{agent_.open() ? agent_.get() : -1, POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
      poll(watched.data(), watched.size(), -1);
      signalfd_siginfo info{};
      while (read(signals_.get(), &info, sizeof info) == sizeof info) continue;
      if (agent_.open() && watched[0].revents != 0) TakeRequest();
      Reap();
      // The wardens hear by their own sockets that the agent is gone.
      if (!agent_.open() && wardens_.empty()) End();
    }
  }

 private:
  void Prepare() {
    setsid();
    prctl(PR_SET_NAME, "dcli-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    CloseOthers();
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigprocmask(SIG_SETMASK, &awaited, nullptr);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
      ::signal(signal, SIG_IGN);
    }
    signals_ = Descriptor(signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  // Nothing of the agent stays open here: its files, and the sockets of other wardens. Standard
  // streams become /dev/null, so that whoever reads the agent's output sees its end.
  void CloseOthers() {
    constexpr int kKept = 3;
    if (agent_.get() != kKept) {
      dup3(agent_.get(), kKept, O_CLOEXEC);
      agent_ = Descriptor(kKept);
    }
    syscall(SYS_close_range, kKept + 1U, ~0U, 0U);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
    close(null);
  }

  void TakeRequest() {
    std::array<Descriptor, kPassed> passed;
    if (!ReceiveDescriptors(agent_.get(), &passed)) {
      agent_.Close();
      return;
    }
    auto launch = Decoded(ContentOf(passed[0]));
    if (!launch) return;
    std::erase_if(left_, [](const std::string& path) {  // the agent has deleted it
      struct stat about {};
      return lstat(path.c_str(), &about) != 0;
    });
    const std::string folder = launch->folder;
    WardenPlan plan{.launch = *std::move(launch),
                    .in = std::move(passed[1]),
                    .out = std::move(passed[2]),
                    .err = std::move(passed[3]),
                    .control = std::move(passed[4])};
    const pid_t keeper = getpid();
    const pid_t warden = fork();
    if (warden == 0) {
      agent_.Close();
      signals_.Close();
      RunWarden(std::move(plan), keeper);
    }
    if (warden > 0) {
      wardens_[warden] = folder;
    } else {
      if (!folder.empty()) left_.push_back(folder);
      Say(plan.control.get(), {.kind = Word::Kind::kFailed, .number = errno});
    }
  }

  void Reap() {
    bool stray = false;
    while (true) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended < 0 && errno == EINTR) continue;
      if (ended <= 0) break;
      const auto warden = wardens_.extract(ended);
      stray |= warden.empty() || !WIFEXITED(status);
      if (!warden.empty() && !warden.mapped().empty()) left_.push_back(warden.mapped());
    }
    if (stray) KillStrays();
  }

  // A warden that was killed leaves its processes to us.
  void KillStrays() {
    for (const pid_t pid : ChildrenOf()) {
      SignalDescendants(pid, SIGKILL);
      kill(pid, SIGKILL);
    }
  }

  // Those that are no wardens.
  std::vector<pid_t> ChildrenOf() const {
    std::set<pid_t> kept;
    for (const auto& [warden, folder] : wardens_) {
      kept.insert(warden);
      for (const pid_t below : Descendants(warden)) kept.insert(below);
    }
    std::vector<pid_t> strays;
    for (const pid_t pid : Descendants(getpid())) {
      if (!kept.contains(pid)) strays.push_back(pid);
    }
    return strays;
  }

  [[noreturn]] void End() {
    for (int round = 0; round < kOrphanRounds; ++round) {
      KillStrays();
      pid_t ended = 0;
      while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
      if (ended < 0 && errno == ECHILD) break;
      poll(nullptr, 0, kOrphanPause);
    }
    for (const std::string& folder : left_) DeleteFolder(folder);
    _exit(0);
  }

  Descriptor agent_;
  Descriptor signals_;
  std::map<pid_t, std::string> wardens_;  // with the folders of their commands
  std::vector<std::string> left_;         // of those that are gone; the agent may delete them yet
};

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::Start() {
  auto sockets = SocketPair();
  if (!sockets) return sockets.error();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = fork();
  if (pid < 0) return SystemError("cannot start a keeper");
  if (pid == 0) KeeperProcess(std::move(sockets->theirs)).Run();
  return std::unique_ptr<Keeper>(new Keeper(pid, std::move(sockets->ours)));
}

Keeper::~Keeper() {
  socket_.Close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Result<Reins> Keeper::Run(const Launch& launch) {
  auto in = PipePair(true);
  auto out = PipePair(false);
  auto err = PipePair(false);
  auto control = SocketPair();
  auto file = FileWith(Encoded(launch));
  if (!in || !out || !err) return SystemError("cannot make a pipe");
  if (!control) return control.error();
  if (!file) return file.error();
  const bool sent = SendDescriptors(
      socket_.get(),
      {file->get(), in->theirs.get(), out->theirs.get(), err->theirs.get(), control->theirs.get()});
  if (!sent) return SystemError("the keeper is gone");
  return Reins{.in = std::move(in->ours),
               .out = std::move(out->ours),
               .err = std::move(err->ours),
               .control = std::move(control->ours)};
}

void Keeper::KillOrphans() {
  for (int round = 0; round < kOrphanRounds; ++round) {
    SignalDescendants(getpid(), SIGKILL);
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (ended < 0 && errno == ECHILD) return;
    poll(nullptr, 0, kOrphanPause);
  }
}

}  // namespace dfsmr::cli
