#include "dsrv/calls/archive_intake.h"

#include <algorithm>

#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

// The line of a document's name.
uint32_t LineOf(const YamlTree& tree, std::string_view name) {
  for (const YamlDocument& document : tree.documents) {
    if (!document.root || !document.root->IsMap()) continue;
    for (std::string_view key : {"id", "plan", "action", "schedule", "trigger", "limit"}) {
      const YamlEntry* entry = document.root->Find(key);
      if (entry && entry->value->IsScalar() && entry->value->text == name) {
        return static_cast<uint32_t>(entry->value->at.line);
      }
    }
  }
  return 0;
}

bool Holds(const std::vector<std::string>& places, std::string_view path) {
  return std::ranges::any_of(places, [path](const std::string& place) {
    return path == place || (path.starts_with(place) && path[place.size()] == '/' &&
                             (path.ends_with(".yaml") || path.ends_with(".yml")));
  });
}

}  // namespace

ArchiveIntake::ArchiveIntake()
    : reader_([this](const std::string& path, std::string_view piece) { Keep(path, piece); }) {}

Result<Ok> ArchiveIntake::Feed(std::string_view data) {
  if (bytes_ == 0) {
    if (auto undo = Decompressor(data)) {
      return BadArchive(
          "", "it is compressed; a package is a plain tar: unpack it with '" + *undo + "'");
    }
  }
  bytes_ += data.size();
  hasher_.Add(data);
  return reader_.Feed(data);
}

// Keeps what may hold documents.
void ArchiveIntake::Keep(const std::string& path, std::string_view piece) {
  if (path == kManifestName) return;
  if (!places_) {
    std::vector<Diagnostic> wrong;  // said by the check
    auto manifest = ParseManifest(reader_.manifest(), kManifestName, AnyProgram, &wrong);
    places_.emplace();
    if (manifest) {
      for (const DocumentPlace& one : manifest->documents) {
        places_->push_back(one.path.ends_with('/') ? one.path.substr(0, one.path.size() - 1)
                                                   : one.path);
      }
    }
  }
  const bool wanted = Holds(*places_, path) || path.ends_with(".yaml") || path.ends_with(".yml");
  std::string* text = wanted ? &texts_[path] : nullptr;
  if (text && text->size() <= kPackageDocumentBytes) *text += piece;
}

const ArchiveHashes& ArchiveIntake::Hash() { return hashes_ = hasher_.Take(); }

Result<CheckedPackage> ArchiveIntake::Check(const FindZone& zones, Timestamp now) {
  const PackageContents contents{reader_.files(),
                                 [this](const std::string& path) {
                                   return path == kManifestName ? reader_.manifest() : texts_[path];
                                 },
                                 ""};
  return CheckPackage(contents, {}, zones, now);
}

rows::PackageVersionRow ArchiveIntake::RowOf(const CheckedPackage& checked) const {
  const Manifest& manifest = *checked.manifest;
  rows::PackageVersionRow row;
  row.package = manifest.package;
  row.version = manifest.version;
  row.digest = hashes_.Digest();
  row.size = bytes_;
  row.manifest = reader_.manifest();
  row.description = manifest.description;
  row.labels = manifest.labels;
  const OwnNames names(manifest.package);
  for (const PackageSource& source : checked.sources) {
    for (const Machine& one : source.parsed.definitions) {
      const std::string id(names.Local(one.id));
      row.documents.push_back({std::string(KindName(one.defined_as)), id, source.path,
                               LineOf(*source.parsed.tree, id)});
      if (!one.IsPlain()) continue;
      for (const Node& node : one.nodes) {
        if (node.kind == NodeKind::kWork) row.nodes.push_back(id + "." + node.id);
      }
    }
    for (const Document& one : source.parsed.documents) {
      const std::string name(names.Local(one.name));
      row.documents.push_back(
          {std::string(Name(one.kind())), name, source.path, LineOf(*source.parsed.tree, name)});
    }
  }
  const auto actions = ActionsOfWorkers(checked);
  for (size_t i = 0; i < manifest.workers.size(); ++i) {
    const Worker& worker = manifest.workers[i];
    row.workers.push_back({worker.name, worker.serves, worker.required, SecretsOf(worker),
                           i < actions.size() ? actions[i] : std::vector<std::string>(),
                           worker.dry_run});
  }
  for (const auto& [path, file] : reader_.files()) {
    row.files.push_back({path, file.size, file.executable, file.link, file.offset});
  }
  row.sha512 = hashes_.sha512;
  return row;
}

}  // namespace dfsmr
