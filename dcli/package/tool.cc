#include "dcli/package/tool.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "dcli/system/pointers.h"
#include "dcli/system/process.h"

namespace dfsmr::cli {

Result<ToolResult> RunTool(const std::vector<std::string>& command, const std::string& input) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{Code::kInternal, Reason::kNone, "there is no pipe"};
  Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO,
                                   input.empty() ? "/dev/null" : input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  std::vector<std::string> texts = command;
  const std::vector<char*> words = Pointers(texts);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return Error{Code::kNotFound, Reason::kNone,
                 "cannot run " + command[0] + ": " + std::strerror(failed)};
  }
  to.Close();
  ToolResult result;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(from.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    result.out.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Result<Ok> WriteWholeFile(const std::string& path, std::string_view text) {
  const std::string other = path + ".new";
  std::ofstream file(other, std::ios::binary);
  file << text;
  file.close();
  if (file && std::rename(other.c_str(), path.c_str()) == 0) return Ok{};
  const std::string why = std::strerror(errno);
  std::remove(other.c_str());
  return Error{Code::kUnavailable, Reason::kNone, "cannot write " + path + ": " + why};
}

}  // namespace dfsmr::cli
