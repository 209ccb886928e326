// Workers: what serves which actions, and how an agent runs it. From the `workers:` of a file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/keeper/cgroup.h"
#include "fsm/base/diagnostic.h"
#include "fsm/base/time.h"

namespace dfsmr::cli {

struct Worker {
  std::string name;
  std::string folder;                 // of its files: the unpacked package
  std::vector<std::string> serves;    // NAME, NAME.* or *
  std::vector<std::string> run;       // an argv, the program by an absolute path
  std::vector<std::string> env;       // "NAME=value"
  std::vector<std::string> secrets;   // names of secrets that `env` asks for
  bool own_directory = false;         // runs in a fresh folder
  std::vector<std::string> required;  // capabilities
  uint32_t jobs = 0;                  // at once on one agent; 0: as many as it has slots
  bool serve = false;                 // one process for many tasks
  std::optional<Duration> timeout;
  Duration kill_after = std::chrono::seconds(10);
  bool finish = false;               // a plain cancel lets it end in peace
  std::map<int, std::string> exits;  // transitions by exit status
  Limits limits;
  bool dry_run = false;
  // mode: serve
  uint32_t concurrency = 1;
  Duration idle = std::chrono::minutes(5);
  uint32_t tasks = 1'000;
};

struct WorkersFile {
  std::vector<Worker> workers;
  std::map<std::string, std::vector<std::string>> middleware;  // argv, by name
};

// Reads a file of workers whose programs are in `folder`, an absolute path. Everything that is
// wrong is in `diagnostics`, with line and column; then the result is incomplete.
WorkersFile ParseWorkers(std::string_view text, std::string_view source_name,
                         const std::string& folder, std::vector<Diagnostic>* diagnostics);

// What is wrong with a pattern of actions: NAME, NAME.* or *; nullopt when it is fine.
std::optional<std::string> PatternProblem(std::string_view pattern);
// How well a pattern serves an action: the longer the better, a name better than a pattern of it;
// 0: not at all.
size_t Fit(std::string_view pattern, std::string_view action);
// The worker that serves the action best; null: none does.
const Worker* Serving(const std::vector<Worker>& workers, std::string_view action);

// The program as an absolute path, found in `folder` or on our PATH; "" when there is none.
std::string FindProgram(const std::string& word, const std::string& folder);

}  // namespace dfsmr::cli
