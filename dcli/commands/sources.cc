#include "dcli/commands/sources.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

#include "dcli/text/text.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/library.h"
#include "fsm/when/check.h"
#include "fsm/yaml/kind.h"
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
  return Source{.name = InvalidUtf8(path) ? Escaped(path) : path, .text = text.str()};
}

Source ReadStandardInput() {
  std::ostringstream text;
  text << std::cin.rdbuf();
  return {.name = "stdin", .text = text.str()};
}

// Whether the file's first document is a map with this key.
bool HasKey(const fs::path& file, std::string_view key) {
  const auto source = ReadFile(file.string());
  if (!source) return false;
  Reporter ignored("");
  const YamlTree tree = ReadYaml(source->text, &ignored, OnEmpty::kAccept);
  const YamlNode* root = tree.documents.empty() ? nullptr : tree.documents.front().root;
  return root != nullptr && root->IsMap() && root->Find(key) != nullptr;
}

bool IsManifest(const fs::path& file) {
  return file.filename() == "package.yaml" && HasKey(file, "package");
}

// What an agent reads lies beside the documents whose work it does, and holds none.
bool IsOfWorkers(const fs::path& file) {
  return file.stem() == "workers" && HasKey(file, "workers");
}

// What is found in a folder.
struct FoundFiles {
  std::vector<std::string> files;
  std::vector<std::string> left_out;  // a line for each
};

void Add(const fs::path& path, bool folder, FoundFiles* to) {
  const std::string name = Escaped(path.string());
  const fs::path extension = path.extension();
  if (folder) {
    to->left_out.push_back(name + ": a package, which dcli package check reads");
  } else if (extension != ".yaml" && extension != ".yml") {
    return;
  } else if (IsManifest(path)) {
    to->left_out.push_back(name + ": the manifest of a package");
  } else if (IsOfWorkers(path)) {
    to->left_out.push_back(name + ": what workers run, for dcli agent");
  } else {
    to->files.push_back(path.string());
  }
}

Result<FoundFiles> YamlFilesUnder(const std::string& folder) {
  FoundFiles found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    // A package's documents mean something in their package only.
    const bool package = is_folder && IsManifest(entry->path() / "package.yaml");
    if (package) entry.disable_recursion_pending();
    if (package || !is_folder) Add(entry->path(), is_folder, &found);
  }
  if (error) return Unreadable(folder, error.message());
  if (found.files.empty()) {
    const std::string rest = Join(found.left_out, "; ");
    return Unreadable(folder, "there is no *.yaml or *.yml in it" +
                                  (rest.empty() ? "" : " but what is left out: " + rest));
  }
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.left_out.begin(), found.left_out.end());
  return found;
}

}  // namespace

Result<std::vector<Source>> ReadSources(const std::vector<std::string>& paths,
                                        std::vector<std::string>* left_out) {
  std::vector<Source> sources;
  for (size_t argument = 0; argument < paths.size(); ++argument) {
    const std::string& path = paths[argument];
    if (path == "-") {
      sources.push_back(ReadStandardInput());
      sources.back().argument = argument;
      continue;
    }
    std::vector<std::string> files = {path};
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      auto found = YamlFilesUnder(path);
      if (!found) return found.error();
      files = found->files;
      if (left_out != nullptr) std::ranges::copy(found->left_out, std::back_inserter(*left_out));
    }
    for (const std::string& file : files) {
      auto source = ReadFile(file);
      if (!source) return source.error();
      sources.push_back(*std::move(source));
      sources.back().argument = argument;
    }
  }
  return sources;
}

std::vector<Diagnostic> Unsendable(const Source& source) {
  const bool small = source.text.size() <= limits::kSource;
  if (small && !InvalidUtf8(source.text)) return {};
  return ParseDefinitions(source.text, source.name).diagnostics;
}

std::vector<std::vector<Diagnostic>> DefinedTwice(const std::vector<Source>& sources) {
  if (sources.size() < 2) return std::vector<std::vector<Diagnostic>>(sources.size());
  struct Place {
    size_t source;
    DefinedId id;
  };
  std::vector<YamlTree> trees;  // to which the ids point
  std::map<std::tuple<size_t, std::string_view, std::string_view>, std::vector<Place>> places;
  trees.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    Reporter ignored("");
    trees.push_back(ReadYaml(sources[i].text, &ignored, OnEmpty::kAccept));
    for (const DefinedId& id : DefinedIdsOf(trees.back())) {
      auto& all = places[{sources[i].argument, id.names, id.id}];
      if (all.empty() || all.back().source != i) all.push_back({i, id});
    }
  }
  std::vector<Reporter> reporters;
  for (const Source& source : sources) reporters.emplace_back(source.name);
  for (const auto& [name, all] : places) {
    for (size_t i = 0; i < all.size() && all.size() > 1; ++i) {
      const Place& other = all[i == 0 ? 1 : 0];
      const DefinedId& id = all[i].id;
      reporters[all[i].source].Error(
          id.at, std::string(id.key),
          std::string(id.kind) + " " + Quoted(id.id) + " is defined in " +
              sources[other.source].name + ":" + std::to_string(other.id.at.line) +
              ", too; keep one, or rename the other");
    }
  }
  std::vector<std::vector<Diagnostic>> found;
  for (Reporter& reporter : reporters) found.push_back(std::move(reporter).Take());
  return found;
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
  for (const DocumentProblem& one : CheckOwners(parsed.documents, {})) {
    Written written = PlaceOf(one.problem, *parsed.tree);
    reporter->Error(written.at, std::move(written.path), one.problem.message);
  }
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
  std::vector<std::vector<Diagnostic>> twice = DefinedTwice(sources);
  for (size_t i = 0; i < parsed.size(); ++i) {
    std::ranges::move(twice[i], std::back_inserter(parsed[i].diagnostics));
    Reporter reporter(sources[i].name);
    std::vector<std::shared_ptr<const Machine>> compiled;
    std::vector<PlanProblem> found;
    ToldProblems told;
    for (const Machine& definition : parsed[i].definitions) {
      std::vector<PlanProblem> problems;
      compiled.push_back(CompileDefinition(definition, definitions, &problems));
      std::erase_if(problems, [&](const auto& one) { return definitions.Doubtful(one); });
      for (const PlanProblem& problem : problems) told.Add(definition.id, problem);
      std::ranges::move(problems, std::back_inserter(found));
    }
    for (const PlanProblem& problem : found) {
      if (told.Again(problem)) continue;
      Written written = PlaceOf(problem, *parsed[i].tree);
      reporter.Error(written.at, std::move(written.path), problem.message);
    }
    CheckDocuments(parsed[i], definitions, now, &reporter);
    if (parsed[i].ok() && reporter.errors() == 0) Warn(parsed[i], definitions, &reporter);
    std::ranges::move(std::move(reporter).Take(), std::back_inserter(parsed[i].diagnostics));
    parsed[i].compiled = std::move(compiled);
  }
  return parsed;
}

}  // namespace dfsmr::cli
