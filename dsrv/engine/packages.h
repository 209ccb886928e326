// Packages: versions that were put, the one that is active, and the candidate beside it.
//
// A package's documents are defined as P.NAME, as machines and documents like any other. What is
// different about them hangs on three things:
//  - A machine version knows the package version that it belongs to (MachineVersion::package). So
//  an
//    instance is pinned to programs by the machine version that it is pinned to anyway, and nothing
//    is stored per instance. What its plan, its children and its hooks name is looked up in that
//    package version (Catalog::VersionMeantBy, DefinitionsOf).
//  - A name means one version of a machine (MachineState::current), which is the latest unless that
//    is a candidate's, or none once it is retired. A start by name is one look at it, in the turn
//    in which it is decided: so it is on the old version or on the new one.
//  - When a document is the same in the next version, and its strategy is not to go on with the old
//    programs, then the versions before it stand for the new one (VersionState::stands_for):
//    instances keep the number of their version in memory and in their row until they stop, and
//    whoever looks at them from outside sees the new one. So that costs nothing per instance.
//
// Activations are all or none in one commit: what is compiled is a value, made beside the engine;
// what is decided here is checked first and applied then, and cannot fail in between.
//
// An archive rests in pieces, under the number of its upload; the row that shows the version is
// written last. Pieces of an upload that no version names are dropped when the engine opens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/compile.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/engine/types.h"
#include "storage/rows/machine.h"
#include "storage/rows/trust.h"

namespace dfsmr {

class Packages {
 public:
  struct Below {
    OpenTurn& turn;
    PackageTable& table;
    Catalog& catalog;
    Documents& documents;
    Statistics& statistics;
    Upgrades& upgrades;
    Limits& limits;
    Triggers& triggers;
    Spaces& spaces;
    Trust& trust;
    Agenda& agenda;
    const EngineOptions& options;
  };
  explicit Packages(const Below& below) : below_(below) {}
  Packages(const Packages&) = delete;
  Packages& operator=(const Packages&) = delete;

  // At start, when machines are there.
  Result<Ok> Recover();
  // In each pass: drops what is left of uploads that broke.
  void Work();
  // Forgets those of a namespace that goes. Uploads into it end with NAMESPACE_DELETING.
  void Forget(const std::string& ns);

  // The registry. NO_SUCH_PACKAGE.
  //
  // The version by its text or digest; empty: the active one.
  Result<PackageState::Known> Find(const std::string& ns, const std::string& package,
                                   const std::string& version) const;
  // The version with these bytes; null: there is none.
  const PackageState::Known* WithDigest(const std::string& ns, const std::string& digest) const;
  PackageStanding StandingOf(const PackageVersion& version) const;
  VersionsInUse InUse(const std::string& ns) const;
  const PackageTable& table() const { return below_.table; }
  Trust& trust() { return below_.trust; }
  const Trust& trust() const { return below_.trust; }

  // Whether an archive of so many bytes may come: NO_SUCH_NAMESPACE, NAMESPACE_DELETING,
  // QUOTA_EXCEEDED.
  Result<Ok> MayPut(const std::string& ns, uint64_t bytes) const;
  // Whether the disk has room for so many bytes, besides those that are to come of uploads under
  // way: DISK_FULL.
  Result<Ok> HasRoom(uint64_t bytes) const;
  // `spare` says how many bytes of rows may come before room is scarce; nullopt: any number, which
  // is also the case as long as nobody says.
  using SpareRoom = std::function<std::optional<uint64_t>()>;
  void LookForRoom(SpareRoom spare) { spare_ = std::move(spare); }
  // Puts. Pieces and texts first, in turns of their own, then the version. What was begun is
  // finished or abandoned. `bytes`: how many will come, where that is known.
  rows::UploadId BeginUpload(const std::string& ns, uint64_t bytes = 0);
  // DISK_FULL: it was not written, since something else has taken the room meanwhile.
  Result<Ok> PutPiece(const std::string& ns, rows::UploadId upload, uint32_t number,
                      std::string bytes);
  void PutText(const std::string& ns, rows::UploadId upload, const std::string& path,
               std::string text);
  void Abandon(const std::string& ns, rows::UploadId upload);
  // Whether the version may be put: VERSION_EXISTS. True: it is there already.
  Result<bool> IsThere(const rows::PackageVersionRow& row) const;
  // True: it is new. False: it was there already, and the upload is dropped. Its signatures are
  // kept in both cases. An error: as of MayPut, IsThere and Trust::Sign.
  Result<bool> Finish(rows::PackageVersionRow row, std::vector<rows::SignatureRow> signatures);
  // For imports, which ask first. Whether the upload is under way still; what Finish does when
  // nothing is wrong; that the package of the latest version of an id no longer has it; and that a
  // version is in force now, whose documents were added.
  bool Uploads(const std::string& ns, rows::UploadId upload) const {
    return uploads_.contains({ns, upload});
  }
  void Retire(const std::string& ns, const std::string& id);
  void Accept(const rows::PackageVersionRow& row, std::vector<rows::SignatureRow> signatures);
  void PutInForce(const std::string& ns, const PackageVersionPtr& version, uint32_t share,
                  const std::map<std::string, uint32_t>& defined, const std::string& by);

  // What an activation is to be compiled from; or what has become of it, when there was nothing to
  // compile.
  struct Asked {
    std::optional<Activated> done;
    PackageVersionPtr version;
    rows::UploadId upload;
    std::shared_ptr<const DefinitionSet> under;
  };
  Result<Asked> Ask(const ActivateArgs& args);
  // nullopt: something else was defined or activated since; ask again. `sources` have the names as
  // the package sees them; they are unchanged then. BAD_PACKAGE: why is in `compiled`.
  std::optional<Result<Activated>> Activate(const ActivateArgs& args, Sources* sources,
                                            Compiled* compiled);
  Result<Activated> Deactivate(const ActivateArgs& args);
  // Counts what became of a call to activate or deactivate. Validations count as nothing.
  void Answered(const ActivateArgs& args, const Result<Activated>& done);
  const ActivationOutcomes& outcomes() const { return outcomes_; }
  Result<Removed> Remove(const RemoveArgs& args);

  // OWNED_BY_PACKAGE, when a source would define what belongs to a package.
  std::optional<Error> Refuse(const std::string& ns, const Sources& sources);
  // Adds a version of a machine, of a package or by hand.
  void AddVersion(MachineVersion version, std::shared_ptr<const Machine> shown);
  // What a stored version needs of its package.
  void Complete(const rows::MachineRow& row, MachineVersion* version) const;
  // Takes over versions of packages and machines from home.
  void Adopt(Adoption adoption);

 private:
  struct Target;
  struct Plan {  // what an activation is going to do
    std::vector<DocumentChange> changes;  // of machines, then of documents, as in the sources
    std::vector<DocumentChange> retired;
  };

  Result<Target> TargetOf(const ActivateArgs& args) const;
  Result<Ok> CheckActive(const ActivateArgs& args, const PackageState& state) const;
  std::optional<Result<Activated>> WithoutCompiling(const ActivateArgs& args, const Target& target);
  Result<Plan> PlanOf(const ActivateArgs& args, const PackageVersionPtr& version,
                      const Sources& sources);
  DocumentChange ChangeOf(const ActivateArgs& args, const Machine& machine) const;
  Result<DocumentChange> ChangeOf(const ActivateArgs& args, const Document& document);
  std::optional<Error> Taken(const ActivateArgs& args, const std::vector<std::string>& ids) const;
  std::vector<DocumentChange> RetiredBy(const std::string& ns, const PackageVersionPtr& active,
                                        const PackageVersion* next);
  Result<Ok> CheckRoom(const ActivateArgs& args, const Plan& plan) const;
  std::vector<DefineProblem> TakenFrom(const ActivateArgs& args, const Sources& sources,
                                       const Plan& plan) const;
  Result<Ok> CheckNamed(const ActivateArgs& args, const std::vector<DocumentChange>& retired);
  std::vector<const MachineVersion*> CandidatesBeside(const std::string& ns,
                                                      const std::string& package) const;
  Result<std::vector<std::string>> NamersOf(const std::string& ns, const std::string& package,
                                            const std::vector<DocumentChange>& retired);
  void Apply(const ActivateArgs& args, const PackageVersionPtr& version, Plan plan,
             Sources* sources, const Compiled& compiled);
  void ApplyRetired(const std::string& ns, const PackageVersion& package,
                    const std::vector<DocumentChange>& retired);
  void RetireMachine(MachineState& machine, const PackageVersion& package);
  void Install(MachineVersionPtr version, std::shared_ptr<const Machine> shown);
  void AdoptMachine(AdoptedMachine one);
  void DeriveQueues(const std::string& ns);
  void PutForce(const ActivateArgs& args, PackageState& state, const PackageVersionPtr& version,
                rows::PackageRow force);
  void SetCandidate(const std::string& ns, const std::string& package, const PackageState& state);
  void EndCandidate(const std::string& ns, const std::string& package);
  void Tell(ChangeKind kind, const PackageVersion& version, const std::string& client,
            const std::string& note);
  std::string WhyInUse(const PackageState& state, const PackageVersion& version) const;
  void RemoveOne(PackageState& state, const std::string& version, const std::string& by);

  const Below below_;
  // That were begun, by namespace, and how many bytes of each are to come.
  std::map<std::pair<std::string, rows::UploadId>, uint64_t> uploads_;
  SpareRoom spare_;
  std::vector<std::pair<std::string, rows::UploadId>> left_;  // of an earlier owner
  ActivationOutcomes outcomes_;
};

}  // namespace dfsmr
