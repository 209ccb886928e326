#include "dcli/line/grammar.h"

#include <algorithm>

#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string Aligned(const Lines& lines) {
  size_t width = 0;
  for (const auto& [left, right] : lines) width = std::max(width, Columns(left));
  std::string text;
  for (const auto& [left, right] : lines) {
    text += "  " + left + std::string(width - Columns(left) + 2, ' ') + right + "\n";
  }
  return text;
}

std::string FlagsText(const std::vector<FlagShape>& flags) {
  Lines lines;
  for (const FlagShape& flag : flags) {
    const std::string value = flag.value.empty() ? "" : " " + flag.value;
    lines.emplace_back(Join(flag.names, ", ") + value, flag.help);
  }
  return Aligned(lines);
}

}  // namespace

const CommandShape* Grammar::Find(std::string_view command) const {
  for (const CommandShape& shape : commands) {
    if (shape.name == command) return &shape;
  }
  return nullptr;
}

std::vector<std::string> Grammar::CommandNames() const {
  std::vector<std::string> names;
  for (const CommandShape& shape : commands) names.push_back(shape.name);
  return names;
}

const FlagShape* FindFlag(const std::vector<FlagShape>& flags, std::string_view name) {
  for (const FlagShape& flag : flags) {
    if (std::find(flag.names.begin(), flag.names.end(), name) != flag.names.end()) return &flag;
  }
  return nullptr;
}

const FlagShape* FlagOf(const Grammar& grammar, const CommandShape* command,
                        std::string_view word) {
  const bool is_long = word.starts_with("--");
  const std::string_view name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
  const FlagShape* flag = command == nullptr ? nullptr : FindFlag(command->flags, name);
  return flag != nullptr ? flag : FindFlag(grammar.globals, name);
}

bool ValueIsNext(const FlagShape& flag, std::string_view word) {
  if (flag.value.empty()) return false;
  return word.starts_with("--") ? word.find('=') == std::string_view::npos : word.size() == 2;
}

std::string HelpOf(const Grammar& grammar) {
  Lines lines;
  for (const CommandShape& command : grammar.commands) {
    lines.emplace_back(command.name, command.help);
  }
  return "dcli talks to dsrv, the durable distributed finite state machine server.\n\n"
         "Usage: dcli [global flags] COMMAND [arguments] [flags]\n\nCommands:\n" +
         Aligned(lines) + "\nGlobal flags, before or after the command:\n" +
         FlagsText(grammar.globals) +
         "\nExit status: 0 done, 1 refused, 2 bad usage, 3 server not reached, 130 interrupted.\n"
         "dcli COMMAND --help shows flags and an example for each.\n";
}

std::string HelpOf(const Grammar& grammar, const CommandShape& command) {
  std::string text = command.help + "\n\nUsage: dcli " + command.name;
  if (!command.arguments.empty()) text += " " + command.arguments;
  const bool said = command.flags.empty() || command.arguments.find("[flags]") != std::string::npos;
  text += said ? "\n" : " [flags]\n";
  text += command.examples.size() > 1 ? "\nExamples:\n" : "\nExample:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  if (!command.flags.empty()) text += "\nFlags:\n" + FlagsText(command.flags);
  return text + "\nGlobal flags:\n" + FlagsText(grammar.globals);
}

}  // namespace dfsmr::cli
