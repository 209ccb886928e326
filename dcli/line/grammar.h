// The commands and flags as values: help, completion and "did you mean" are made from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::cli {

// What may stand at a place on the command line.
enum class Word {
  kAnything,
  kFile,
  kMachine,
  kNode,
  kInstance,
  kSubject,
  kTransition,
  kStep,
  kShell,
  kTokenAction,
  kNamespaceAction,
  kSecretAction,
  kScheduleAction,
  kTriggerAction,
  kClockAction,
  kAgentAction,
  kPackageAction,
  kTrustAction,
  kAgent
};

struct FlagShape {
  std::vector<std::string> names;  // "-o", "--server"
  std::string value;               // "HOST:PORT"; empty: it takes none
  std::string help;
};

struct CommandShape {
  std::string name;
  std::string arguments;  // "MACHINE [KEY=VALUE...]", for the usage line
  std::string help;
  std::vector<std::string> examples;
  std::vector<FlagShape> flags;
  std::vector<Word> places;  // of its arguments; the last one may be repeated
};

struct Grammar {
  std::vector<FlagShape> globals;
  std::vector<CommandShape> commands;

  const CommandShape* Find(std::string_view command) const;
  std::vector<std::string> CommandNames() const;
};

const FlagShape* FindFlag(const std::vector<FlagShape>& flags, std::string_view name);
// The flag in `word` ("--server", "--server=x", "-ojson"), global or of `command` (which may be
// null); null when `word` is not a known flag.
const FlagShape* FlagOf(const Grammar& grammar, const CommandShape* command, std::string_view word);
// True when the value of `flag` is the next word, false when it is a part of `word`, or not wanted.
bool ValueIsNext(const FlagShape& flag, std::string_view word);

std::string HelpOf(const Grammar& grammar);
std::string HelpOf(const Grammar& grammar, const CommandShape& command);

}  // namespace dfsmr::cli
