// The command `triggers`.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/context.h"

namespace dfsmr::cli {

struct TriggersOptions {
  std::string action;  // a word of its own, or the name of a trigger
  std::vector<std::string> words;
  bool failed = false;  // list: only those with dead letters or failing polls
  // fire
  std::string on;
  std::string item;
  // history, retry, drop
  std::vector<std::string> outcomes;
  int limit = 100;  // 0: all
  bool all = false;
  // pause, resume
  std::string note;
  bool skip = false;
};
int Triggers(Context& context, const TriggersOptions& options);

}  // namespace dfsmr::cli
