#include "fsm/package/manifest.h"

#include <algorithm>
#include <array>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/package/archive_rules.h"
#include "fsm/package/exclude.h"
#include "fsm/package/version.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 10> kKeys = {
    "package", "version", "description", "labels", "documents",
    "exclude", "workers", "middleware",  "setup",  "setup_timeout"};
constexpr std::string_view kAll =
    "a manifest has package, version, description, labels, documents, exclude, workers, "
    "middleware, setup and setup_timeout";

// A list of texts, or one of them; each is given to `take` with its place.
template <typename Take>
void ReadTexts(const Field& field, const Take& take) {
  const bool list = field.value.IsList();
  for (size_t i = 0; i < (list ? field.value.items.size() : 1); ++i) {
    const Field item = list ? field.Item(i) : field;
    std::string text;
    if (ReadText(item, &text)) take(item, text);
  }
}

class ManifestReader {
 public:
  ManifestReader(const YamlNode& root, const ProgramFinder& find, Reporter* reporter)
      : root_(root, "", reporter), find_(find), keys_(root_, kKeys, kAll) {}

  std::optional<Manifest> Read() {
    const bool named = ReadPackage();
    const bool numbered = ReadVersion();
    if (auto key = keys_.Take("description")) ReadText(*key, &manifest_.description);
    ReadLabels();
    ReadDocuments();
    ReadExclude();
    if (auto key = keys_.Take("workers")) manifest_.workers = ReadWorkers(*key, find_);
    if (auto key = keys_.Take("middleware")) manifest_.middleware = ReadMiddleware(*key, find_);
    ReadSetup();
    if (!named || !numbered) return std::nullopt;
    return std::move(manifest_);
  }

 private:
  bool ReadPackage() {
    const auto key = keys_.Take("package");
    if (!key) {
      root_.Fail("the manifest has no package: NAME");
      return false;
    }
    if (!ReadText(*key, &manifest_.package)) return false;
    const auto problem = PackageNameProblem(manifest_.package);
    if (problem) key->Fail(*problem);
    return !problem;
  }

  bool ReadVersion() {
    const auto key = keys_.Take("version");
    if (!key) {
      root_.Fail("the manifest has no version, such as 'version: 1.0.0'");
      return false;
    }
    if (!ReadText(*key, &manifest_.version)) return false;
    const auto problem = VersionProblem(manifest_.version);
    if (problem) key->Fail(*problem);
    return !problem;
  }

  void ReadLabels() {
    const auto labels = keys_.Take("labels");
    if (!labels || !ReadMap(*labels, "{team: data}")) return;
    if (labels->value.entries.size() > limits::kLabels) {
      labels->Fail("at most " + std::to_string(limits::kLabels) + " labels, not " +
                   std::to_string(labels->value.entries.size()));
    }
    for (const YamlEntry& entry : labels->value.entries) {
      const Field field = labels->Below(entry);
      std::string value;
      if (auto problem = NameProblem("label", entry.key)) {
        field.Fail(*problem);
      } else if (ReadText(field, &value) && Characters(value) > limits::kLabelValue) {
        field.Fail("a label's value has at most 256 characters");
      } else {
        manifest_.labels[entry.key] = value;
      }
    }
  }

  void ReadDocuments() {
    const auto key = keys_.Take("documents");
    if (!key) return;
    manifest_.documents_given = true;
    manifest_.documents.clear();
    ReadTexts(*key, [&](const Field& item, std::string path) {
      while (path.size() > 1 && path.ends_with('/')) path.pop_back();
      if (path.starts_with("./")) path.erase(0, 2);
      if (auto problem = PathProblem(path)) return item.Fail(*problem);
      manifest_.documents.push_back({path, item.At()});
    });
  }

  void ReadExclude() {
    const auto key = keys_.Take("exclude");
    if (!key) return;
    ReadTexts(*key, [&](const Field& item, const std::string& pattern) {
      if (auto problem = PatternProblem(pattern)) return item.Fail(*problem);
      manifest_.exclude.push_back(pattern);
    });
  }

  void ReadSetup() {
    const auto setup = keys_.Take("setup");
    if (setup) ReadCommand(*setup, find_, &manifest_.setup);
    const auto timeout = keys_.Take("setup_timeout");
    if (!timeout) return;
    if (!setup) timeout->Fail("there is no setup: COMMAND for it");
    ReadDurationAboveZero(*timeout, &manifest_.setup_timeout);
  }

  const Field root_;
  const ProgramFinder& find_;
  const Keys keys_;
  Manifest manifest_;
};

}  // namespace

std::optional<std::string> PackageNameProblem(std::string_view name) {
  const auto sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (name == "dfsmr") return "'dfsmr' is the system's own name; choose another one";
  if (!name.empty() && name.size() <= kPackageName && std::ranges::all_of(name, sound) &&
      name[0] != '_' && name[0] != '-') {
    return std::nullopt;
  }
  return Quoted(name) +
         " cannot name a package: letters, digits, _ and -, no dot, first a letter "
         "or digit, at most 64";
}

Result<std::string> AnyProgram(const std::string& word) { return word; }

std::optional<Manifest> ParseManifest(std::string_view text, std::string_view source_name,
                                      const ProgramFinder& find,
                                      std::vector<Diagnostic>* diagnostics) {
  Reporter reporter(source_name);
  std::optional<Manifest> manifest;
  if (text.size() > kManifestMax) {
    reporter.Error({}, "", "a manifest has at most 256 KiB");
  } else {
    const YamlTree tree = ReadYaml(text, &reporter, OnEmpty::kAccept);
    if (tree.documents.empty() && reporter.errors() == 0) {
      reporter.Error({}, "", "it is empty; it needs at least 'package: NAME' and 'version: 1.0.0'");
    }
    for (const YamlDocument& document : tree.documents) {
      if (!document.root) continue;
      if (&document != &tree.documents.front()) {
        reporter.Error(document.root->at, "", "a manifest is one document; remove this one");
        break;
      }
      if (!document.root->IsMap()) {
        reporter.Error(document.root->at, "",
                       "a manifest is a map, such as 'package: NAME' and 'version: 1.0.0', not " +
                           Describe(*document.root));
        continue;
      }
      manifest = ManifestReader(*document.root, find, &reporter).Read();
    }
  }
  std::vector<Diagnostic> found = std::move(reporter).Take();
  diagnostics->insert(diagnostics->end(), found.begin(), found.end());
  return manifest;
}

}  // namespace dfsmr
