#include "dcli/commands/sources.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "fsm/plan/library.h"
#include "fsm/when/check.h"
#include "fsm/yaml/places.h"
#include "fsm/yaml/tree.h"
#include "storage/zones/zones.h"

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;

Error Unreadable(const std::string& path, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kNone, "cannot read " + path + ": " + why};
}

Result<Source> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable(path, std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return Unreadable(path, std::strerror(errno));
  return Source{path, text.str()};
}

Source ReadStandardInput() {
  std::ostringstream text;
  text << std::cin.rdbuf();
  return {"stdin", text.str()};
}

// What an agent reads lies beside the documents whose work it does, and holds none; nor does a
// package's manifest.
bool IsOfAgents(const fs::path& file) {
  return file.stem() == "workers" || file.filename() == "package.yaml";
}

// A package's documents mean something in their package: `dcli package check` reads them.
bool IsPackage(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "package.yaml", ignored);
}

Result<std::vector<std::string>> YamlFilesUnder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    const fs::path extension = entry->path().extension();
    std::error_code ignored;
    if (entry->is_directory(ignored) && IsPackage(entry->path())) {
      entry.disable_recursion_pending();
    }
    const bool yaml = extension == ".yaml" || extension == ".yml";
    if (!yaml || entry->is_directory(ignored) || IsOfAgents(entry->path())) continue;
    files.push_back(entry->path().string());
  }
  if (error) return Unreadable(folder, error.message());
  if (files.empty()) return Unreadable(folder, "there is no *.yaml or *.yml in it");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<std::vector<Source>> ReadSources(const std::vector<std::string>& paths) {
  std::vector<Source> sources;
  for (const std::string& path : paths) {
    if (path == "-") {
      sources.push_back(ReadStandardInput());
      continue;
    }
    std::vector<std::string> files = {path};
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      auto found = YamlFilesUnder(path);
      if (!found) return found.error();
      files = *found;
    }
    for (const std::string& file : files) {
      auto source = ReadFile(file);
      if (!source) return source.error();
      sources.push_back(*std::move(source));
    }
  }
  return sources;
}

namespace {

// A source with errors gets no such warnings: the errors come first.
void Warn(const Parsed& parsed, const Definitions& definitions, Reporter* reporter) {
  std::vector<PlanProblem> warnings;
  for (const Machine& definition : parsed.definitions) {
    WarnOfUnknownActions(definition, definitions, &warnings);
  }
  for (const PlanProblem& warning : warnings) {
    if (definitions.Doubtful(warning)) continue;
    Written written = PlaceOf(warning, *parsed.tree);
    reporter->Warning(written.at, std::move(written.path), warning.message);
  }
}

// What is wrong with the schedules, triggers and limits of a source. A machine that the sources do
// not define may be defined on the server, so that is a warning.
void CheckDocuments(const Parsed& parsed, const Definitions& definitions, Timestamp now,
                    Reporter* reporter) {
  for (const Document& document : parsed.documents) {
    std::vector<PlanProblem> problems;
    CheckDocument(document, definitions, now, &problems);
    for (const PlanProblem& problem : problems) {
      if (definitions.Doubtful(problem)) continue;
      const bool elsewhere = !problem.about.empty() &&
                             std::ranges::none_of(problem.about, [&](const std::string& id) {
                               return definitions.latest().contains(id);
                             });
      Written written = PlaceOf(problem, *parsed.tree);
      if (problem.warning || elsewhere) {
        reporter->Warning(written.at, std::move(written.path), problem.message);
      } else {
        reporter->Error(written.at, std::move(written.path), problem.message);
      }
    }
  }
}

}  // namespace

std::vector<Compiled> CompileSources(const std::vector<Source>& sources, Timestamp now) {
  Zones zones;
  const FindZone find = [&zones](std::string_view name) { return zones.Find(name); };
  std::vector<Compiled> parsed;
  parsed.reserve(sources.size());
  Definitions definitions;
  for (const Source& source : sources) {
    parsed.push_back({ParseDefinitions(source.text, source.name, find), {}});
  }
  for (const Compiled& one : parsed) {
    for (const Machine& definition : one.definitions) definitions.Add(definition);
    for (const std::string& id : one.unsound) definitions.AddUnsound(id);
  }
  definitions.Index();
  for (size_t i = 0; i < parsed.size(); ++i) {
    Reporter reporter(sources[i].name);
    std::vector<std::shared_ptr<const Machine>> compiled;
    for (const Machine& definition : parsed[i].definitions) {
      std::vector<PlanProblem> problems;
      compiled.push_back(CompileDefinition(definition, definitions, &problems));
      std::erase_if(problems, [&](const auto& one) { return definitions.Doubtful(one); });
      for (const PlanProblem& problem : problems) {
        Written written = PlaceOf(problem, *parsed[i].tree);
        reporter.Error(written.at, std::move(written.path), problem.message);
      }
    }
    CheckDocuments(parsed[i], definitions, now, &reporter);
    if (parsed[i].ok() && reporter.errors() == 0) Warn(parsed[i], definitions, &reporter);
    std::ranges::move(std::move(reporter).Take(), std::back_inserter(parsed[i].diagnostics));
    parsed[i].compiled = std::move(compiled);
  }
  return parsed;
}

}  // namespace dfsmr::cli
