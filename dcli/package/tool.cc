#include "dcli/package/tool.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
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

Target TargetOf(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as the system follows
  std::error_code ignored;
  fs::path end = path;
  for (int links = 0; links < kMostLinks && fs::is_symlink(end, ignored); ++links) {
    end = end.parent_path() / fs::read_symlink(end, ignored);
  }
  const fs::file_status status = fs::status(end, ignored);
  return {end.string(), !fs::exists(status) || fs::is_regular_file(status)};
}

Result<Ok> MoveTo(const std::string& made, const std::string& path) {
  const Target target = TargetOf(path);
  bool put = false;
  int why = 0;
  if (target.replaced) {
    put = std::rename(made.c_str(), target.path.c_str()) == 0;
    why = errno;
  } else {
    std::ifstream from(made, std::ios::binary);
    std::ofstream to(target.path, std::ios::binary);
    to << from.rdbuf() << std::flush;
    put = static_cast<bool>(to);
    why = errno;
  }
  if (!put || !target.replaced) std::remove(made.c_str());
  if (put) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kNone,
               "cannot write " + path + ": " + std::strerror(why)};
}

Result<Ok> WriteWholeFile(const std::string& path, std::string_view text) {
  const Target target = TargetOf(path);
  std::ofstream file(target.Beside(), std::ios::binary);
  file << text;
  file.close();
  const auto moved = [&target] {
    return !target.replaced || std::rename(target.Beside().c_str(), target.path.c_str()) == 0;
  };
  if (file && moved()) return Ok{};
  const std::string why = std::strerror(errno);
  if (target.replaced) std::remove(target.Beside().c_str());
  return Error{Code::kUnavailable, Reason::kNone, "cannot write " + path + ": " + why};
}

}  // namespace dfsmr::cli
