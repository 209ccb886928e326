// The commands with their flags, both for the parser and for the grammar.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dcli/commands/commands.h"
#include "dcli/line/grammar.h"

namespace dfsmr::cli {

// CLI11 takes an argument in brackets for a list and splits it at its commas. A mark in front,
// which is no text, keeps it whole while it is parsed.
inline constexpr char kMark = '\x01';
inline std::string Marked(const std::string& word) {
  return word.starts_with('[') || word.starts_with(kMark) ? kMark + word : word;
}
inline std::string Unmarked(const std::string& word) {
  return word.starts_with(kMark) ? word.substr(1) : word;
}

// What is wrong with a word for a number that counts: a negative one would become a very large one.
inline std::string IfNegative(const std::string& word) {
  return word.starts_with('-') ? word + " is negative; it takes a number from 0 on" : "";
}

// Adds flags and arguments of one command, each both to the parser and to the grammar.
class Row {
 public:
  Row(CLI::App* app, CommandShape* shape) : app_(app), shape_(shape) {}

  Row& Example(const std::string& line) {
    shape_->examples.push_back("dcli " + line);
    return *this;
  }
  Row& Flag(const std::string& name, bool* to, const std::string& help) {
    app_->add_flag(name, *to);
    return Add(name, "", help);
  }
  template <typename T>
  Row& Flag(const std::string& name, const char* value, T* to, const std::string& help) {
    CLI::Option* option = app_->add_option(name, *to)->allow_extra_args(false);
    if constexpr (!std::is_same_v<T, std::vector<std::string>>) option->take_last();
    if constexpr (std::is_unsigned_v<T>) option->check(IfNegative);
    return Add(name, value, help);
  }
  // Arguments in their order; `word` says what completion offers there.
  Row& Argument(const char* name, Word word, std::string* to, bool required = true) {
    app_->add_option(name, *to)->required(required)->transform(Unmarked);
    shape_->places.push_back(word);
    return *this;
  }
  Row& Arguments(const char* name, Word word, std::vector<std::string>* to, bool required) {
    app_->add_option(name, *to)->required(required)->transform(Unmarked);
    shape_->places.push_back(word);
    return *this;
  }

 private:
  Row& Add(const std::string& name, const char* value, const std::string& help) {
    shape_->flags.push_back({{name}, value, help});
    return *this;
  }

  CLI::App* app_;
  CommandShape* shape_;
};

class CommandLine {
 public:
  explicit CommandLine(Context& context) : context_(context) {
    app_.require_subcommand(1);
    app_.set_help_flag("-h,--help");
    app_.set_version_flag("--version", kVersion);
    AddGlobals();
    AddDefinitionCommands();
    AddInstanceCommands();
    AddClaimCommands();
    AddWorkCommand();
    AddAgentCommands();
    AddPackageCommand();
    AddTrustCommand();
    AddControlCommands();
    AddViewCommands();
    AddGroupsCommand();
    AddLimitsCommand();
    AddNamespaceCommand();
    AddSecretCommand();
    AddExportCommands();
    AddTokenCommand();
    AddSchedulesCommand();
    AddTriggersCommand();
    AddClockCommand();
    AddBackupCommand();
    AddCompletion();
  }

  int Run(std::vector<std::string> words);

 private:
  template <typename Options>
  Row Command(const char* name, const char* arguments, const char* help,
              int (*run)(Context&, const Options&), std::shared_ptr<Options> options) {
    grammar_.commands.push_back({.name = name, .arguments = arguments, .help = help});
    CLI::App* command = app_.add_subcommand(name);
    command->fallthrough();
    command->set_help_flag("-h,--help");
    command->callback(
        [this, run, options] { run_ = [this, run, options] { return run(context_, *options); }; });
    return {command, &grammar_.commands.back()};
  }

  void AddGlobals();
  void AddDefinitionCommands();
  void AddInstanceCommands();
  void AddReadingCommands();
  void AddClaimCommands();
  void AddWorkCommand();
  void AddAgentCommands();
  void AddAgentsCommands();
  void AddPackageCommand();
  void AddTrustCommand();
  void AddControlCommands();
  void AddViewCommands();
  void AddDetailCommands();
  static void AddBulkFlags(Row row, BulkOptions* bulk);
  void AddGroupsCommand();
  void AddLimitsCommand();
  void AddNamespaceCommand();
  void AddSecretCommand();
  void AddExportCommands();
  void AddTokenCommand();
  void AddSchedulesCommand();
  void AddTriggersCommand();
  void AddClockCommand();
  void AddBackupCommand();
  void AddCompletion();

  std::optional<size_t> FindCommand(const std::vector<std::string>& words) const;
  void TakeWorkCommand(std::vector<std::string>* words);
  std::vector<std::string> MarkArguments(std::vector<std::string> words,
                                         const CommandShape* command) const;
  int Parse(std::vector<std::string> words, const CommandShape* command);
  int BadUsage(const CLI::ParseError& error, const std::vector<std::string>& words,
               const CommandShape* command);
  int Help(const CommandShape* command);

  Context& context_;
  CLI::App app_{"", "dcli"};
  Globals globals_;
  Grammar grammar_;
  std::shared_ptr<WorkOptions> work_ = std::make_shared<WorkOptions>();
  std::function<int()> run_;
};

}  // namespace dfsmr::cli
