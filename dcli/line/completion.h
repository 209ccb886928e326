// Shell completion: the scripts, and the words that they ask `dcli __complete` for.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/line/grammar.h"
#include "fsm/base/result.h"

namespace dfsmr::cli {

// A script for bash, zsh or fish; kInvalidArgument for another shell.
Result<std::string> CompletionScript(std::string_view shell, const Grammar& grammar);

// Writes what may stand in the place of the last of `words` (those after "dcli"), one a line, with
// a tab and a description where it has one. Asks the server for ids, and writes nothing when the
// server does not answer at once.
void Complete(const Grammar& grammar, const std::vector<std::string>& words, std::ostream& out);

}  // namespace dfsmr::cli
