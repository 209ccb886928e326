// A server as a child process, and what the kernel knows about it.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace dfsmr::bench {

// What a process has used up since it began; differences of two of them are what a phase cost.
struct Usage {
  double cpu_us = 0;         // user + system
  double background_us = 0;  // of it: RocksDB's flushes and compactions
  double write_bytes = 0;
  double rss_bytes = 0;
};

// Of a process, or of a thread; nothing of one that is gone.
inline std::optional<double> CpuUs(const std::filesystem::path& folder) {
  std::string text;
  std::getline(std::ifstream(folder / "stat"), text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 2));
  for (int field = 3; field < 14; ++field) fields >> text;
  double user_ticks = 0;
  double system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  return (user_ticks + system_ticks) * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

inline Usage UsageOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/";
  Usage usage;
  std::string text;
  const auto cpu_us = CpuUs(folder);
  if (!cpu_us) throw std::runtime_error("the server is gone");
  usage.cpu_us = *cpu_us;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "task")) {
    std::getline(std::ifstream(thread.path() / "comm"), text);
    if (text.starts_with("rocksdb:")) usage.background_us += CpuUs(thread.path()).value_or(0);
  }
  std::ifstream io(folder + "io");
  while (io >> text) {
    if (text == "write_bytes:") io >> usage.write_bytes;
  }
  double pages = 0;
  std::ifstream(folder + "statm") >> pages >> pages;
  usage.rss_bytes = pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  return usage;
}

// What the machine has computed since it began, with what its host took away meanwhile: the kernel
// books stolen time on the process that was running.
inline double MachineCpuUs() {
  std::ifstream file("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  file >> label >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  const double busy_ticks = user + nice + system + irq + softirq + steal;
  return busy_ticks * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Flush requests that the disk under `path` has completed: of everyone who uses it.
inline std::optional<double> DiskFlushes(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  std::ifstream file("/sys/dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                     std::to_string(minor(info.st_dev)) + "/stat");
  double value = 0;
  for (int field = 0; field < 16; ++field) {
    if (!(file >> value)) return std::nullopt;
  }
  return value;
}

// A directory of its own on a real disk, removed at the end.
class Folder {
 public:
  explicit Folder(const std::string& parent) : path_(parent + "/dfsmr-bench-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot write to " + parent);
    struct statfs info;
    if (statfs(path_.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC) {
      rmdir(path_.c_str());
      throw std::runtime_error(parent + " is in memory, where fsync is free: choose another --dir");
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A port that was free a moment ago.
inline int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      bind(listener, generic, size) == 0 && getsockname(listener, generic, &size) == 0;
  close(listener);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

// Runs a program until the end of its scope. What it prints goes to a file.
class Child {
 public:
  Child(std::vector<std::string> command, std::string log) : log_(std::move(log)) {
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) Become(arguments.data());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    if (!waited_) waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void Kill() const { kill(pid_, SIGKILL); }
  void Terminate() const { kill(pid_, SIGTERM); }
  void Signal(int number) const { kill(pid_, number); }
  bool Running() {
    waited_ = waited_ || waitpid(pid_, nullptr, WNOHANG) != 0;
    return !waited_;
  }
  std::string Output() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

 private:
  // Async-signal-safe calls only: other threads may have held locks when this process was forked.
  [[noreturn]] void Become(char* const* arguments) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(arguments[0], arguments);
    _exit(127);
  }

  std::string log_;
  pid_t pid_ = 0;
  bool waited_ = false;
};

}  // namespace dfsmr::bench
