// Lines of logs as people see them.
#pragma once

#include <string>
#include <string_view>

#include "dcli/text/output.h"
#include "dfsmr/v1/agent.pb.h"

namespace dfsmr::cli {

// The text of a line: on a terminal its colours are kept, elsewhere they are left out; all other
// control characters are shown escaped.
std::string LogText(std::string_view text, const Look& look);

// Prints entries as "TIME  STEP  AGENT  TEXT". The columns widen as they have to.
class LogPrinter {
 public:
  // `wide`: with the date, the visit and the attempt.
  LogPrinter(std::ostream& out, const Look& look, bool wide)
      : out_(out), look_(look), wide_(wide) {}
  void Print(const v1::LogEntry& entry);

 private:
  std::ostream& out_;
  const Look& look_;
  const bool wide_;
  size_t step_ = 0;  // columns
  size_t agent_ = 0;
};

}  // namespace dfsmr::cli
