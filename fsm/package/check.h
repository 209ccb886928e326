// Is a package sound: its manifest, its documents, and what they say about each other. Pure, for
// `dcli package check` and for the server that takes one.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/package/archive_rules.h"
#include "fsm/package/manifest.h"
#include "fsm/package/own_names.h"
#include "fsm/when/zones.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {

inline constexpr size_t kPackageDocuments = 1'000;
inline constexpr size_t kPackageDocumentBytes = 4 << 20;  // of all

struct PackageContents {
  const PackageFiles& files;
  // The bytes of the file of this path, which is in `files` and no link.
  std::function<std::string(const std::string& path)> read;
  std::string prefix;  // of its paths in diagnostics: "etl/"
};

// A file of documents; what is parsed has the names in full.
struct PackageSource {
  std::string path;
  std::string text;
  Parsed parsed;
  std::vector<std::shared_ptr<const Machine>> compiled;  // as parsed.definitions; null for machines
};

// What some worker has to do: an action by its full name, and where the documents name it.
struct PackageWork {
  std::string action;
  const PackageSource* source = nullptr;
  Written written;
};

struct CheckedPackage {
  std::optional<Manifest> manifest;  // nullopt: it has no name or version that can be read
  std::deque<PackageSource> sources;
  std::vector<PackageWork> work;
  std::vector<Diagnostic> diagnostics;

  bool ok() const { return manifest && !HasErrors(diagnostics); }
};

// A package with more documents than may be: TOO_LARGE. `beside` are the latest definitions of the
// namespace; empty: nothing is known of it, and what is neither there nor here is a warning.
Result<CheckedPackage> CheckPackage(const PackageContents& contents,
                                    const std::vector<const Machine*>& beside,
                                    const FindZone& zones, Timestamp now);

// The manifest of a package with these files, its programs among them.
std::optional<Manifest> ManifestOf(const PackageContents& contents,
                                   std::vector<Diagnostic>* diagnostics);
// Finds programs among the files of a package; those without a slash are the agent's to find.
ProgramFinder ProgramsIn(const PackageFiles& files);
// The paths of a package's documents, in order. A place that has none is reported.
std::vector<std::string> DocumentPaths(const Manifest& manifest, const PackageFiles& files,
                                       Reporter* reporter);

// The worker of a package that serves an action of this full name; null: none does.
const Worker* ServingIn(const Manifest& manifest, std::string_view action);
// What each worker's `serves` comes to among the work of a package, by full name, in order.
std::vector<std::vector<std::string>> ActionsOfWorkers(const CheckedPackage& package);

}  // namespace dfsmr
