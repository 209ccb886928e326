// The workers of a file of the agent's own, with their programs on this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fsm/package/worker.h"

namespace dfsmr::cli {

// Reads a file of workers whose programs are in `folder`, an absolute path. Everything that is
// wrong is in `diagnostics`, with line and column; then the result is incomplete.
WorkersFile ParseWorkers(std::string_view text, std::string_view source_name,
                         const std::string& folder, std::vector<Diagnostic>* diagnostics);

// The program as an absolute path, found in `folder` or on our PATH; "" when there is none.
std::string FindProgram(const std::string& word, const std::string& folder);
// The same as a finder for the readers of fsm/package, with what is wrong as a sentence.
ProgramFinder ProgramsOf(const std::string& folder);

}  // namespace dfsmr::cli
