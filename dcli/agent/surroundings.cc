#include "dcli/agent/surroundings.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "dcli/work/verdict.h"
#include "fsm/base/hex.h"

namespace dfsmr::cli {
namespace {

// Later ones win.
class Variables {
 public:
  void Set(const std::string& name, const std::string& value) { by_name_[name] = value; }
  void Add(const std::vector<std::string>& entries) {
    for (const std::string& entry : entries) {
      const size_t equals = entry.find('=');
      Set(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  std::vector<std::string> Entries() const {
    std::vector<std::string> entries;
    for (const auto& [name, value] : by_name_) {
      // A zero byte would cut the value off unseen.
      entries.push_back(name + "=" + value.substr(0, value.find('\0')));
    }
    return entries;
  }

 private:
  std::map<std::string, std::string> by_name_;
};

std::string OurUser() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : std::to_string(geteuid());
}

}  // namespace

Result<std::unique_ptr<Folder>> Folder::Make(const std::string& parent) {
  std::string path = parent + "/op-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Error{Code::kInternal, Reason::kNone,
                 "no folder can be made in " + parent + ": " + std::strerror(errno)};
  }
  std::unique_ptr<Folder> folder(new Folder(path));
  for (const char* name : {"/home", "/tmp", "/work"}) {
    if (mkdir((path + name).c_str(), 0700) == 0) continue;
    return Error{Code::kInternal, Reason::kNone,
                 "no folder can be made in " + path + ": " + std::strerror(errno)};
  }
  std::ofstream output(folder->output());
  folder->itself_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder->itself_.open()) return folder;
  return Error{Code::kInternal, Reason::kNone,
               "cannot open the folder " + path + ": " + std::strerror(errno)};
}

Folder::~Folder() { DeleteFolder(path_); }

Result<std::string> Folder::Report(size_t most) const {
  return ReadLeft(itself_, "output", most, "DFSMR_OUTPUT");
}

std::string MarkOf(const std::string& server_life, const std::string& name_space,
                   const std::string& agent) {
  const std::string whole =
      server_life + '\n' + (name_space.empty() ? "default" : name_space) + '\n' + agent;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(whole.data()), whole.size(), digest);
  return ToHex(std::string_view(reinterpret_cast<const char*>(digest), 8));
}

Result<Launch> LaunchOf(const Surroundings& surroundings, const Worker& worker,
                        const v1::Task* task, const Folder& folder) {
  Launch launch;
  launch.arguments = surroundings.wrap;
  for (int i = 0; task != nullptr && i < task->middleware_size(); ++i) {
    const auto found = surroundings.middleware.find(task->middleware(i));
    if (found == surroundings.middleware.end()) {
      return Error{Code::kNotFound, Reason::kNone,
                   "this agent has no middleware \"" + task->middleware(i) + "\""};
    }
    launch.arguments.insert(launch.arguments.end(), found->second.begin(), found->second.end());
  }
  launch.arguments.insert(launch.arguments.end(), worker.run.begin(), worker.run.end());
  launch.file = launch.arguments.front();
  launch.folder = folder.path();
  launch.directory = worker.own_directory ? folder.path() + "/work" : worker.folder;

  Variables variables;
  variables.Set("PATH", "/usr/local/bin:/usr/bin:/bin");
  variables.Set("LANG", "C.UTF-8");
  variables.Set("USER", OurUser());
  variables.Set("HOME", folder.path() + "/home");
  variables.Set("TMPDIR", folder.path() + "/tmp");
  variables.Add(surroundings.passed);
  variables.Add(worker.env);
  variables.Set("DFSMR_SERVER", surroundings.server);
  variables.Set("DFSMR_NAMESPACE", surroundings.name_space);
  variables.Set("DFSMR_DIR", folder.path());
  variables.Set("DFSMR_PACKAGE", worker.folder);
  variables.Set("DFSMR_AGENT", surroundings.agent);
  variables.Set("DFSMR_AGENT_ID", surroundings.mark);
  if (task != nullptr) {
    variables.Add(TaskVariables(*task, surroundings.server));
    variables.Set("DFSMR_OUTPUT", folder.output());
    variables.Set("DFSMR_PROGRESS", folder.progress());
    variables.Set("DFSMR_VISIT", std::to_string(task->visit()));
    if (task->dry_run()) variables.Set("DFSMR_DRY_RUN", "1");
  }
  launch.environment = variables.Entries();
  return launch;
}

}  // namespace dfsmr::cli
