#include "dcli/keeper/cgroup.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace dfsmr::cli {
namespace {

constexpr int kPeriod = 100'000;  // microseconds, of the processors' quota

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

bool Wrote(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return static_cast<bool>(file);
}

// Where the hierarchy of version 2 is mounted; "" where it is not.
std::string MountPoint() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, place, kind;
    words >> device >> place >> kind;
    if (kind == "cgroup2") return place;
  }
  return "";
}

// The path of this process in it.
std::string OwnPath() {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "";
}

// systemd marks what it delegates. Whoever is not root and may write there has been given it.
bool IsDelegated(const std::string& folder) {
  char value[8] = "";
  for (const char* name : {"trusted.delegate", "user.delegate"}) {
    const ssize_t size = getxattr(folder.c_str(), name, value, sizeof value);
    if (size > 0 && value[0] == '1') return true;
  }
  return geteuid() != 0 && access(folder.c_str(), W_OK) == 0 &&
         access((folder + "/cgroup.procs").c_str(), W_OK) == 0;
}

bool HasWord(const std::string& text, const std::string& wanted) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

}  // namespace

Cgroup::~Cgroup() { rmdir(path_.c_str()); }

bool Cgroup::OutOfMemory() const {
  std::ifstream events(path_ + "/memory.events");
  std::string name;
  uint64_t count = 0;
  while (events >> name >> count) {
    if ((name == "oom_kill" || name == "oom_group_kill") && count > 0) return true;
  }
  return false;
}

std::optional<uint64_t> Cgroup::Peak() const {
  std::istringstream text(FileText(path_ + "/memory.peak"));
  uint64_t bytes = 0;
  if (text >> bytes) return bytes;
  return std::nullopt;
}

Cgroups Cgroups::Find() {
  Cgroups found;
  const std::string mounted = MountPoint();
  const std::string path = OwnPath();
  if (mounted.empty() || path.empty()) {
    found.why_not_ = "this machine has no control groups of version 2";
    return found;
  }
  const std::string own = mounted + (path == "/" ? "" : path);
  if (!IsDelegated(own)) {
    found.why_not_ = "the agent's control group is not delegated to it (systemd: Delegate=yes)";
    return found;
  }
  found.Divide(own);
  return found;
}

void Cgroups::Divide(const std::string& own) {
  const std::string leaf = own + "/agent-" + std::to_string(getpid());
  if (mkdir(leaf.c_str(), 0755) != 0 || !Wrote(leaf + "/cgroup.procs", "0")) {
    rmdir(leaf.c_str());
    why_not_ = "the agent's control group cannot be divided";
    return;
  }
  root_ = own;
  bool all = true;
  for (const std::string controller : {"memory", "cpu", "pids"}) {
    Wrote(own + "/cgroup.subtree_control", "+" + controller);
    all &= HasWord(FileText(own + "/cgroup.subtree_control"), controller);
  }
  limits_ = all;
  if (!all) why_not_ = "the agent's control group lacks the controllers memory, cpu and pids";
}

std::unique_ptr<Cgroup> Cgroups::Make(const std::string& name, const Limits& limits) const {
  if (!delegated()) return nullptr;
  const std::string path = root_ + "/op-" + std::to_string(getpid()) + "-" + name;
  if (mkdir(path.c_str(), 0755) != 0) return nullptr;
  auto group = std::make_unique<Cgroup>(path);
  if (!limits_) return group;
  bool set = true;
  if (limits.memory) {
    set &= Wrote(path + "/memory.max", std::to_string(*limits.memory));
    Wrote(path + "/memory.swap.max", "0");  // not there without swap
    set &= Wrote(path + "/memory.oom.group", "1");
  }
  if (limits.cpu) {
    const auto quota = static_cast<int64_t>(std::llround(*limits.cpu * kPeriod));
    set &= Wrote(path + "/cpu.max", std::to_string(quota) + " " + std::to_string(kPeriod));
  }
  if (limits.processes) set &= Wrote(path + "/pids.max", std::to_string(*limits.processes));
  return set ? std::move(group) : nullptr;
}

}  // namespace dfsmr::cli
