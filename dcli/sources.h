// The YAML that define, check and graph read.
#pragma once

#include <string>
#include <vector>

#include "fsm/result.h"

namespace dfsmr::cli {

struct Source {
  std::string name;  // for diagnostics
  std::string text;
};

// Files as they are, folders with every *.yaml and *.yml under them in the order of their names,
// "-" for standard input. Fails when anything cannot be read, or when a folder has none.
Result<std::vector<Source>> ReadSources(const std::vector<std::string>& paths);

}  // namespace dfsmr::cli
