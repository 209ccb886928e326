// Running dcli inside a test.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "dcli/line/cli.h"

namespace dfsmr::cli {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

inline Outcome Dcli(const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"dcli"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = RunCommandLine(static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {status, out.str(), err.str()};
}

}  // namespace dfsmr::cli
