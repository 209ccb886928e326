// The YAML that define, check, graph and start read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr::cli {

struct Source {
  std::string name;  // for diagnostics
  std::string text;
  size_t argument = 0;  // the place of the path that was given; those of a folder share it
};

// Files as they are, folders with every *.yaml and *.yml under them in the order of their names,
// "-" for standard input. Fails when anything cannot be read, or when a folder has none. What lies
// in a folder and holds no documents of ours (what workers run, packages) is left out: `left_out`
// gets a line for each.
Result<std::vector<Source>> ReadSources(const std::vector<std::string>& paths,
                                        std::vector<std::string>* left_out = nullptr);

// Why a source cannot even be sent: it is not UTF-8, or too large. Empty for all others.
std::vector<Diagnostic> Unsendable(const Source& source);

// For each source, its ids that another file of the same folder defines, too: a folder is one source
// to those who wrote it, of which only one file can be the next version.
std::vector<std::vector<Diagnostic>> DefinedTwice(const std::vector<Source>& sources);

// The definitions of a file, with everything that is wrong with it; `compiled` holds the nodes of
// its plans and actions, null for machines.
struct Compiled : Parsed {
  std::vector<std::shared_ptr<const Machine>> compiled;  // as definitions
};
// Compiles plans, and checks schedules, triggers and limits as of `now`, against everything that the
// sources define, and nothing else.
std::vector<Compiled> CompileSources(const std::vector<Source>& sources, Timestamp now);

}  // namespace dfsmr::cli
