// What a command's end means: from exit status and last line to a report.
#pragma once

#include <string>
#include <string_view>

#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

// The task as the command gets it on standard input: proto3 JSON on one line, where instanceParams
// and nodeParams are objects, always there, with every digit as it was given.
std::string TaskJson(const v1::Task& task);

struct Verdict {
  std::string transition;
  bool named = false;  // by the command itself, on its last line
  std::string params;  // JSON objects, or empty
  std::string output;
  std::string error;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Exit status 0 is "ok", another one or a signal is "error" with the last lines of `err`. When the
// last line of `out` is a JSON object, its "transition", "params", "output" and "error" come first;
// one of them with the wrong type makes it an "error" that says so.
Verdict VerdictOf(int status, std::string_view out, std::string_view err);

// The last line with something on it, without its line break.
std::string_view LastLine(std::string_view text);

}  // namespace dfsmr::cli
