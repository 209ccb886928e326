#include "fsm/package/check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/package/work.h"
#include "fsm/plan/library.h"
#include "fsm/when/check.h"
#include "fsm/yaml/places.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

bool IsYaml(std::string_view path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

// Where the name of a document of a source is written.
Written PlaceOfName(const PackageSource& source, std::string_view name) {
  for (const YamlDocument& document : source.parsed.tree->documents) {
    if (!document.root || !document.root->IsMap()) continue;
    for (std::string_view key : {"id", "plan", "action", "schedule", "trigger", "limit"}) {
      const YamlEntry* entry = document.root->Find(key);
      if (entry && entry->value->IsScalar() && entry->value->text == name) {
        return {entry->value->at, std::string(key)};
      }
    }
  }
  return {};
}

class Checker {
 public:
  Checker(const PackageContents& contents, const std::vector<const Machine*>& beside,
          const FindZone& zones, Timestamp now)
      : contents_(contents), beside_(beside), zones_(zones), now_(now) {}

  Result<CheckedPackage> Check() {
    package_.manifest = ManifestOf(contents_, &package_.diagnostics);
    if (!package_.manifest) return std::move(package_);
    const Manifest& manifest = *package_.manifest;
    Reporter reporter(contents_.prefix + std::string(kManifestName));
    const std::vector<std::string> paths = DocumentPaths(manifest, contents_.files, &reporter);
    if (auto read = Read(paths); !read) return read.error();
    OwnNames names(manifest.package);
    names.Serve(manifest.workers);
    Name(&names);
    Compile(names);
    for (const PackageSource& source : package_.sources) CollectWork(names, source, &package_.work);
    WarnOfIdleWorkers(&reporter);
    Append(std::move(reporter));
    JudgeSources(names);
    return std::move(package_);
  }

 private:
  void Append(Reporter reporter) {
    std::ranges::move(std::move(reporter).Take(), std::back_inserter(package_.diagnostics));
  }

  Result<Ok> Read(const std::vector<std::string>& paths) {
    size_t bytes = 0;
    size_t documents = 0;
    for (const std::string& path : paths) {
      const auto file = Resolved(contents_.files, path);
      dfsmr::Check(file.has_value(), "a document's path leads to a file");
      bytes += contents_.files.at(*file).size;
      if (bytes > kPackageDocumentBytes || paths.size() > kPackageDocuments) break;
      PackageSource& source = package_.sources.emplace_back();
      source.path = path;
      source.text = contents_.read(*file);
      source.parsed = ParseDefinitions(source.text, contents_.prefix + path, zones_);
      documents += source.parsed.tree->documents.size();
    }
    if (bytes > kPackageDocumentBytes) return TooLarge("", "the documents have more than 4 MiB");
    if (std::max(documents, paths.size()) > kPackageDocuments) {
      return TooLarge("", "a package has at most 1,000 documents, not " +
                              std::to_string(std::max(documents, paths.size())));
    }
    return Ok{};
  }

  // Gives all their names in full, and notes those that are there twice or too long.
  void Name(OwnNames* names) {
    for (const PackageSource& source : package_.sources) {
      for (const Machine& one : source.parsed.definitions) names->Collect(one);
      for (const Document& one : source.parsed.documents) names->Collect(one);
    }
    for (PackageSource& source : package_.sources) {
      for (Machine& one : source.parsed.definitions) {
        Note(*names, "", one.id, source);
        Qualify(*names, &one);
      }
      for (Document& one : source.parsed.documents) {
        Note(*names, dfsmr::Name(one.kind()), one.name, source);
        Qualify(*names, &one);
      }
    }
  }

  void Note(const OwnNames& names, std::string_view kind, const std::string& name,
            const PackageSource& source) {
    Reporter& reporter = ReporterOf(source);
    const Written written = PlaceOfName(source, name);
    const std::string full = names.Defined(name);
    if (full.size() > limits::kName) {
      reporter.Error(written.at, written.path,
                     "it is defined as " + Quoted(full) + ", which has more than 128 characters");
    }
    const auto [first, fresh] = named_.try_emplace({std::string(kind), name}, &source);
    if (fresh || first->second == &source) return;  // twice in one file was said already
    reporter.Error(written.at, written.path,
                   Quoted(name) + " is defined in " + first->second->path +
                       ", too; keep one, or rename the other");
  }

  Reporter& ReporterOf(const PackageSource& source) {
    return reporters_.try_emplace(&source, contents_.prefix + source.path).first->second;
  }

  void Compile(const OwnNames& names) {
    Definitions& all = definitions_;
    for (const Machine* other : beside_) {
      // What the package itself no longer has, an earlier version had.
      if (other->id.starts_with(names.Defined(""))) continue;
      all.Add(*other);
    }
    for (const PackageSource& source : package_.sources) {
      for (const Machine& one : source.parsed.definitions) all.Add(one);
      for (const std::string& id : source.parsed.unsound) {
        all.AddUnsound(id.empty() ? id : names.Defined(id));
      }
    }
    all.Index();
    for (PackageSource& source : package_.sources) {
      Reporter& reporter = ReporterOf(source);
      std::vector<PlanProblem> found;
      ToldProblems told;
      for (const Machine& one : source.parsed.definitions) {
        std::vector<PlanProblem> problems;
        source.compiled.push_back(CompileDefinition(one, all, &problems));
        for (const PlanProblem& problem : problems) told.Add(one.id, problem);
        std::ranges::move(problems, std::back_inserter(found));
      }
      std::erase_if(found, [&](const PlanProblem& problem) { return told.Again(problem); });
      Report(source, found, &reporter);
      for (const Document& one : source.parsed.documents) {
        std::vector<PlanProblem> problems;
        CheckDocument(one, all, now_, &problems);
        // Of an action without a document the work says enough.
        std::erase_if(problems, [](const PlanProblem& problem) { return problem.warning; });
        Report(source, problems, &reporter);
      }
    }
  }

  // A plan or machine that is neither here nor in the namespace may be there one day.
  void Report(const PackageSource& source, const std::vector<PlanProblem>& problems,
              Reporter* reporter) {
    for (const PlanProblem& problem : problems) {
      if (definitions_.Doubtful(problem)) continue;
      const bool elsewhere =
          !problem.about.empty() && std::ranges::none_of(problem.about, [&](const std::string& id) {
            return definitions_.latest().contains(id);
          });
      Written written = PlaceOf(problem, *source.parsed.tree);
      if (elsewhere) {
        reporter->Warning(written.at, std::move(written.path),
                          problem.message +
                              " (an error when the package is activated, unless the "
                              "namespace has it by then)");
      } else {
        reporter->Error(written.at, std::move(written.path), problem.message);
      }
    }
  }

  // Whether another worker serves the same: which of them takes it is an error by itself.
  static bool Ties(const Manifest& manifest, const Worker& worker) {
    return std::ranges::any_of(manifest.workers, [&](const Worker& other) {
      return &other != &worker && std::ranges::any_of(other.serves, [&](const std::string& one) {
        return std::ranges::find(worker.serves, one) != worker.serves.end();
      });
    });
  }

  void WarnOfIdleWorkers(Reporter* reporter) {
    const Manifest& manifest = *package_.manifest;
    const auto actions = ActionsOfWorkers(package_);
    for (size_t i = 0; i < manifest.workers.size(); ++i) {
      const Worker& worker = manifest.workers[i];
      if (!actions[i].empty() || worker.serves.empty() || Ties(manifest, worker)) continue;
      reporter->Warning(worker.at, "workers." + worker.name,
                        "the worker serves none of the package's actions");
    }
  }

  void WarnOfWork(const OwnNames& names, const PackageSource& source, Reporter* reporter) {
    std::set<std::string> said;
    for (const PackageWork& work : package_.work) {
      if (work.source != &source || ServingIn(*package_.manifest, work.action) != nullptr) continue;
      if (said.size() >= kWarningsMax || !said.insert(work.action).second) continue;
      const std::string action(names.Local(work.action));
      const Written written =
          PlaceOf({.written = work.written, .message = "", .about = {}}, *source.parsed.tree);
      const Written& place = work.written.path.starts_with("nodes.") ? work.written : written;
      reporter->Warning(place.at, place.path,
                        "no worker of the package serves " + Quoted(action) +
                            ", others may; 'serves: " + action + "' would take it" +
                            HintOf(action));
    }
  }

  // What was probably meant.
  std::string HintOf(const std::string& action) const {
    Nearest nearest(action);
    for (const Worker& worker : package_.manifest->workers) {
      for (const std::string& pattern : worker.serves) {
        if (!pattern.ends_with('*')) nearest.Try(pattern);
      }
    }
    return nearest.Hint();
  }

  void CheckMiddleware(const PackageSource& source, Reporter* reporter) {
    for (const UsedMiddleware& used : MiddlewareOf(source)) {
      if (package_.manifest->middleware.contains(used.name)) continue;
      const Written written =
          PlaceOf({.written = used.written, .message = "", .about = {}}, *source.parsed.tree);
      Nearest nearest(used.name);
      for (const auto& [name, command] : package_.manifest->middleware) nearest.Try(name);
      reporter->Error(written.at, written.path,
                      "the package has no middleware " + Quoted(used.name) + nearest.Hint() +
                          "; add 'middleware: {" + used.name + ": COMMAND}' to package.yaml");
    }
  }

  void JudgeSources(const OwnNames& names) {
    for (const PackageSource& source : package_.sources) {
      Reporter& reporter = ReporterOf(source);
      CheckMiddleware(source, &reporter);
      if (source.parsed.ok() && reporter.errors() == 0) WarnOfWork(names, source, &reporter);
      std::vector<Diagnostic> found = source.parsed.diagnostics;
      std::ranges::move(std::move(reporter).Take(), std::back_inserter(found));
      std::ranges::stable_sort(found, [](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.line, a.column, a.path) < std::tie(b.line, b.column, b.path);
      });
      std::ranges::move(found, std::back_inserter(package_.diagnostics));
    }
  }

  const PackageContents& contents_;
  const std::vector<const Machine*>& beside_;
  const FindZone& zones_;
  const Timestamp now_;
  CheckedPackage package_;
  Definitions definitions_;
  std::map<std::pair<std::string, std::string>, const PackageSource*> named_;
  std::map<const PackageSource*, Reporter> reporters_;
};

// `FOLDER/x.yaml` for each below a folder, in the order of their paths.
std::vector<std::string> Below(const PackageFiles& files, const std::string& folder) {
  std::vector<std::string> paths;
  const std::string prefix = folder.empty() ? "" : folder + "/";
  for (auto it = files.lower_bound(prefix); it != files.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    const auto file = Resolved(files, it->first);
    if (IsYaml(it->first) && file && files.contains(*file)) paths.push_back(it->first);
  }
  return paths;
}

}  // namespace

Result<CheckedPackage> CheckPackage(const PackageContents& contents,
                                    const std::vector<const Machine*>& beside,
                                    const FindZone& zones, Timestamp now) {
  return Checker(contents, beside, zones, now).Check();
}

std::optional<Manifest> ManifestOf(const PackageContents& contents,
                                   std::vector<Diagnostic>* diagnostics) {
  const std::string name(kManifestName);
  return ParseManifest(contents.read(name), contents.prefix + name, ProgramsIn(contents.files),
                       diagnostics);
}

ProgramFinder ProgramsIn(const PackageFiles& files) {
  return [&files](const std::string& word) -> Result<std::string> {
    const auto refuse = [](std::string message) {
      return Error{Code::kInvalidArgument, Reason::kBadPackage, std::move(message)};
    };
    if (word.find('/') == word.npos) return word;
    if (word.starts_with('/')) {
      return refuse(Quoted(word) +
                    " is absolute; a program of the package is written as ./bin/x, "
                    "one on the agent's PATH without a slash");
    }
    const auto path = Resolved(files, word);
    const auto file = path ? files.find(*path) : files.end();
    if (file == files.end()) {
      return refuse("there is no program " + Quoted(word) + " in the package");
    }
    if (!file->second.executable) {
      return refuse(Quoted(word) + " is not executable; chmod +x makes it so");
    }
    return word;
  };
}

std::vector<std::string> DocumentPaths(const Manifest& manifest, const PackageFiles& files,
                                       Reporter* reporter) {
  std::vector<std::string> paths;
  for (size_t i = 0; i < manifest.documents.size(); ++i) {
    const DocumentPlace& place = manifest.documents[i];
    const auto path = Resolved(files, place.path);
    if (path && files.contains(*path)) {
      paths.push_back(place.path);
      continue;
    }
    const auto below = path ? Below(files, *path) : std::vector<std::string>();
    if (path && !below.empty()) {
      paths.insert(paths.end(), below.begin(), below.end());
    } else if (!manifest.documents_given) {
      reporter->Warning({}, "documents",
                        "the package has no documents; they are *.yaml in "
                        "documents/, or what 'documents:' names");
    } else {
      reporter->Error(place.at, "documents[" + std::to_string(i) + "]",
                      path ? "there is no *.yaml or *.yml below " + Quoted(place.path)
                           : "there is no " + Quoted(place.path) + " in the package");
    }
  }
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

const Worker* ServingIn(const Manifest& manifest, std::string_view action) {
  return Serving(manifest.workers, OwnNames(manifest.package).Local(action));
}

std::vector<std::vector<std::string>> ActionsOfWorkers(const CheckedPackage& package) {
  std::set<std::string> actions;
  for (const PackageWork& work : package.work) actions.insert(work.action);
  for (const PackageSource& source : package.sources) {
    for (const Machine& one : source.parsed.definitions) {
      if (one.action()) actions.insert(one.id);
    }
  }
  const std::vector<Worker>& workers = package.manifest->workers;
  std::vector<std::vector<std::string>> by_worker(workers.size());
  for (const std::string& action : actions) {
    const Worker* worker = ServingIn(*package.manifest, action);
    if (worker) by_worker[static_cast<size_t>(worker - workers.data())].push_back(action);
  }
  return by_worker;
}

}  // namespace dfsmr
