#include "dcli/keeper/descendants.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

pid_t PidNamed(const std::string& name) {
  if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) return 0;
  return static_cast<pid_t>(std::stol(name));
}

std::vector<pid_t> AllPids() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    if (const pid_t pid = PidNamed(entry.path().filename())) pids.push_back(pid);
  }
  return pids;
}

// The parent of a process, and whether it is a zombie: "PID (NAME) STATE PPID …", where NAME may
// hold anything.
struct Status {
  pid_t parent = 0;
  bool zombie = false;
};
Status StatusOf(pid_t pid) {
  const std::string text = ContentOf("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  std::string state;
  Status status;
  rest >> state >> status.parent;
  status.zombie = state == "Z" || state == "X";
  return status;
}

// Where the kernel lists the children of each thread (CONFIG_PROC_CHILDREN).
bool AddChildrenListed(pid_t parent, std::vector<pid_t>* to) {
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  std::error_code error;
  bool listed = false;
  for (const auto& task : fs::directory_iterator(tasks, error)) {
    std::ifstream children(task.path() / "children");
    listed |= static_cast<bool>(children);
    for (pid_t child = 0; children >> child;) to->push_back(child);
  }
  return listed;
}

std::vector<pid_t> DescendantsByScan(pid_t root) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const pid_t pid : AllPids()) children[StatusOf(pid).parent].push_back(pid);
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto below = children.find(found[i]);
    if (below == children.end()) continue;
    found.insert(found.end(), below->second.begin(), below->second.end());
    children.erase(below);
  }
  found.erase(found.begin());
  return found;
}

bool Marked(pid_t pid, std::string_view entry) {
  const std::string environment = ContentOf("/proc/" + std::to_string(pid) + "/environ");
  for (size_t at = 0; at < environment.size();) {
    const size_t end = std::min(environment.find('\0', at), environment.size());
    if (std::string_view(environment).substr(at, end - at) == entry) return true;
    at = end + 1;
  }
  return false;
}

std::vector<pid_t> WithAncestors(pid_t pid) {
  std::vector<pid_t> line;
  for (; pid > 1 && line.size() < 1'000; pid = StatusOf(pid).parent) line.push_back(pid);
  return line;
}

}  // namespace

std::vector<pid_t> Descendants(pid_t root) {
  static const bool listed = access("/proc/thread-self/children", R_OK) == 0;
  if (!listed) return DescendantsByScan(root);
  std::vector<pid_t> found;
  AddChildrenListed(root, &found);
  for (size_t i = 0; i < found.size(); ++i) AddChildrenListed(found[i], &found);
  return found;
}

void SignalDescendants(pid_t root, int signal) {
  for (const pid_t pid : Descendants(root)) kill(pid, signal);
}

size_t KillMarked(std::string_view entry, int at_most) {
  const std::vector<pid_t> ours = WithAncestors(getpid());
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(at_most);
  std::vector<pid_t> killed;
  while (true) {
    bool any = false;
    for (const pid_t pid : AllPids()) {
      if (std::ranges::find(ours, pid) != ours.end() || !Marked(pid, entry)) continue;
      if (StatusOf(pid).zombie || kill(pid, SIGKILL) != 0) continue;
      any = true;
      if (std::ranges::find(killed, pid) == killed.end()) killed.push_back(pid);
    }
    if (!any || std::chrono::steady_clock::now() >= until) return killed.size();
    poll(nullptr, 0, 5);
  }
}

}  // namespace dfsmr::cli
