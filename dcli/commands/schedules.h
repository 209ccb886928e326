// The command `schedules`, and what it has in common with `triggers`.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/context.h"

namespace dfsmr::cli {

struct SchedulesOptions {
  std::string action;  // a word of its own, or the name of a schedule
  std::vector<std::string> words;
  // next
  int count = 0;
  std::string after;
  // run, backfill
  std::string params;
  std::string overlap;
  bool wait = false;
  std::string from;
  std::string to;
  std::string max_running;
  std::string again;
  bool reverse = false;
  std::string priority;
  bool dry_run = false;
  // history, retry, drop
  std::vector<std::string> outcomes;
  int limit = 100;  // 0: all
  bool all = false;
  // pause
  std::string note;
};
int Schedules(Context& context, const SchedulesOptions& options);

}  // namespace dfsmr::cli
