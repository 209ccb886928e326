#include "dsrv/engine/trust.h"

#include <algorithm>
#include <set>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/references.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/space_views.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/dry_run.h"

namespace dfsmr {
namespace {

Error TooMany(std::string message) {
  return {Code::kInvalidArgument, Reason::kTooLarge, std::move(message)};
}

Error Exists(std::string message) {
  return {Code::kAlreadyExists, Reason::kKeyExists, std::move(message)};
}

std::string Called(const rows::TrustedKeyRow& key) {
  return Quoted(key.name) + " (" + key.fingerprint + ")";
}

}  // namespace

const PackageVersion* PinnedBy(const VersionState& version) {
  const VersionState* to = &version;
  while (to->upgrades_to && !to->aborted_by) to = to->upgrades_to;
  return to->Now().definition->package.get();
}

Result<Ok> Trust::Recover() {
  auto scanned =
      rows::ScanTrustedKeys(turn_.home(), [this](std::string_view ns, rows::TrustedKeyRow row) {
        std::string fingerprint = row.fingerprint;
        keys_[std::string(ns)][std::move(fingerprint)] = std::move(row);
      });
  if (!scanned) return scanned;
  std::string last;
  for (const auto& [name, state] : table_.all()) {
    if (name.first == last) continue;
    last = name.first;
    /*mutant recover-unblocked*/ Changed(last); /*end*/
  }
  return scanned;
}

void Trust::Adopt(const std::string& ns, std::vector<rows::TrustedKeyRow> keys) {
  keys_.erase(ns);
  for (rows::TrustedKeyRow& key : keys) {
    std::string fingerprint = key.fingerprint;
    keys_[ns][std::move(fingerprint)] = std::move(key);
  }
  Changed(ns);
}

void Trust::Forget(const std::string& ns) {
  keys_.erase(ns);
  blocked_.erase(ns);
}

// Keys ------------------------------------------------------------------------------------------

const rows::TrustedKeyRow* Trust::Find(const std::string& ns,
                                       const std::string& fingerprint) const {
  const auto keys = keys_.find(ns);
  if (keys == keys_.end()) return nullptr;
  const auto found = keys->second.find(fingerprint);
  return found == keys->second.end() ? nullptr : &found->second;
}

Result<rows::TrustedKeyRow> Trust::Add(const std::string& ns, rows::TrustedKeyRow key) {
  if (const rows::TrustedKeyRow* known = Find(ns, key.fingerprint)) {
    if (!known->Revoked()) return Exists("the key is trusted already, as " + Called(*known));
    return Error{Code::kFailedPrecondition, Reason::kKeyRevoked,
                 "the key " + Called(*known) + " was revoked in namespace " + Quoted(ns) +
                     " for good; make another one: ssh-keygen -t ed25519"};
  }
  const Keys& keys = keys_[ns];
  size_t trusted = 0;
  for (const auto& [fingerprint, one] : keys) {
    if (one.Revoked()) continue;
    ++trusted;
    if (one.name == key.name) {
      return Exists("another key has the name " + Quoted(key.name) + ": " + fingerprint);
    }
  }
  if (trusted >= kTrustedMost || keys.size() >= kKeysMost) {
    return TooMany("namespace " + Quoted(ns) + " has " + std::to_string(trusted) +
                   " trusted keys; the limit is " + std::to_string(kTrustedMost));
  }
  if (auto used = spaces_.Use(ns); !used) return used.error();
  key.create_time = turn_.now();
  rows::PutTrustedKey(turn_.writer(), ns, key);
  keys_[ns][key.fingerprint] = key;
  Changed(ns);
  return key;
}

Result<rows::TrustedKeyRow> Trust::Revoke(const std::string& ns, const std::string& key) {
  rows::TrustedKeyRow* found = nullptr;
  for (auto& [fingerprint, one] : keys_[ns]) {
    if (fingerprint != key && one.name != key) continue;
    if (!found || fingerprint == key || !one.Revoked()) found = &one;
  }
  if (!found) {
    return Error{
        Code::kNotFound, Reason::kNoSuchKey,
        "namespace " + Quoted(ns) + " has no key with the name or fingerprint " + Quoted(key)};
  }
  if (found->Revoked()) return *found;
  found->revoke_time = turn_.now();
  /*mutant revocation-not-durable*/ rows::PutTrustedKey(turn_.writer(), ns, *found); /*end*/
  Changed(ns);
  return *found;
}

std::vector<rows::TrustedKeyRow> Trust::KeysOf(const std::string& ns) const {
  std::vector<rows::TrustedKeyRow> all;
  const auto keys = keys_.find(ns);
  if (keys == keys_.end()) return all;
  for (const auto& [fingerprint, one] : keys->second) all.push_back(one);
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) {
    return std::pair(a.name, a.revoke_time) < std::pair(b.name, b.revoke_time);
  });
  return all;
}

// Verdicts --------------------------------------------------------------------------------------

Verdict Trust::VerdictOf(const std::string& ns, const Signers& signers) const {
  Verdict verdict = Verdict::kUnsigned;
  for (const std::string& fingerprint : signers) {
    const rows::TrustedKeyRow* key = Find(ns, fingerprint);
    if (!key) continue;
    if (!key->Revoked()) return Verdict::kTrusted;
    verdict = Verdict::kRevoked;
  }
  return verdict;
}

std::string Trust::WhyNot(const std::string& ns, const Signers& signers) const {
  switch (VerdictOf(ns, signers)) {
    case Verdict::kRevoked:
      for (const std::string& fingerprint : signers) {
        const rows::TrustedKeyRow* key = Find(ns, fingerprint);
        if (!key) continue;
        return "it is signed with the key " + Called(*key) +
               ", which was revoked, and with no trusted one";
      }
      return "";
    case Verdict::kUnsigned:
      if (!spaces_.RequiresSignatures(ns)) return "";
      return (signers.empty()
                  ? "it is not signed"
                  : "it is signed only with keys that are not trusted (" + signers.front() + ")") +
             ", and namespace " + Quoted(ns) + " requires signatures";
    default:
      return "";
  }
}

TrustView Trust::ViewOf(const std::string& ns, const Signers& signers) const {
  TrustView view{VerdictOf(ns, signers), WhyNot(ns, signers), {}};
  for (const std::string& fingerprint : signers) {
    const rows::TrustedKeyRow* key = Find(ns, fingerprint);
    view.signers.push_back({fingerprint, key ? key->name : "", key && key->Revoked()});
  }
  return view;
}

const Trust::Signers* Trust::SignersOf(const PackageVersion& version) const {
  const PackageState* state = table_.Find(version.ns, version.package);
  if (!state) return nullptr;
  const auto known = state->versions.find(version.version);
  return known == state->versions.end() ? nullptr : &known->second.signers;
}

Result<Ok> Trust::MayUse(const PackageVersion& version) const {
  const Signers* signers = SignersOf(version);
  if (!signers) return Ok{};
  const std::string why = WhyNot(version.ns, *signers);
  if (/*mutant untrusted-activated*/ why.empty() /*end*/) return Ok{};
  const bool revoked = VerdictOf(version.ns, *signers) == Verdict::kRevoked;
  const Reason reason = revoked            ? Reason::kKeyRevoked
                        : signers->empty() ? Reason::kUnsigned
                                           : Reason::kUntrustedKey;
  return Error{Code::kFailedPrecondition, reason,
               "version " + version.version + " of package " + Quoted(version.package) +
                   " is not to be used: " + why};
}

Result<Trust::Signatures> Trust::NewOf(const PackageVersion& version, Signatures signatures) const {
  auto there = rows::GetSignatures(turn_.reader(), version.ns, version.package, version.version);
  if (!turn_.Trust(there)) return there.error();
  const auto is_there = [&](const rows::SignatureRow& one) {
    return std::ranges::find(*there, one.text, &rows::SignatureRow::text) != there->end();
  };
  std::erase_if(signatures, is_there);
  const size_t all = there->size() + signatures.size();
  if (all > kSignaturesMost) {
    return TooMany("version " + version.version + " of package " + Quoted(version.package) +
                   " would have " + std::to_string(all) + " signatures; the limit is " +
                   std::to_string(kSignaturesMost));
  }
  Signers signers;
  for (const rows::SignatureRow& one : *there) signers.push_back(one.fingerprint);
  for (const rows::SignatureRow& one : signatures) signers.push_back(one.fingerprint);
  const bool revoked = VerdictOf(version.ns, signers) == Verdict::kRevoked;
  if (/*mutant revoked-key-taken*/ revoked && !signatures.empty() /*end*/) {
    return Error{Code::kFailedPrecondition, Reason::kKeyRevoked,
                 "version " + version.version + " of package " + Quoted(version.package) +
                     " is not taken so: " + WhyNot(version.ns, signers)};
  }
  return signatures;
}

Result<Ok> Trust::Sign(const PackageVersion& version, Signatures signatures) {
  const PackageState* state = table_.Find(version.ns, version.package);
  if (!state || !state->Find(version.version)) {
    return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
  }
  auto fresh = NewOf(version, std::move(signatures));
  if (!fresh) return fresh.error();
  PackageState& changed = table_.StateOf(version.ns, version.package);
  Keep(changed.versions.at(version.version), *std::move(fresh));
  return Ok{};
}

void Trust::Keep(PackageState::Known& known, Signatures fresh) {
  if (fresh.empty()) return;
  const PackageVersion& version = *known.version;
  auto number = static_cast<uint32_t>(known.signers.size());
  for (rows::SignatureRow& one : fresh) {
    one.time = turn_.now();
    rows::PutSignature(turn_.writer(), version.ns, version.package, version.version, number++, one);
    known.signers.push_back(std::move(one.fingerprint));
  }
  /*mutant signed-stays-blocked*/ Changed(version.ns); /*end*/
}

// In a namespace ---------------------------------------------------------------------------------

std::vector<PackageVersionPtr> Trust::InUse(const std::string& ns, Verdict verdict) const {
  std::set<const PackageVersion*> pinned;
  const auto& machines = catalog_.machines();
  for (auto it = machines.lower_bound({ns, ""}); it != machines.end() && it->first.first == ns;
       ++it) {
    for (const auto& [number, one] : it->second->versions) {
      if (one.AliveAnywhere() + one.DryRunsAnywhere() > 0) pinned.insert(PinnedBy(one));
    }
  }
  std::vector<PackageVersionPtr> found;
  const auto& all = table_.all();
  for (auto it = all.lower_bound({ns, ""}); it != all.end() && it->first.first == ns; ++it) {
    const rows::PackageRow& force = it->second.force;
    for (const auto& [version, known] : it->second.versions) {
      const bool used = version == force.active || version == force.candidate ||
                        pinned.contains(known.version.get());
      if (used && VerdictOf(ns, known.signers) == verdict) {
        found.push_back(known.version);
      }
    }
  }
  return found;
}

Result<Ok> Trust::MayRequire(const std::string& ns) const {
  const auto without = InUse(ns, Verdict::kUnsigned);
  if (without.empty()) return Ok{};
  std::vector<std::string> names;
  for (const PackageVersionPtr& one : without) names.push_back(one->package + "@" + one->version);
  return Error{Code::kFailedPrecondition, Reason::kUnsigned,
               "versions are in use that no trusted key has signed: " + Listed(names) +
                   "; sign them first (dcli package sign), or require signatures all the same "
                   "(--force): then their tasks wait"};
}

Result<SpaceView> Trust::UpdateNamespace(const std::string& ns, const SpaceChange& change,
                                         bool force, const std::string& client) {
  const bool requires_now = change.require_signatures.value_or(false);
  if (requires_now && !force && !spaces_.RequiresSignatures(ns)) {
    if (auto may = MayRequire(ns); !may) return may.error();
  }
  auto view = spaces_.Update(ns, change, client);
  if (view && change.require_signatures) {
    /*mutant required-later*/ Changed(ns); /*end*/
  }
  return view;
}

// What is blocked -------------------------------------------------------------------------------

void Trust::Changed(const std::string& ns) {
  Blocked blocked;
  const bool any = spaces_.RequiresSignatures(ns) || keys_.contains(ns);
  const auto& all = table_.all();
  for (auto it = all.lower_bound({ns, ""}); any && it != all.end() && it->first.first == ns; ++it) {
    for (const auto& [version, known] : it->second.versions) {
      std::string why = WhyNot(ns, known.signers);
      if (!why.empty()) blocked[known.version.get()] = std::move(why);
    }
  }
  if (blocked.empty()) {
    if (blocked_.erase(ns) > 0) agenda_.SetHeld(ns, nullptr);
    return;
  }
  blocked_[ns] = std::move(blocked);
  agenda_.SetHeld(ns, [this](const QueueKey& key) { return !WhyHeld(key).empty(); });
}

const std::string* Trust::WhyHeld(const PackageVersionPtr& own, const std::string& ns,
                                  const std::string& action) const {
  const auto blocked = blocked_.find(ns);
  if (blocked == blocked_.end()) return nullptr;
  const PackageVersionPtr server = table_.ServerOf(own, ns, action);
  const auto why = blocked->second.find(server.get());
  return why == blocked->second.end() ? nullptr : &why->second;
}

std::string Trust::WhyHeld(const QueueKey& key) const {
  const VersionState* version =
      key.version == 0 ? nullptr : catalog_.VersionOf(key.ns, key.machine, key.version);
  const std::string* why =
      WhyHeld(version ? version->Now().definition->package : nullptr, key.ns, key.action);
  return why ? *why : "";
}

bool Trust::Blocks(const Resident& resident, const Token& token) const {
  const std::string& ns = resident.instance.ns;
  if (!blocked_.contains(ns) || !resident.graph->Has(token.node)) return false;
  const PackageVersionPtr& own = resident.version->Now().definition->package;
  return WhyHeld(own, ns, resident.machine().nodes[token.node].settings->action) != nullptr;
}

void Trust::Explain(const Resident& resident, InstanceWaits* waits) const {
  const Instance& instance = resident.instance;
  if (blocked_.empty() || !blocked_.contains(instance.ns) || !Runs(instance.state)) return;
  const PackageVersionPtr& own = resident.version->Now().definition->package;
  size_t left = limits::kTokensShown;
  for (const Token& token : instance.tokens) {
    if (left-- == 0) return;
    if (token.state != TokenState::kReady || !resident.graph->Has(token.node)) continue;
    const Node& node = resident.machine().nodes[token.node];
    if (instance.dry_run && !ForDryWorkers(node)) continue;
    const std::string& action = node.settings->action;
    const std::string* why = WhyHeld(own, instance.ns, action);
    if (!why) continue;
    const PackageVersionPtr server = table_.ServerOf(own, instance.ns, action);
    waits->why[token.visit] =
        "package " + server->package + "@" + server->version + " is blocked: " + *why;
  }
}

}  // namespace dfsmr
