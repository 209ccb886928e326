// Trust: the keys whose signatures count in a namespace, the verdict on each version of a package,
// and which versions are blocked, so that none of their tasks is handed out.
//
// A signature is checked where it comes in, on the threads of the calls. Here it is a fact: the
// fingerprint of its key, kept with the version. So a verdict is a look at a few fingerprints, and
// nothing of it is stored: what was revoked, signed or required counts in the turn that decides it.
// What is blocked is worked out again whenever one of these changes, or what is active; a namespace
// in which nothing is blocked costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/engine/registry.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "storage/rows/trust.h"

namespace dfsmr {

// The package version that an instance of `version` is on, or on its way to: it needs its programs.
const PackageVersion* PinnedBy(const VersionState& version);

class Trust {
 public:
  static constexpr size_t kTrustedMost = 100;
  static constexpr size_t kKeysMost = 10'000;   // with those that were revoked
  static constexpr size_t kSignaturesMost = 8;  // of a version

  Trust(OpenTurn& turn, Catalog& catalog, PackageTable& table, Spaces& spaces, Agenda& agenda)
      : turn_(turn), catalog_(catalog), table_(table), spaces_(spaces), agenda_(agenda) {}
  Trust(const Trust&) = delete;
  Trust& operator=(const Trust&) = delete;

  // At start, when machines and packages are there.
  Result<Ok> Recover();
  // Takes over all keys of a namespace from home, when its packages are there.
  void Adopt(const std::string& ns, std::vector<rows::TrustedKeyRow> keys);
  // Forgets those of a namespace that goes.
  void Forget(const std::string& ns);

  // Keys ---------------------------------------------------------------------------------------

  // `key` as it was given: name, fingerprint, line and who. KEY_EXISTS, KEY_REVOKED, TOO_LARGE.
  Result<rows::TrustedKeyRow> Add(const std::string& ns, rows::TrustedKeyRow key);
  // By name or fingerprint. Revoked again it stays as it is. NO_SUCH_KEY.
  Result<rows::TrustedKeyRow> Revoke(const std::string& ns, const std::string& key);
  // By name; of one name the one that is trusted first.
  std::vector<rows::TrustedKeyRow> KeysOf(const std::string& ns) const;

  // Versions -----------------------------------------------------------------------------------

  using Signers = std::vector<std::string>;  // fingerprints
  Verdict VerdictOf(const std::string& ns, const Signers& signers) const;
  TrustView ViewOf(const std::string& ns, const Signers& signers) const;
  // Whether the version may be activated and handed to workers: UNSIGNED, UNTRUSTED_KEY or
  // KEY_REVOKED.
  Result<Ok> MayUse(const PackageVersion& version) const;
  // Of signatures that were found good those that the version, which is there, was there or comes
  // now, does not have. KEY_REVOKED: it would hang on a revoked key. TOO_LARGE: too many.
  using Signatures = std::vector<rows::SignatureRow>;
  Result<Signatures> NewOf(const PackageVersion& version, Signatures signatures) const;
  // Adds these.
  void Keep(PackageState::Known& known, Signatures fresh);
  // Both, of a version that is there. NO_SUCH_PACKAGE, and as NewOf.
  Result<Ok> Sign(const PackageVersion& version, Signatures signatures);

  // In a namespace -----------------------------------------------------------------------------

  // Those that are active, a candidate or pinned, and have this verdict.
  std::vector<PackageVersionPtr> InUse(const std::string& ns, Verdict verdict) const;
  // Spaces::Update, and what follows for packages. UNSIGNED: signatures are to be required from now
  // on, and a version that is in use has none; `force` blocks it.
  Result<SpaceView> UpdateNamespace(const std::string& ns, const SpaceChange& change, bool force,
                                    const std::string& client);

  // Keys, signatures, the settings or what is active of the namespace have changed.
  void Changed(const std::string& ns);
  // The same when only what is active has.
  void ActiveChanged(const std::string& ns) {
    if (blocked_.contains(ns)) Changed(ns);
  }
  // Why the work of a queue is not handed out; empty: trust has nothing against it.
  std::string WhyHeld(const QueueKey& key) const;
  // Whether any version of the namespace is blocked, in use or not.
  bool BlocksAny(const std::string& ns) const { return blocked_.contains(ns); }
  // Whether the token's work is of a version that is blocked.
  bool Blocks(const Resident& resident, const Token& token) const;
  // Says so of each ready token of the instance.
  void Explain(const Resident& resident, InstanceWaits* waits) const;

 private:
  using Keys = std::map<std::string, rows::TrustedKeyRow>;  // by fingerprint
  // By version: why.
  using Blocked = std::map<const PackageVersion*, std::string>;

  Result<Ok> MayRequire(const std::string& ns) const;
  const rows::TrustedKeyRow* Find(const std::string& ns, const std::string& fingerprint) const;
  const Signers* SignersOf(const PackageVersion& version) const;
  // What is wrong with such signatures, to be said of a version; empty: nothing.
  std::string WhyNot(const std::string& ns, const Signers& signers) const;
  const std::string* WhyHeld(const PackageVersionPtr& own, const std::string& ns,
                             const std::string& action) const;

  OpenTurn& turn_;
  Catalog& catalog_;
  PackageTable& table_;
  Spaces& spaces_;
  Agenda& agenda_;
  std::map<std::string, Keys> keys_;        // by namespace
  std::map<std::string, Blocked> blocked_;  // by namespace, none empty
};

}  // namespace dfsmr
