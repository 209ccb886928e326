#include "dsrv/calls/export.h"

#include <algorithm>

#include "dsrv/calls/put_package.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/namespaces.h"
#include "fsm/base/names.h"
#include "fsm/package/export_path.h"
#include "fsm/plan/assemble.h"
#include "storage/rows/carried.h"
#include "storage/rows/document.h"
#include "storage/rows/graph.h"
#include "storage/rows/secret.h"
#include "storage/rows/trust.h"

namespace dfsmr {
namespace {

constexpr size_t kItemBytes = 1 << 20;
constexpr size_t kRowsOfFile = 1'000;        // instances
constexpr size_t kRowsFileBytes = 8u << 20;  // it ends with the instance that comes to more
constexpr size_t kAheadLeast = 16;           // instances of a partition that are read at once

Error NotFrozen(const std::string& why) {
  return {Code::kFailedPrecondition, Reason::kNotFrozen, why};
}

std::vector<std::pair<std::string, std::string>> VersionsOf(const Packages& packages,
                                                            const ExportArgs& args) {
  std::vector<std::pair<std::string, std::string>> versions;
  const auto& all = packages.table().all();
  for (auto it = all.lower_bound({args.ns, ""}); it != all.end() && it->first.first == args.ns;
       ++it) {
    for (const auto& [version, known] : it->second.versions) {
      if (known.removed) continue;
      const bool used = packages.StandingOf(*known.version).state != PackageStanding::State::kIdle;
      if (used || args.all_versions) versions.emplace_back(it->first.second, version);
    }
  }
  return versions;
}

}  // namespace

Result<ExportStanding> StandingForExport(Engine& engine, const ExportArgs& args) {
  if (auto may = engine.MayChange(args.ns); !may) return may.error();
  auto view = engine.namespaces().Get(args.ns);
  if (!view) return view.error();
  ExportStanding standing;
  if (args.instances && view->row.state != rows::SpaceState::kFrozen) {
    return NotFrozen(
        "instances are exported of a frozen namespace only, because they go on: dcli "
        "namespace freeze " +
        args.ns + " --wait");
  }
  if (args.instances) {
    if (auto settled = engine.Settle(args.ns, ""); !settled) return settled.error();
    standing.used = engine.packages().InUse(args.ns);
  }
  v1::Namespace shown;
  ToProto(*view, &shown);
  standing.space.name = args.ns;
  standing.space.settings = shown.settings();
  for (const rows::TrustedKeyRow& key : engine.packages().trust().KeysOf(args.ns)) {
    standing.space.keys.push_back({key.name, key.public_key, key.Revoked()});
  }
  standing.versions = VersionsOf(engine.packages(), args);
  return standing;
}

Result<Ok> Export::Begin() {
  if (args_.instances) {
    if (auto looked = LookAtInstances(); !looked) return looked;
  }
  if (auto added = AddSpace(); !added) return added;
  if (auto added = AddDefinitions(); !added) return added;
  return AddPackages();
}

void Export::AddText(std::string path, std::string text) {
  size_t at = 0;
  files_.emplace_back(std::move(path),
                      [text = std::move(text), at]() mutable -> Result<std::optional<std::string>> {
                        std::optional<std::string> piece;
                        if (at < text.size()) piece = text.substr(at, kItemBytes);
                        at += kItemBytes;
                        return piece;
                      });
}

Result<Ok> Export::AddSpace() {
  auto secrets = rows::SecretsOf(moment_.rows, args_.ns);
  if (!secrets) return secrets.error();
  for (const rows::SecretRow& row : *secrets) {
    if (!row.versions.empty()) standing_.space.secrets.push_back(row.name);
  }
  AddText(std::string(kSpacePath), ToYaml(standing_.space));
  return Ok{};
}

// What was defined by hand, as it stands.
Result<Ok> Export::AddDefinitions() {
  std::map<std::string, std::string> texts;  // by path
  std::map<std::string, rows::MachineRow> latest;
  auto scanned = rows::ScanMachinesOf(moment_.rows, args_.ns, [&](rows::MachineRow row) {
    const std::string id = row.id;
    if (!row.candidate) latest[id] = std::move(row);
  });
  if (!scanned) return scanned;
  for (auto& [id, row] : latest) {
    if (row.retired || !row.package.empty()) continue;
    const MachineVersionPtr known = moment_.registry.Find(args_.ns, id, row.version);
    if (!known) continue;  // its namespace was deleted just now
    texts[DefinitionPath(KindName(known->machine.defined_as), id)] = std::move(row.source);
  }
  for (DocumentKind kind : kDocumentKinds) {
    std::vector<std::pair<std::string, uint32_t>> standing;
    scanned = rows::ScanDocuments(moment_.rows, args_.ns, kind, "",
                                  [&](std::string_view name, const rows::DocumentHead& head) {
                                    const bool by_hand = !head.deleted && head.package.empty();
                                    if (by_hand) standing.emplace_back(name, head.version);
                                    return true;
                                  });
    if (!scanned) return scanned;
    for (const auto& [name, version] : standing) {
      auto text = rows::GetDocumentText(moment_.rows, {args_.ns, kind, name}, version);
      if (!text) return text.error();
      if (*text) texts[DefinitionPath(Name(kind), name)] = (*text)->source;
    }
  }
  for (auto& [path, text] : texts) AddText(path, std::move(text));
  return Ok{};
}

Result<Ok> Export::AddPackage(const rows::PackageVersionRow& row) {
  uint64_t at = 0;
  uint32_t number = 0;
  files_.emplace_back(ArchivePath(row.package, row.version),
                      [this, row, at, number]() mutable -> Result<std::optional<std::string>> {
                        std::optional<std::string> piece;
                        if (at >= row.size) return piece;
                        auto read = rows::GetPiece(moment_.rows, row.ns, row.upload, number++);
                        if (!read) return read.error();
                        if (!*read || (*read)->empty()) {
                          return Error{
                              Code::kDataLoss, Reason::kStoreFailed,
                              "the store misses a piece of " + row.package + " " + row.version};
                        }
                        at += (*read)->size();
                        return std::move(*read);
                      });
  auto signatures = rows::GetSignatures(moment_.rows, row.ns, row.package, row.version);
  if (!signatures) return signatures.error();
  if (signatures->empty()) return Ok{};
  std::vector<std::string> texts;
  for (const rows::SignatureRow& one : *signatures) {
    texts.push_back(one.text + (one.text.ends_with('\n') ? "" : "\n"));
  }
  std::ranges::sort(texts);  // whatever the order in which they came
  std::string all;
  for (const std::string& text : texts) all += text;
  AddText(SignaturePath(row.package, row.version), std::move(all));
  return Ok{};
}

Result<Ok> Export::AddPackages() {
  std::vector<rows::PackageVersionRow> rows;
  for (const auto& [package, version] : standing_.versions) {
    auto row = rows::GetPackageVersion(moment_.rows, args_.ns, package, version);
    if (!row) return row.error();
    if (*row && !(*row)->removed) rows.push_back(**std::move(row));
  }
  std::ranges::sort(
      rows, {}, [](const rows::PackageVersionRow& row) { return row.package + "-" + row.version; });
  ActiveFile active;
  for (const rows::PackageVersionRow& row : rows) {
    if (auto added = AddPackage(row); !added) return added;
  }
  auto scanned = rows::ScanPackages(moment_.rows, [&](std::string_view ns, std::string_view package,
                                                      const rows::PackageRow& row) {
    if (ns != args_.ns || row.active.empty()) return;
    active[std::string(package)] = {row.active, row.candidate, row.share};
  });
  if (!scanned) return scanned;
  std::erase_if(active, [&](const auto& one) {  // removed just now
    return std::ranges::none_of(rows, [&](const rows::PackageVersionRow& row) {
      return row.package == one.first && row.version == one.second.active;
    });
  });
  if (!active.empty()) AddText(std::string(kActivePath), ToYaml(active));
  return Ok{};
}

// Instances -------------------------------------------------------------------------------------

// A worker's claim of work that may be repeated is void where the instance goes on, so two workers
// would do it.
Result<Ok> Export::CheckClaims(const rows::Reader& rows, const Instance& instance) {
  if (!instance.HasLiveClaim()) return Ok{};
  Machine assembled;
  const Machine* machine = nullptr;
  if (instance.plan) {
    auto graph = rows::GetGraph(rows, instance);
    if (!graph) return graph.error();
    assembled = Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), {.id = "plan"});
    machine = &assembled;
  } else {
    machine = moment_.resolve(instance.ns, instance.machine, instance.version);
  }
  for (const Token& token : instance.tokens) {
    if (!token.HasLiveClaim()) continue;
    if (machine && token.node < machine->nodes.size() && machine->nodes[token.node].AtMostOnce()) {
      continue;
    }
    return NotFrozen(
        "instance " + Quoted(instance.id) + " is claimed by " + Quoted(token.claims.back().worker) +
        ": wait until nothing is claimed any more: dcli namespace freeze " + args_.ns + " --wait");
  }
  return Ok{};
}

// Each partition has a row of it; where they are not the same, some of the instances would go on
// with another one.
Result<Ok> Export::AddGraph(PartitionId partition, const std::string& graph) {
  const auto [known, added] = graphs_.emplace(graph, partition);
  if (added || known->second == partition) return Ok{};
  auto there = rows::GetSharedGraph(RowsOf(known->second), args_.ns, graph);
  auto here = rows::GetSharedGraph(RowsOf(partition), args_.ns, graph);
  if (!there || !here) return there ? here.error() : there.error();
  if (*there == *here) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kNone,
               "the plan " + Quoted(graph) + " is another one in partitions " +
                   std::to_string(known->second) + " and " + std::to_string(partition) +
                   ": let the instances of one of them stop"};
}

Result<Ok> Export::LookAtInstances(PartitionId partition) {
  const rows::Reader rows = RowsOf(partition);
  Result<Ok> outcome = Ok{};
  auto scanned = rows::ScanInstances(
      rows, /*stopped=*/false, {args_.ns, ""}, moment_.resolve, [&](Instance instance) {
        any_ = true;
        if (instance.version > 0) {
          const auto [it, added] = lowest_.emplace(instance.machine, instance.version);
          if (!added) it->second = std::min(it->second, instance.version);
        }
        if (instance.plan && !instance.plan->graph.empty() && !instance.plan->OwnsGraph()) {
          outcome = AddGraph(partition, instance.plan->graph);
        }
        if (instance.provenance && !instance.provenance->group.empty()) {
          groups_.insert(instance.provenance->group);
        }
        if (outcome) outcome = CheckClaims(rows, instance);
        return outcome.has_value();
      });
  return scanned ? outcome : scanned;
}

Result<Ok> Export::LookAtInstances() {
  for (PartitionId partition = 0; partition < args_.partitions; ++partition) {
    if (auto looked = LookAtInstances(partition); !looked) return looked;
    sources_.push_back({partition, {}});
  }
  for (const auto& [machine, version] : standing_.used.owned) {
    const auto [it, added] = lowest_.emplace(machine, version);
    if (!added) it->second = std::min(it->second, version);
  }
  // With the version that the name means, which moves the others as it did here.
  std::map<std::string, uint32_t> current;
  auto scanned = rows::ScanMachinesOf(moment_.rows, args_.ns, [&](const rows::MachineRow& row) {
    if (!row.candidate) current[row.id] = row.version;
  });
  for (auto& [machine, from] : lowest_) {
    if (current.contains(machine)) from = std::min(from, current[machine]);
  }
  return scanned;
}

// nullopt: the version is of a package version that does not go along, and nothing runs on it. One
// that stands for a later one goes as of the package whose programs it has.
Result<std::optional<rows::CarriedRow>> Export::VersionToCarry(const rows::CarriedRow& row) const {
  auto version = rows::VersionIn(args_.ns, row);
  if (!version) return version.error();
  if (version->package.empty()) return std::optional(row);
  const auto goes = [&](const std::string& of) {
    return std::ranges::find(standing_.versions, std::pair(version->package, of)) !=
           standing_.versions.end();
  };
  if (goes(version->package_version)) return std::optional(row);
  const auto& programs = standing_.used.programs;
  const auto now = programs.find({version->id, version->version});
  if (now == programs.end() || !goes(now->second)) return std::optional<rows::CarriedRow>();
  auto moved = rows::OfPackageVersion(row, now->second);
  if (!moved) return moved.error();
  return std::optional(*std::move(moved));
}

// What instances share.
Result<Ok> Export::FillCommonRows() {
  const auto add = [this](const rows::CarriedRow& row) { rows_ += rows::CarriedText(row); };
  Result<Ok> done = Ok{};
  for (const auto& [machine, from] : lowest_) {
    const auto goes = [&](const rows::CarriedRow& row) {
      auto version = VersionToCarry(row);
      if (!version) done = version.error();
      if (version && *version) add(**version);
    };
    auto carried = rows::CarryVersions(moment_.rows, args_.ns, machine, from, goes);
    if (!carried || !done) return carried ? done : carried;
  }
  for (const auto& [graph, partition] : graphs_) {
    if (auto carried = rows::CarryGraph(RowsOf(partition), args_.ns, graph, add); !carried) {
      return carried;
    }
  }
  for (const std::string& group : groups_) {
    auto carried = rows::CarryGroup(RowsOf(kHome), args_.ns, group, add);
    if (!carried) return carried;
  }
  if (auto carried = rows::CarryLimits(RowsOf(kHome), args_.ns, add); !carried) return carried;
  return done;
}

Result<Ok> Export::ReadAhead(Source& source) {
  if (source.over || !source.ahead.empty()) return Ok{};
  const size_t most = std::max(kRowsOfFile / args_.partitions, kAheadLeast);
  auto scanned = rows::ScanInstances(
      RowsOf(source.partition), /*stopped=*/false, {args_.ns, source.last}, moment_.resolve,
      [&](Instance instance) {
        source.ahead.push_back(std::move(instance));
        return source.ahead.size() < most;
      },
      {.tokens = false});
  source.over = source.ahead.empty();
  if (!source.over) source.last = source.ahead.back().id;
  return scanned;
}

Result<Export::Source*> Export::NextSource() {
  Source* next = nullptr;
  for (Source& source : sources_) {
    if (auto read = ReadAhead(source); !read) return read.error();
    if (source.over) continue;
    if (!next || source.ahead.front().id < next->ahead.front().id) next = &source;
  }
  return next;
}

// The next file of rows; empty: there is none.
Result<Ok> Export::FillRows() {
  rows_.clear();
  rows_at_ = 0;
  if (!any_ || instances_over_) return Ok{};
  rows_ = rows::CarriedHead();
  if (++rows_files_ == 1) return FillCommonRows();
  size_t count = 0;
  const auto add = [this](const rows::CarriedRow& row) { rows_ += rows::CarriedText(row); };
  for (; count < kRowsOfFile && rows_.size() < kRowsFileBytes; ++count) {
    auto source = NextSource();
    if (!source) return source.error();
    if (!*source) break;
    const Instance instance = std::move((*source)->ahead.front());
    (*source)->ahead.pop_front();
    const rows::Reader rows = RowsOf((*source)->partition);
    if (auto carried = rows::CarryInstance(rows, instance, instance.bare, add); !carried) {
      return carried;
    }
  }
  if (count == 0) rows_.clear();
  instances_over_ = count == 0;
  return Ok{};
}

Result<v1::ExportItem> Export::Next() {
  v1::ExportItem item;
  while (!files_.empty()) {
    auto& [path, pieces] = files_.front();
    auto piece = pieces();
    if (!piece) return piece.error();
    if (*piece || first_) {
      first_ = false;
      item.set_path(path);
      if (*piece) item.set_data(**std::move(piece));
      return item;
    }
    files_.pop_front();
    first_ = true;
  }
  if (rows_at_ == rows_.size()) {
    if (auto filled = FillRows(); !filled) return filled.error();
  }
  if (rows_.empty()) {
    item.set_end(true);
    return item;
  }
  item.set_path(RowsPath(rows_files_));
  item.set_data(rows_.substr(rows_at_, kItemBytes));
  rows_at_ += item.data().size();
  return item;
}

}  // namespace dfsmr
