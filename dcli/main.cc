#include <cstdlib>
#include <iostream>

#include "dcli/call/context.h"
#include "dcli/line/cli.h"
#include "dcli/system/signals.h"

int main(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", 0);  // what goes wrong is said by us, once
  std::ios::sync_with_stdio(false);
  dfsmr::cli::ExitOnInterrupt();
  const int status = dfsmr::cli::RunCommandLine(argc, argv, std::cout, std::cerr);
  std::cout.flush();
  if (std::cout) return status;
  std::cerr << "dcli: cannot write to standard output: what was to be there is not all there\n";
  return status == dfsmr::cli::kSucceeded ? dfsmr::cli::kRefused : status;
}
