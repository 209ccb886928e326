// Programs of the system that dcli runs for a package, such as ssh-keygen: in the terminal's own
// process group, so that they may ask for a passphrase.
#pragma once

#include <string>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr::cli {

struct ToolResult {
  int status = 0;  // of its exit; 128 + N after signal N
  std::string out;
};
// Runs `command`, found on PATH, with `input` (a path; empty: /dev/null) as its standard input, and
// takes its standard output. Fails when it cannot be run.
Result<ToolResult> RunTool(const std::vector<std::string>& command, const std::string& input);

// Where what is written to a path comes to rest: a link stays, and what it leads to is written.
struct Target {
  std::string path;
  bool replaced = true;  // false: it is no regular file, such as a device, and is written as it is
  std::string Beside() const { return replaced ? path + ".new" : path; }
};
Target TargetOf(const std::string& path);
// Puts the file `made` in the place of `path` in one moment, or not at all; what is not replaced
// gets its bytes. `made` is gone then. The message of an error names `path` and the cause.
Result<Ok> MoveTo(const std::string& made, const std::string& path);

// Writes a file as a whole: another one of that name is replaced in one moment, or not at all.
Result<Ok> WriteWholeFile(const std::string& path, std::string_view text);

}  // namespace dfsmr::cli
