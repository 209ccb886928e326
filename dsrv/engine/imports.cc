#include "dsrv/engine/imports.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/owners.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/trust.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/when/check.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr const char* kNote = "imported: resume it when the other server has let go of it";

Error IdTaken(const std::string& what) {
  return {
      Code::kFailedPrecondition, Reason::kIdTaken,
      what + "; nothing is imported: import into another namespace (--namespace), or make room"};
}

std::string Called(const Machine& machine) {
  return std::string(KindName(machine.defined_as)) + " " + Quoted(machine.id);
}
std::string Called(const Document& document) {
  return std::string(Name(document.kind())) + " " + Quoted(document.name);
}

}  // namespace

// What stands in the way -------------------------------------------------------------------------

Result<Ok> Imports::CheckPackages(const Import& import, Imported* done) {
  uint64_t bytes = 0;
  const bool there = b_.spaces.StateOf(import.ns) != rows::SpaceState::kNone;
  for (const Import::Package& one : import.packages) {
    auto known = b_.packages.IsThere(one.row);
    if (!known) return known.error();
    const PackageVersionPtr version = KnownOf(one.row).version;
    // A key that was revoked here counts as revoked.
    auto fresh = b_.trust.NewOf(*version, one.signatures);
    if (!fresh) return fresh.error();
    *known ? ++done->already_there : ++done->packages;
    if (*known) continue;
    bytes += one.row.size;
    if (!import.validate_only && !b_.packages.Uploads(import.ns, one.row.upload)) {
      return Error{
          Code::kFailedPrecondition, Reason::kNamespaceDeleting,
          "namespace " + Quoted(import.ns) + " was deleted while the archives came; import again"};
    }
  }
  return there && bytes > 0 ? b_.spaces.MayPut(import.ns, bytes) : Result<Ok>(Ok{});
}

// What is in force here stays so.
Result<Ok> Imports::CheckForces(const Import& import) const {
  const bool there = b_.spaces.StateOf(import.ns) != rows::SpaceState::kNone;
  for (const Import::Force& force : import.forces) {
    const PackageState* state = b_.packages.table().Find(import.ns, force.package);
    const std::string& is = !state            ? force.version
                            : force.share > 0 ? state->force.candidate
                                              : state->force.active;
    if (state && !is.empty() && is != force.version) {
      return IdTaken("version " + is + " of package " + Quoted(force.package) + " is " +
                     (force.share > 0 ? "its candidate" : "active") + " here, not " +
                     force.version);
    }
    if (!there || !b_.spaces.RequiresSignatures(import.ns) || (state && is == force.version)) {
      continue;
    }
    for (const Import::Package& one : import.packages) {
      if (one.row.package != force.package || one.row.version != force.version) continue;
      std::vector<std::string> signers;
      for (const rows::SignatureRow& signature : one.signatures) {
        signers.push_back(signature.fingerprint);
      }
      if (b_.trust.VerdictOf(import.ns, signers) == Verdict::kTrusted) continue;
      return Error{Code::kFailedPrecondition, Reason::kUnsigned,
                   "namespace " + Quoted(import.ns) + " requires signatures, and package " +
                       Quoted(force.package) + " " + force.version +
                       " has none of a key that is trusted there"};
    }
  }
  return Ok{};
}

// A version keeps its number, because instances name it.
Result<Ok> Imports::CheckVersions(const Import& import) const {
  for (const Import::Version& one : import.versions) {
    const MachineState* const known = b_.catalog.Find(import.ns, one.row.id);
    if (!known || known->versions.empty()) continue;
    const auto& versions = known->versions;
    const auto same = versions.find(one.row.version);
    const auto of_package = [&](const MachineVersion& version) {
      return version.package ? version.package->package == one.row.package &&
                                   version.package->version == one.row.package_version
                             : one.row.package.empty();
    };
    // One that stands for a later one may come as of the package whose programs it has.
    const bool there =
        same != versions.end() &&
        same->second.definition->machine.fingerprint == one.machine.fingerprint &&
        (of_package(*same->second.definition) || of_package(*same->second.Now().definition));
    if (there) continue;
    return IdTaken(Called(one.machine) + " is defined here, and its version " +
                   std::to_string(one.row.version) +
                   " is not the one that instances run on which come");
  }
  return Ok{};
}

Result<Ok> Imports::CheckDefinitions(const Import& import, Imported* done) {
  for (size_t i = 0; i < import.machines_by_hand; ++i) {
    const Machine& machine = import.sources.machines[i];
    if (const PackageVersionPtr owner = b_.catalog.OwnerOf(import.ns, machine.id)) {
      return IdTaken(Called(machine) + " belongs here to package " + Quoted(owner->package));
    }
    const MachineState* const known = b_.catalog.Find(import.ns, machine.id);
    const bool stands = known && known->Stands();
    if (!stands) {
      ++done->definitions;
    } else if (b_.catalog.Preview(import.ns, machine).changed) {
      return IdTaken(Called(machine) + " is defined here with other content");
    } else {
      ++done->already_there;
    }
  }
  return CheckDocuments(import, done);
}

Result<Ok> Imports::CheckDocuments(const Import& import, Imported* done) {
  for (size_t i = 0; i < import.documents_by_hand; ++i) {
    const Document& document = import.sources.documents[i];
    const rows::DocumentName name{import.ns, document.kind(), document.name};
    auto owner = b_.documents.OwnerOf(name);
    if (!owner) return owner.error();
    if (!owner->empty()) {
      return IdTaken(Called(document) + " belongs here to package " + Quoted(*owner));
    }
    auto stands = b_.documents.Stands(name);
    auto one = b_.documents.Preview(import.ns, document);
    if (!stands || !one) return stands ? one.error() : stands.error();
    if (*stands && one->changed) {
      return IdTaken(Called(document) + " is defined here with other content");
    }
    *stands ? ++done->already_there : ++done->definitions;
  }
  return Ok{};
}

// Nothing here has what only one document can have: the path of a webhook, the key of a limit.
Result<Ok> Imports::CheckSole(const Import& import) const {
  std::vector<Document> coming(
      import.sources.documents.begin(),
      import.sources.documents.begin() + static_cast<ptrdiff_t>(import.documents_by_hand));
  for (const Import::Force& force : import.forces) {
    if (force.share > 0) continue;  // a candidate's are not defined
    for (size_t i = force.documents.first; i < force.documents.second; ++i) {
      coming.push_back(import.sources.documents[i]);
    }
  }
  const auto clashes =
      CheckOwners(coming, OwnersBeside(import.ns, coming, b_.triggers, b_.limits));
  if (clashes.empty()) return Ok{};
  const DocumentProblem& first = clashes.front();
  return IdTaken(Called(coming[first.document]) + ": " + first.problem.message);
}

// What packages bring is free here, or theirs.
Result<Ok> Imports::CheckOwned(const Import& import) {
  uint64_t fresh = 0;
  for (const Import::Force& force : import.forces) {
    for (size_t i = force.machines.first; i < force.machines.second; ++i) {
      const Machine& machine = import.sources.machines[i];
      const MachineState* const known = b_.catalog.Find(import.ns, machine.id);
      const bool stands = known && known->Stands();
      const PackageVersionPtr owner = b_.catalog.OwnerOf(import.ns, machine.id);
      if (stands && (!owner || owner->package != force.package)) {
        return IdTaken(Called(machine) + " is defined here by hand");
      }
      if (!stands) ++fresh;
    }
    for (size_t i = force.documents.first; i < force.documents.second; ++i) {
      const Document& document = import.sources.documents[i];
      const rows::DocumentName name{import.ns, document.kind(), document.name};
      auto stands = b_.documents.Stands(name);
      auto owner = b_.documents.OwnerOf(name);
      if (!stands || !owner) return stands ? owner.error() : stands.error();
      if (*stands && *owner != force.package) {
        return IdTaken(Called(document) + " is defined here by hand");
      }
      if (!*stands) ++fresh;
    }
  }
  for (size_t i = 0; i < import.machines_by_hand; ++i) {
    const MachineState* const known = b_.catalog.Find(import.ns, import.sources.machines[i].id);
    if (!known || !known->Stands()) ++fresh;
  }
  const bool there = b_.spaces.StateOf(import.ns) != rows::SpaceState::kNone;
  return there ? b_.spaces.MayDefine(import.ns, fresh) : Result<Ok>(Ok{});
}

// What is done -----------------------------------------------------------------------------------

void Imports::Make(const Import& import) {
  (void)b_.spaces.Create(import.ns, import.settings, import.by);
  for (const rows::TrustedKeyRow& key : import.keys) {
    (void)b_.trust.Add(import.ns, key);
    if (key.Revoked()) (void)b_.trust.Revoke(import.ns, key.fingerprint);
  }
}

// Nothing can refuse it any more: it was asked before, and what a namespace that is made here says
// of its quotas was true of all of it elsewhere.
void Imports::AddPackage(Import::Package* package) {
  auto there = b_.packages.IsThere(package->row);
  auto fresh = b_.trust.NewOf(*KnownOf(package->row).version, package->signatures);
  if (!there || !fresh) return;
  if (*there) {
    (void)b_.packages.Finish(package->row, std::move(package->signatures));
  } else {
    b_.packages.Accept(package->row, *std::move(fresh));
  }
}

void Imports::AddVersions(Import* import) {
  for (Import::Version& one : import->versions) {
    if (b_.catalog.VersionOf(import->ns, one.row.id, one.row.version)) continue;
    MachineVersion version{import->ns, one.row.version, std::move(one.machine), b_.turn.now()};
    if (!one.row.package.empty()) {
      version.package =
          b_.packages.table().Version(import->ns, one.row.package, one.row.package_version);
      version.candidate = one.row.candidate;
      version.core = CoreOf(version.machine);
    }
    const bool retired = one.row.retired && version.package;
    b_.packages.AddVersion(std::move(version), std::move(one.shown));
    if (retired) b_.packages.Retire(import->ns, one.row.id);
  }
}

void Imports::AddDefinitions(Import* import, const Compiled& compiled, Imported*) {
  for (size_t i = 0; i < import->machines_by_hand; ++i) {
    Machine& machine = import->sources.machines[i];
    const Defined one = b_.catalog.Preview(import->ns, machine);
    if (!one.changed) continue;
    b_.packages.AddVersion({import->ns, one.version, std::move(machine), b_.turn.now()},
                           compiled.shown[i]);
  }
  for (size_t i = 0; i < import->documents_by_hand; ++i) {
    AddDocument(*import, std::move(import->sources.documents[i]), nullptr);
  }
}

// A schedule is paused: nobody wants it to run on two servers.
void Imports::AddDocument(const Import& import, Document document,
                          const PackageVersionPtr& package) {
  auto one = b_.documents.Preview(import.ns, document);
  if (!one || !one->changed) return;
  const bool schedule = document.kind() == DocumentKind::kSchedule;
  b_.documents.Add(import.ns, *one, std::move(document), package);
  if (schedule) (void)b_.schedules.SetPaused(import.ns, one->id, true, kNote, import.by);
}

void Imports::PutInForce(Import* import, const Import::Force& force, const Compiled& compiled) {
  const PackageState* state = b_.packages.table().Find(import->ns, force.package);
  const std::string& is = force.share > 0 ? state->force.candidate : state->force.active;
  if (is == force.version) return;
  const PackageVersionPtr version =
      b_.packages.table().Version(import->ns, force.package, force.version);
  for (size_t i = force.machines.first; i < force.machines.second; ++i) {
    Machine& machine = import->sources.machines[i];
    if (b_.catalog.OwnVersion(*version, machine.id)) continue;  // instances run on it
    const auto& all = b_.catalog.StateOf(import->ns, machine.id).versions;
    MachineVersion added{.ns = import->ns,
                         .version = all.empty() ? 1 : all.rbegin()->first + 1,
                         .machine = std::move(machine),
                         .define_time = b_.turn.now()};
    added.package = version;
    added.candidate = force.share > 0;
    added.core = CoreOf(added.machine);
    b_.packages.AddVersion(std::move(added), compiled.shown[i]);
  }
  rows::DefinedAs defined;
  for (size_t i = force.documents.first; i < force.documents.second; ++i) {
    Document& document = import->sources.documents[i];
    const std::string name = std::string(Name(document.kind())) + ":" + document.name;
    if (auto one = b_.documents.Preview(import->ns, document)) defined[name] = one->version;
    if (force.share == 0) AddDocument(*import, std::move(document), version);
  }
  b_.packages.PutInForce(import->ns, version, force.share, defined, import->by);
}

std::optional<Result<Imported>> Imports::Bring(Import* import, const Compiled& compiled) {
  if (compiled.under != b_.catalog.DefinitionsOf(import->ns)) return std::nullopt;
  Imported done;
  done.made = b_.spaces.StateOf(import->ns) == rows::SpaceState::kNone;
  const auto refuse = [&]() -> std::optional<Error> {
    if (auto may = b_.spaces.MayUse(import->ns); !may) return may.error();
    if (auto full = b_.turn.NeedsRoom(Room::kAmple)) return full;
    if (auto free = CheckPackages(*import, &done); !free) return free.error();
    if (auto free = CheckForces(*import); !free) return free.error();
    if (auto free = CheckVersions(*import); !free) return free.error();
    if (auto free = CheckDefinitions(*import, &done); !free) return free.error();
    if (auto free = CheckSole(*import); !free) return free.error();
    if (auto free = CheckOwned(*import); !free) return free.error();
    return std::nullopt;
  };
  if (auto refused = refuse()) return Result<Imported>(*std::move(refused));
  if (import->validate_only) return Result<Imported>(done);
  if (done.made) Make(*import);
  for (Import::Package& one : import->packages) AddPackage(&one);
  AddVersions(import);
  AddDefinitions(import, compiled, &done);
  for (const Import::Force& force : import->forces) PutInForce(import, force, compiled);
  for (const auto& [key, row] : import->limits) b_.limits.Import(import->ns, key, row);
  for (const auto& [name, row] : import->groups) b_.groups.Import(import->ns, name, row);
  for (const rows::CarriedRow& graph : import->graphs) {
    rows::PutCarried(b_.turn.writer(), import->ns, graph);
  }
  if (!import->packages.empty()) b_.trust.Changed(import->ns);
  return Result<Imported>(done);
}

// Instances --------------------------------------------------------------------------------------

Result<bool> Imports::IsThere(const std::string& ns, const std::string& id,
                              const CarriedInstance& rows) {
  auto known = b_.residents.FirstSeqOf(ns, id);
  if (!known) return known.error();
  if (!*known) return false;
  auto resident = b_.residents.Load(ns, id);
  if (!resident) return resident.error();
  auto spec = b_.residents.SpecOf(**resident);
  if (!spec) return spec.error();
  auto given = rows::StartIn(rows);
  if (!given) return given.error();
  const Instance& instance = (*resident)->instance;
  const bool same =
      instance.machine == given->machine && json::Same((*spec)->params, given->params);
  if (same) return true;
  return Error{Code::kFailedPrecondition, Reason::kIdTaken,
               "instance " + Quoted(id) + " is another one here, of machine " +
                   Quoted(instance.machine) + "; import into another namespace (--namespace)"};
}

// Whoever has them in hand reports to another server: what may be done twice is ready again, and
// the rest waits for somebody who knows what became of it.
void Imports::VoidClaims(Instance* instance, const Machine& machine) const {
  const auto forget = [this](Token& token) {
    token.claims.clear();
    token.late.reset();
    // Claims of the other server look like ours.
    token.forgotten_epoch = b_.turn.epoch();
  };
  Tokens& tokens = instance->tokens;
  for (size_t slot = 0; slot < tokens.size(); ++slot) {
    Token& token = tokens.Mutable(slot);
    forget(token);
    const bool again =
        token.state == TokenState::kClaimed && !machine.nodes[token.node].AtMostOnce();
    if (again) token.state = TokenState::kReady;
  }
  std::vector<uint64_t> left;
  for (const auto& [key, token] : tokens.left()) left.push_back(token.visit);
  for (uint64_t visit : left) forget(*tokens.LeftOf(visit));
  instance->last_answer.reset();
}

struct Imports::Read {
  Instance instance;
  Spec spec;
  VersionState* version = nullptr;
  GraphPtr graph;
};

// What instances share was brought to home.
Result<Ok> Imports::FetchGraph(const std::string& ns, const std::string& name) {
  if (b_.turn.at_home()) return Ok{};
  auto known = rows::GetSharedGraph(b_.turn.reader(), ns, name);
  if (!known || *known) return known ? Result<Ok>(Ok{}) : known.error();
  auto brought = rows::GetSharedGraph(b_.turn.home(), ns, name);
  if (!brought) return brought.error();
  if (*brought) {
    rows::PutCarried(b_.turn.writer(), ns, rows::GraphCarried(name, **brought));
  }
  return Ok{};
}

// As if it had lain here.
Result<Imports::Read> Imports::ReadOne(const std::string& ns, const std::string& id,
                                       const GraphNames& graphs) {
  auto instance = rows::GetInstance(b_.turn.reader(), {ns, id}, b_.catalog.resolve());
  if (!instance) return instance.error();
  auto spec = rows::GetSpec(b_.turn.reader(), {ns, id});
  if (!spec) return spec.error();
  if (instance->plan && graphs.contains(instance->plan->graph)) {
    instance->plan->graph = graphs.at(instance->plan->graph);
    if (auto there = FetchGraph(ns, instance->plan->graph); !there) return there.error();
  }
  VersionState* version = b_.catalog.VersionFor(*instance);
  auto graph = b_.catalog.LoadGraph(*instance, *version);
  if (!graph) return graph.error();
  return Read{*std::move(instance), *std::move(spec), version, *std::move(graph)};
}

void Imports::Load(Resident& resident, const std::string& by) {
  const Instance& instance = resident.instance;
  std::vector<Event> events(1);
  Event& event = events.front();
  event.kind = ChangeKind::kImported;
  event.time = b_.turn.now();
  event.ns = instance.ns;
  event.instance = instance.id;
  event.machine = instance.machine;
  event.version = instance.version;
  event.client = by;
  if (const auto& package = resident.version->Now().definition->package) {
    event.package = Event::Package{package->package, package->version, package->digest};
  }
  b_.residents.Stage(resident, events);
  const bool counts = !instance.dry_run;
  if (counts) Statistics::CountState(*resident.version, instance.state, +1);
  if (!counts) Statistics::CountDryRun(*resident.version, instance.state, +1);
  for (const Token& token : instance.tokens) {
    if (counts) Statistics::CountToken(*resident.graph, token, +1);
  }
  for (Part* part : b_.parts) part->Load(resident);
}

Result<bool> Imports::RestoreOne(const std::string& ns, const std::string& by,
                                 const GraphNames& graphs, const CarriedInstance& rows) {
  const std::string id(rows.front().Name());
  auto there = IsThere(ns, id, rows);
  if (!there || *there) return there ? Result<bool>(false) : there.error();
  b_.turn.NextChange();
  // What is another here is written anew at the end of the turn.
  for (const rows::CarriedRow& row : rows) rows::PutCarried(b_.turn.writer(), ns, row);
  auto read = ReadOne(ns, id, graphs);
  if (!read) {
    for (const rows::CarriedRow& row : rows) rows::DropCarried(b_.turn.writer(), ns, row);
    if (read.error().code == Code::kUnavailable) b_.turn.Trust(read);
    return read.error();
  }
  VoidClaims(&read->instance, *read->graph->machine);
  read->instance.history.clear();
  read->instance.bare = false;
  const uint64_t order = b_.turn.last_seq() + 1;
  if (read->instance.limits) {
    read->instance.limits->order = std::min(read->instance.limits->order, order);
  }
  read->spec.first_seq = order;
  read->spec.born_after = b_.turn.LastClaim();
  Resident& resident =
      *b_.residents.Insert(std::move(read->instance), read->version, std::move(read->graph));
  resident.spec = std::make_shared<const Spec>(std::move(read->spec));
  resident.created = true;
  resident.instance.tokens.Forget();
  Load(resident, by);
  return true;
}

Result<Imported> Imports::Restore(const std::string& ns, const std::string& by,
                                  const GraphNames& graphs,
                                  const std::vector<CarriedInstance>& instances) {
  if (auto may = b_.spaces.MayUse(ns); !may) return may.error();
  if (auto full = b_.turn.NeedsRoom(Room::kAmple)) return *std::move(full);
  Imported done;
  for (const CarriedInstance& rows : instances) {
    auto came = RestoreOne(ns, by, graphs, rows);
    if (!came) return came.error();
    *came ? ++done.instances : ++done.already_there;
    if (b_.options.partitions == 1) continue;
    auto resident = b_.residents.Load(ns, std::string(rows.front().Name()));
    done.follows = done.follows || (resident && !ElsewhereOf((*resident)->instance).empty());
  }
  return done;
}

std::vector<std::string> Imports::ElsewhereOf(const Instance& instance) const {
  std::vector<std::string> ids;
  if (instance.Stopped()) return ids;
  for (const Instance::Prerequisite& one : instance.after) {
    if (!b_.options.Has(instance.ns, one.instance)) ids.push_back(one.instance);
  }
  return ids;
}

Result<Imported> Imports::Follow(const std::string& ns,
                                 const std::vector<CarriedInstance>& instances) {
  for (const CarriedInstance& rows : instances) {
    auto resident = b_.residents.Load(ns, std::string(rows.front().Name()));
    if (!resident) continue;
    for (const std::string& id : ElsewhereOf((*resident)->instance)) {
      b_.followers.Add((*resident)->instance, id);
    }
  }
  return Imported{};
}

Result<Ok> Imports::RestoreGroups(const std::string& ns,
                                  const std::map<std::string, rows::GroupRow>& groups) {
  if (auto may = b_.spaces.MayUse(ns); !may) return may.error();
  for (const auto& [name, row] : groups) b_.groups.Import(ns, name, row);
  return Ok{};
}

}  // namespace dfsmr
