// What an agent gives to each command: its folder, its environment, the words of its command line.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dcli/agent/workers.h"
#include "dcli/keeper/cgroup.h"
#include "dcli/keeper/keeper.h"
#include "dcli/system/left.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

// DFSMR_DIR: a fresh folder that only we can read. Goes with all that is in it.
class Folder {
 public:
  static Result<std::unique_ptr<Folder>> Make(const std::string& parent);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string output() const { return path_ + "/output"; }
  std::string progress() const { return path_ + "/progress"; }
  // What a command has left in output(), at most so many bytes. Fails when that is no file.
  Result<std::string> Report(size_t most) const;

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  Descriptor itself_;
};

struct Surroundings {
  std::string agent;  // its name
  std::string mark;   // DFSMR_AGENT_ID
  std::string server;
  std::string name_space;
  std::string folders;              // where the folders of operations are made
  std::vector<std::string> wrap;    // stands in front of every command
  std::vector<std::string> passed;  // "NAME=value", of our own
  std::map<std::string, std::vector<std::string>> middleware;  // argv, by name
  Cgroups cgroups;
  bool print = false;
};

// 16 hex digits of a SHA-256: of one agent's name in one namespace of one server, whenever it runs.
std::string MarkOf(const std::string& server_life, const std::string& name_space,
                   const std::string& agent);

// The command of a task, or of a process that serves many (null). The control group is left open.
// Fails, naming it, when there is no such middleware.
Result<Launch> LaunchOf(const Surroundings& surroundings, const Worker& worker,
                        const v1::Task* task, const Folder& folder);

}  // namespace dfsmr::cli
