#include "dsrv/calls/import_files.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/own_names.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/namespaces.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/package/archive_rules.h"
#include "fsm/plan/library.h"
#include "storage/rows/graph.h"

namespace dfsmr {
namespace {

using Kind = ExportPath::Kind;

constexpr uint64_t kKeptMost = 256u << 20;  // bytes in memory, of small files and common rows
constexpr size_t kFilesMost = 200'000;
constexpr size_t kShownProblems = 20;

// The same error, of this file.
Error In(const std::string& path, const Error& error) {
  Error of = error;
  of.message = path + ": " + error.message;
  return of;
}

std::string KindOf(const Parsed& parsed) {
  if (!parsed.definitions.empty()) return std::string(KindName(parsed.definitions[0].defined_as));
  return std::string(Name(parsed.documents.front().kind()));
}

std::string IdOf(const Parsed& parsed) {
  return parsed.definitions.empty() ? parsed.documents.front().name : parsed.definitions[0].id;
}

}  // namespace

// Files -----------------------------------------------------------------------------------------

Result<Ok> ImportFiles::Begin(const std::string& path) {
  auto parsed = ParseExportPath(path);
  if (!parsed) return parsed.error();
  if (!names_.insert(path).second) return BadArchive(path, "it is there twice");
  if (names_.size() > kFilesMost) return TooLarge(path, "an export has at most 200,000 files");
  if (!last_path_ && parsed->kind != Kind::kSpace) {
    return BadArchive(path, "the first file of an export is namespace.yaml");
  }
  if (last_path_ && !SentBefore(*last_path_, last_, *parsed, path)) {
    return BadArchive(path, "it comes after " + Quoted(last_) + ", and belongs in front of it");
  }
  name_ = path;
  path_ = *std::move(parsed);
  text_.clear();
  if (path_->kind == Kind::kArchive) archive_ = std::make_unique<ArchiveIntake>();
  if (path_->kind == Kind::kRows) {
    reader_ = std::make_unique<rows::CarriedReader>(
        [this](rows::CarriedRow row) { return TakeRow(std::move(row)); });
  }
  return Ok{};
}

Result<Ok> ImportFiles::Take(std::string_view data) {
  if (path_->kind == Kind::kArchive) {
    auto fed = archive_->Feed(data);
    return fed ? fed : In(name_, fed.error());
  }
  if (path_->kind == Kind::kRows) {
    auto fed = reader_->Feed(data);
    return fed ? fed : In(name_, fed.error());
  }
  text_ += data;
  bytes_ += data.size();
  if (text_.size() > limits::kSource) return TooLarge(name_, "it has more than 1 MiB");
  if (bytes_ > kKeptMost) return TooLarge(name_, "with it the definitions have more than 256 MiB");
  return Ok{};
}

Result<Ok> ImportFiles::End() {
  last_ = name_;
  last_path_ = *path_;
  const Kind kind = path_->kind;
  const auto end = [&]() -> Result<Ok> {
    switch (kind) {
      case Kind::kSpace: {
        auto file = ReadSpaceFile(text_, name_);
        if (!file) return file.error();
        space_ = *std::move(file);
        return ReadKeys();
      }
      case Kind::kDefinition:
        definitions_.push_back(std::make_unique<Text>(Text{name_, std::move(text_), *path_, {}}));
        return Ok{};
      case Kind::kArchive:
        return EndArchive();
      case Kind::kSignature:
        return EndSignature();
      case Kind::kActive: {
        auto file = ReadActiveFile(text_, name_);
        if (!file) return file.error();
        active_ = *std::move(file);
        return CheckActive();
      }
      case Kind::kRows: {
        auto whole = reader_->Finish();
        return whole ? whole : In(name_, whole.error());
      }
    }
    return Ok{};
  };
  auto ended = end();
  path_.reset();
  return ended;
}

Result<Ok> ImportFiles::ReadKeys() {
  auto settings = ToSettings(space_.settings);
  if (!settings) return In(name_, settings.error());
  settings_ = *std::move(settings);
  if (!quotas_ && space_.settings.has_quotas()) {
    settings_.quotas = {};
    notes_.emplace_back("the quotas are left out: to set them takes an admin of all namespaces");
  }
  for (const SpaceFile::Key& key : space_.keys) {
    auto parsed = ParsePublicKey(key.line);
    if (!parsed) return In(name_, parsed.error());
    rows::TrustedKeyRow& row = keys_.emplace_back();
    row.name = key.name;
    row.public_key = LineOf(*parsed);
    row.fingerprint = Fingerprint(*parsed);
    if (key.revoked) row.revoke_time = now_;
    if (auto name = CheckWorker("the name of a key", key.name); !name || key.name.empty()) {
      return BadArchive(name_, "a trusted key has no name");
    }
  }
  if (keys_.size() > Trust::kKeysMost) return TooLarge(name_, "there are too many trusted keys");
  return Ok{};
}

// Packages --------------------------------------------------------------------------------------

Result<Ok> ImportFiles::EndArchive() {
  const auto hashes = archive_->Hash();
  if (auto whole = archive_->Finish(); !whole) return In(name_, whole.error());
  auto checked = archive_->Check(zones_, now_);
  if (!checked) return In(name_, checked.error());
  if (!checked->ok()) {
    for (const Diagnostic& one : checked->diagnostics) {
      if (!one.error) continue;
      return Error{Code::kInvalidArgument, Reason::kBadPackage, name_ + ": " + Format(one)};
    }
  }
  Package package;
  package.package.row = archive_->RowOf(*checked);
  package.package.row.ns = ns_;
  package.version = KnownOf(package.package.row).version;
  package.top = checked->manifest->Top();
  package.hashes = hashes;
  if (path_->id != package.top) {
    return BadArchive(name_, "it holds " + Quoted(package.top) + ", and is named otherwise");
  }
  for (PackageSource& source : checked->sources) {
    bytes_ += source.text.size();
    package.texts.emplace_back(source.path, std::move(source.text));
  }
  if (bytes_ > kKeptMost) return TooLarge(name_, "with it the definitions have more than 256 MiB");
  packages_.push_back(std::move(package));
  archive_.reset();
  return Ok{};
}

Result<Ok> ImportFiles::EndSignature() {
  if (packages_.empty() || packages_.back().top != path_->id) {
    return BadArchive(name_, "the archive that it signs is missing");
  }
  Package& package = packages_.back();
  const std::vector<std::string> blocks = ArmoredBlocks(text_);
  auto given = ParseSignatures(blocks);
  if (!given) return In(name_, given.error());
  if (given->empty()) return BadArchive(name_, "it holds no signature");
  if (auto good = VerifyAll(*given, package.hashes); !good) return In(name_, good.error());
  package.package.signatures = RowsOf(*given, "");
  return Ok{};
}

const ImportFiles::Package* ImportFiles::Find(const std::string& package,
                                              const std::string& version) const {
  const auto found = std::ranges::find_if(packages_, [&](const Package& one) {
    return one.version->package == package && one.version->version == version;
  });
  return found == packages_.end() ? nullptr : &*found;
}

Result<Ok> ImportFiles::CheckActive() {
  for (const auto& [package, force] : active_) {
    for (const std::string& version : {force.active, force.candidate}) {
      if (version.empty() || Find(package, version)) continue;
      return BadArchive(
          name_, "package " + Quoted(package) + " " + version +
                     " is in force, and its archive is missing: " + ArchivePath(package, version));
    }
  }
  return Ok{};
}

// Instances -------------------------------------------------------------------------------------

const Machine* ImportFiles::Resolve(std::string_view id, uint32_t version) const {
  const auto found = std::ranges::lower_bound(
      versions_, std::pair(id, version), {}, [](const Import::Version& one) {
        return std::pair(std::string_view(one.row.id), one.row.version);
      });
  if (found == versions_.end() || found->row.id != id || found->row.version != version) {
    return nullptr;
  }
  return &found->machine;
}

Result<Ok> ImportFiles::TakeVersion(const rows::CarriedRow& row) {
  auto version = rows::VersionIn(ns_, row);
  if (!version) return version.error();
  const std::string what =
      "version " + std::to_string(version->version) + " of machine " + Quoted(version->id);
  const auto bad = [&](const std::string& why) { return BadArchive("", what + ": " + why); };
  Parsed parsed = ParseStored(version->source);
  if (!parsed.ok() || parsed.definitions.size() != 1 || !parsed.documents.empty()) {
    return bad("its source is no definition");
  }
  Machine machine = std::move(parsed.definitions.front());
  if (!version->package.empty()) {
    const Package* package = Find(version->package, version->package_version);
    if (!package) return bad("its package is missing");
    OwnMachine(*package->version, &machine);
  }
  if (machine.id != version->id || version->version == 0 || version->version > 1'000'000) {
    return bad("it is another one");
  }
  if (version->package.empty() && (version->candidate || version->retired)) {
    return bad("it is of no package");
  }
  if (!version->graph.empty() && !rows::GraphIn(version->graph)) {
    return bad("the graph that it was compiled to is damaged");
  }
  if (!versions_.empty()) {
    const rows::MachineRow& last = versions_.back().row;
    if (std::pair(last.id, last.version) >= std::pair(version->id, version->version)) {
      return bad("it is not in order");
    }
  }
  versions_.push_back({*std::move(version), std::move(machine), nullptr});
  return Ok{};
}

Result<Ok> ImportFiles::TakeRow(rows::CarriedRow row) {
  using Of = rows::CarriedRow::Of;
  const Of of = row.of();
  if (of != Of::kInstance && of != Of::kPartOfInstance) {
    if (!last_instance_.empty()) return BadArchive("", "instances come last");
    bytes_ += row.value.size();
    if (bytes_ > kKeptMost) return TooLarge("", "what instances share has more than 256 MiB");
  }
  switch (of) {
    case Of::kVersion:
      return TakeVersion(row);
    case Of::kGraph: {
      const std::string name(row.Name());
      if (!IsGraph(row.value)) return BadArchive("", "the graph " + Quoted(name) + " is damaged");
      // By its content: elsewhere another graph may have the name.
      const std::string here = "imported." + HashesOf(row.value).Digest().substr(7);
      if (!graph_names_.emplace(name, here).second) return BadArchive("", "a graph comes twice");
      around_.graphs[name] = row.value;
      graphs_.push_back(rows::GraphCarried(here, row.value));
      return Ok{};
    }
    case Of::kGroup: {
      const std::string name(row.Name());
      auto group = rows::GroupIn(row);
      if (!group) return group.error();
      if (!ValidName(name) || InvalidUtf8(group->note)) return BadArchive("", "a group is damaged");
      // One that is paused holds its members back from the moment on in which they come.
      for (PartitionId place = 1; group->paused && place < partitions_; ++place) {
        rows_[place] += rows::CarriedText(row);
      }
      groups_[name] = *std::move(group);
      return Ok{};
    }
    case Of::kLimit: {
      const std::string key(row.Name());
      auto limit = rows::LimitIn(row);
      if (!limit) return limit.error();
      if (LimitKeyProblem(key) || InvalidUtf8(limit->note)) {
        return BadArchive("", "the numbers of a limit are damaged");
      }
      limits_[key] = *std::move(limit);
      return Ok{};
    }
    case Of::kInstance: {
      if (auto ended = EndInstance(); !ended) return ended;
      const std::string id(row.Name());
      if (id <= last_instance_) return BadArchive("", "instances are not in order");
      last_instance_ = id;
      instance_.push_back(std::move(row));
      return Ok{};
    }
    case Of::kPartOfInstance:
      if (instance_.empty() || instance_.front().Name() != row.Name()) {
        return BadArchive("", "a row is of no instance");
      }
      instance_.push_back(std::move(row));
      return Ok{};
  }
  return Ok{};
}

Result<Ok> ImportFiles::EndInstance() {
  if (instance_.empty()) return Ok{};
  if (!around_.resolve) {
    around_.resolve = [this](std::string_view, std::string_view id, uint32_t version) {
      return Resolve(id, version);
    };
    around_.is_flow = [](const std::string& text) { return ToFlow(text).has_value(); };
    around_.is_object = [](const std::string& text) {
      return CheckJson("value", text).has_value();
    };
  }
  if (auto sound = CheckCarried(instance_, around_); !sound) return sound;
  std::string& rows = rows_[PartitionOf(ns_, instance_.front().Name(), partitions_)];
  for (const rows::CarriedRow& row : instance_) rows += rows::CarriedText(row);
  instance_.clear();
  ++instances_;
  return Ok{};
}

// The whole -------------------------------------------------------------------------------------

Result<Ok> ImportFiles::ReadDefinitions() {
  for (const auto& file : definitions_) {
    file->parsed = ParseDefinitions(file->text, file->path, zones_);
    for (const Diagnostic& one : file->parsed.diagnostics) {
      if (!one.error) continue;
      return Error{Code::kInvalidArgument, Reason::kBadMachine, Format(one)};
    }
    const size_t count = file->parsed.definitions.size() + file->parsed.documents.size();
    if (count != 1) return BadArchive(file->path, "it holds not one definition, but several");
    if (KindOf(file->parsed) == file->of.definition && IdOf(file->parsed) == file->of.id) continue;
    return BadArchive(file->path, "it defines " + KindOf(file->parsed) + " " +
                                      Quoted(IdOf(file->parsed)) + ", and is named otherwise");
  }
  return Ok{};
}

Result<Ok> ImportFiles::Finish() {
  if (!last_path_) return BadArchive(kSpacePath, "it is missing: this is no export of a namespace");
  if (auto ended = EndInstance(); !ended) return In(last_, ended.error());
  return ReadDefinitions();
}

// The documents of what is in force, with their names in full. `places` names where each is from.
Result<Ok> ImportFiles::AddForces(Import* import, std::vector<std::string>* places,
                                  bool candidates) const {
  for (const auto& [name, force] : active_) {
    const std::string& version = candidates ? force.candidate : force.active;
    if (version.empty()) continue;
    const Package& package = *Find(name, version);
    Import::Force added{name, version, candidates ? force.share : 0, {}, {}};
    std::vector<Document> documents;
    added.machines.first = import->sources.machines.size();
    for (const auto& [path, text] : package.texts) {
      Parsed parsed = ParseDefinitions(text, path, zones_);
      for (Machine& one : parsed.definitions) {
        OwnMachine(*package.version, &one);
        import->sources.machines.push_back(std::move(one));
        places->push_back(ArchivePath(name, version) + ": " + path);
      }
      for (Document& one : parsed.documents) {
        OwnDocument(*package.version, &one);
        documents.push_back(std::move(one));
      }
    }
    added.machines.second = import->sources.machines.size();
    added.documents.first = import->sources.documents.size();
    std::ranges::move(documents, std::back_inserter(import->sources.documents));
    added.documents.second = import->sources.documents.size();
    import->forces.push_back(std::move(added));
  }
  return Ok{};
}

Result<Ok> ImportFiles::Compile(const std::shared_ptr<const DefinitionSet>& under, Import* import,
                                Compiled* compiled) const {
  import->settings = settings_;
  import->keys = keys_;
  import->versions = versions_;
  import->groups = groups_;
  import->limits = limits_;
  import->graphs = graphs_;
  import->packages.clear();
  for (const Package& one : packages_) import->packages.push_back(one.package);
  import->sources = {};
  import->forces.clear();
  std::vector<std::string> places;
  for (const auto& file : definitions_) {
    if (file->parsed.definitions.empty()) continue;
    import->sources.machines.push_back(file->parsed.definitions.front());
    places.push_back(file->path);
  }
  import->machines_by_hand = import->sources.machines.size();
  for (const auto& file : definitions_) {
    if (!file->parsed.documents.empty()) {
      import->sources.documents.push_back(file->parsed.documents.front());
    }
  }
  import->documents_by_hand = import->sources.documents.size();
  if (auto added = AddForces(import, &places, /*candidates=*/false); !added) return added;
  *compiled = CompileAll(under, import->sources, {}, now_);
  if (!compiled->Sound()) {
    Error error{Code::kInvalidArgument, Reason::kBadMachine, ""};
    size_t shown = 0;
    for (const auto& [definition, problem] : compiled->problems) {
      if (problem.warning || ++shown > kShownProblems) continue;
      const std::string place = definition < places.size() ? places[definition] : "a document";
      error.message += (error.message.empty() ? "" : "\n") + place + ": " + problem.message;
    }
    return error;
  }
  // A candidate's documents stand in the place of the active version's, and are shown as such.
  const size_t active = import->sources.machines.size();
  if (auto added = AddForces(import, &places, /*candidates=*/true); !added) return added;
  Definitions definitions = under->definitions;
  for (const Machine& machine : import->sources.machines) definitions.Add(machine);
  definitions.Index();
  for (size_t i = active; i < import->sources.machines.size(); ++i) {
    std::vector<PlanProblem> problems;
    compiled->shown.push_back(
        CompileDefinition(import->sources.machines[i], definitions, &problems));
  }
  for (Import::Version& one : import->versions) {
    one.shown = ShownOf(one.row.id, one.row.graph);
    if (one.shown) continue;
    std::vector<PlanProblem> problems;
    one.shown = CompileDefinition(one.machine, definitions, &problems);
  }
  return Ok{};
}

}  // namespace dfsmr
