// A package's manifest, package.yaml: what it is called, which documents it brings, and the workers
// that do their work.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/base/time.h"
#include "fsm/package/worker.h"

namespace dfsmr {

inline constexpr std::string_view kManifestName = "package.yaml";
inline constexpr size_t kManifestMax = 256 << 10;
inline constexpr size_t kPackageName = 64;
inline constexpr std::string_view kDefaultDocuments = "documents";

struct DocumentPlace {
  std::string path;  // of a file or folder of the package
  Position at;
};

struct Manifest {
  std::string package;
  std::string version;
  std::string description;
  std::map<std::string, std::string> labels;
  std::vector<DocumentPlace> documents = {{std::string(kDefaultDocuments), {}}};
  bool documents_given = false;
  std::vector<std::string> exclude;
  std::vector<Worker> workers;
  std::map<std::string, std::vector<std::string>> middleware;  // argv, by name
  std::vector<std::string> setup;                              // argv; empty: none
  Duration setup_timeout = std::chrono::minutes(10);

  // "etl-1.4.0", the top folder of its archive; "etl@1.4.0", as people call it.
  std::string Top() const { return package + "-" + version; }
  std::string FullName() const { return package + "@" + version; }
};

// What is wrong with a package's name, and what would be right; nullopt: nothing.
std::optional<std::string> PackageNameProblem(std::string_view name);

// Reads a manifest. `find` finds the programs of its commands; one that finds every program takes
// the manifest for what it says. Everything that is wrong is appended to `diagnostics`; then the
// result is incomplete, and nullopt when it has no name or no version.
std::optional<Manifest> ParseManifest(std::string_view text, std::string_view source_name,
                                      const ProgramFinder& find,
                                      std::vector<Diagnostic>* diagnostics);

// Finds every program, as it is written.
Result<std::string> AnyProgram(const std::string& word);

}  // namespace dfsmr
