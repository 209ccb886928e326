// Workers: what serves which actions, and how an agent runs it. From the `workers:` of a package's
// manifest, or of a file of an agent's own. The grammar is here, once; whether a program is there
// is asked of the reader's caller, because it is looked for in a folder, in an archive, or on PATH.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/base/process_limits.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// A variable of `env` that holds a secret, or the path of a file with it.
struct SecretVariable {
  std::string variable;
  std::string secret;
  uint32_t version = 0;  // 0: the newest
  bool file = false;
  friend bool operator==(const SecretVariable&, const SecretVariable&) = default;
};

struct Worker {
  std::string name;
  Position at;                      // where it is written
  std::string folder;               // of its files: the unpacked package; the caller's to set
  std::vector<std::string> serves;  // NAME, NAME.* or *
  std::vector<std::string> run;     // an argv, the program as it was found
  std::vector<std::string> env;     // "NAME=value"
  std::vector<SecretVariable> secret_env;
  std::vector<std::string> secrets;   // `secrets`: names, and patterns with one * at their end
  bool own_directory = false;         // runs in a fresh folder
  std::vector<std::string> required;  // capabilities
  uint32_t jobs = 0;                  // at once on one agent; 0: as many as it has slots
  bool serve = false;                 // one process for many tasks
  std::optional<Duration> timeout;
  Duration kill_after = std::chrono::seconds(10);
  bool finish = false;               // a plain cancel lets it end in peace
  std::map<int, std::string> exits;  // transitions by exit status
  ProcessLimits limits;
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

// What is run for the first word of a command: what stands in its place in the argv, or why there
// is no such program, as a sentence.
using ProgramFinder = std::function<Result<std::string>(const std::string& word)>;

// `workers: {NAME: …}`, with all that is wrong reported, ties too.
std::vector<Worker> ReadWorkers(const Field& field, const ProgramFinder& find);
// `middleware: {NAME: COMMAND}`.
std::map<std::string, std::vector<std::string>> ReadMiddleware(const Field& field,
                                                               const ProgramFinder& find);
// A command: a list is an argv, a line is for the shell. Nothing is set when it is wrong.
void ReadCommand(const Field& field, const ProgramFinder& find, std::vector<std::string>* to);

// Reads a file of workers that is no package. Everything that is wrong is in `diagnostics`, with
// line and column; then the result is incomplete.
WorkersFile ParseWorkersFile(std::string_view text, std::string_view source_name,
                             const ProgramFinder& find, std::vector<Diagnostic>* diagnostics);

// What is wrong with a pattern of actions: NAME, NAME.* or *; nullopt when it is fine.
std::optional<std::string> ActionPatternProblem(std::string_view pattern);
// The worker that serves the action best; null: none does.
const Worker* Serving(const std::vector<Worker>& workers, std::string_view action);

// Whether a worker may ask for the secret: by a name or pattern of `secrets`, or since its `env`
// has it.
bool MayRead(const Worker& worker, std::string_view secret);

// All names and patterns of secrets that it may ask for, each once, in order.
std::vector<std::string> SecretsOf(const Worker& worker);

}  // namespace dfsmr
