#include "dcli/agent/workers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "dcli/text/text.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

bool IsProgram(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// Why there is no such program.
Error NoProgram(const std::string& word, const std::string& folder) {
  const std::string place = word.starts_with('/') ? "" : " in " + folder;
  struct stat about {};
  const std::string path = word.starts_with('/') ? word : folder + "/" + word;
  const bool there = stat(path.c_str(), &about) == 0;
  const std::string quoted = dfsmr::Quoted(word);
  return {Code::kInvalidArgument, Reason::kNone,
          word.find('/') == word.npos ? "there is no program " + quoted + " on PATH"
          : there                     ? quoted + place + " is not executable; chmod +x makes it so"
                                      : "there is no program " + quoted + place};
}

}  // namespace

std::string FindProgram(const std::string& word, const std::string& folder) {
  if (word.empty()) return "";
  if (word.find('/') != word.npos) {
    const std::string path = word.starts_with('/') ? word : folder + "/" + word;
    return IsProgram(path) ? path : "";
  }
  const char* path = std::getenv("PATH");
  for (const std::string& place : Split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string file = (place.empty() ? "." : place) + "/" + word;
    if (IsProgram(file)) return file;
  }
  return "";
}

ProgramFinder ProgramsOf(const std::string& folder) {
  return [folder](const std::string& word) -> Result<std::string> {
    std::string program = FindProgram(word, folder);
    if (program.empty()) return NoProgram(word, folder);
    return program;
  };
}

WorkersFile ParseWorkers(std::string_view text, std::string_view source_name,
                         const std::string& folder, std::vector<Diagnostic>* diagnostics) {
  WorkersFile file = ParseWorkersFile(text, source_name, ProgramsOf(folder), diagnostics);
  for (Worker& worker : file.workers) worker.folder = folder;
  return file;
}

}  // namespace dfsmr::cli
