// The command line as a whole.
#pragma once

#include <ostream>

namespace dfsmr::cli {

// Parses, runs, and returns the exit status.
int RunCommandLine(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace dfsmr::cli
