#include "dsrv/engine/secrets.h"

#include <algorithm>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/traces.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/fit.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kResealedPerPass = 8;
constexpr size_t kScannedPerPass = 200;

}  // namespace

Error NoSuchSecret(const std::string& ns, const std::string& name, uint32_t version) {
  return {Code::kNotFound, Reason::kNoSuchSecret,
          "there is no " + (version > 0 ? "version " + std::to_string(version) + " of " : "") +
              "secret " + Quoted(name) + " in namespace " + Quoted(ns)};
}

Result<Ok> Secrets::Recover() {
  return rows::ScanSecrets(b_.turn.reader(), std::nullopt, [this](rows::SecretRow row) {
    if (row.versions.empty()) return true;
    ++names_[row.ns];
    b_.spaces.AddSecrets(row.ns, 1);
    for (const rows::SecretVersion& one : row.versions) Count(one.key, 1);
    return true;
  });
}

void Secrets::Count(const std::string& key, int64_t versions) {
  uint64_t& count = by_key_[key];
  count += static_cast<uint64_t>(versions);
  if (count == 0) by_key_.erase(key);
}

void Secrets::Forget(const std::string& ns) {
  names_.erase(ns);
  auto all = rows::SecretsOf(b_.turn.reader(), ns);
  if (!b_.turn.Trust(all)) return;
  for (const rows::SecretRow& row : *all) {
    for (const rows::SecretVersion& one : row.versions) Count(one.key, -1);
  }
}

// Changes -----------------------------------------------------------------------------------------

std::string Secrets::Nonce() {
  if (b_.options.random_bytes) return b_.options.random_bytes(kNonceBytes);
  // For tests: of this turn's randomness, and another one each time.
  std::string nonce;
  for (uint64_t part : {Mix(b_.turn.random() ^ b_.turn.NextId()), b_.turn.NextId()}) {
    for (int shift = 0; shift < 64; shift += 8) nonce += static_cast<char>(part >> shift);
  }
  nonce.resize(kNonceBytes);
  return nonce;
}

Result<rows::SecretRow> Secrets::Put(const std::string& ns, const std::string& name,
                                     const std::string& value, const std::string& by) {
  if (auto room = b_.turn.NeedsRoom(Room::kAmple)) return *room;
  if (!keys_) return NoSecretKeys();
  auto used = b_.spaces.MayUse(ns);
  if (!used) return used.error();
  auto known = rows::GetSecret(b_.turn.reader(), ns, name);
  if (!b_.turn.Trust(known)) return known.error();
  rows::SecretRow row = known->value_or(rows::SecretRow{ns, name});
  const bool fresh = row.versions.empty();
  if (fresh && names_[ns] >= kNames) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "namespace " + Quoted(ns) + " has " + std::to_string(names_[ns]) +
                     " secrets, as many as there may be; delete some"};
  }
  used = b_.spaces.Use(ns);
  if (!used) return used.error();
  if (fresh) {
    ++names_[ns];
    b_.spaces.AddSecrets(ns, 1);
  }
  const SecretKey& key = keys_->first();
  row.versions.push_back(
      {/*mutant secret-version-reused*/ ++row.last /*end*/, b_.turn.clock(), by, key.id});
  rows::PutSealed(b_.turn.writer(), ns, name, row.last,
                  {key.id, Seal(key, {ns, name, row.last}, Nonce(), value)});
  Count(key.id, 1);
  while (row.versions.size() > kVersions) {
    rows::DropSealed(b_.turn.writer(), ns, name, row.versions.front().version);
    Count(row.versions.front().key, -1);
    row.versions.erase(row.versions.begin());
  }
  rows::PutSecret(b_.turn.writer(), row);
  return row;
}

Result<rows::SecretRow> Secrets::Delete(const std::string& ns, const std::string& name,
                                        uint32_t version) {
  auto known = rows::GetSecret(b_.turn.reader(), ns, name);
  if (!b_.turn.Trust(known)) return known.error();
  if (!*known || (*known)->versions.empty()) return NoSuchSecret(ns, name);
  rows::SecretRow row = **std::move(known);
  const size_t before = row.versions.size();
  std::erase_if(row.versions, [&](const rows::SecretVersion& one) {
    if (version != 0 && one.version != version) return false;
    /*mutant secret-not-dropped*/ rows::DropSealed(b_.turn.writer(), ns, name, one.version); /*end*/
    Count(one.key, -1);
    return true;
  });
  if (row.versions.size() == before) return NoSuchSecret(ns, name, version);
  if (row.versions.empty()) {
    --names_[ns];
    b_.spaces.AddSecrets(ns, -1);
  }
  rows::PutSecret(b_.turn.writer(), row);
  return row;
}

// Reading ----------------------------------------------------------------------------------------

Result<Ok> Secrets::MayAsk(const std::string& ns, const std::string& instance,
                           const ClaimRef& claim, const std::vector<std::string>& names) {
  auto touched = b_.changer.Touch(ns, instance);
  if (!touched) return touched.error();
  const auto trace = b_.traces.TraceOf(ns, instance, claim);
  const Token* token = (*touched)->instance.tokens.Find(claim.visit);
  if (/*mutant secret-for-stale-claim*/ trace.kind != Traces::Trace::Kind::kOpen /*end*/ ||
      token == nullptr) {
    return Error{Code::kFailedPrecondition, Reason::kStaleClaim,
                 "the claim of instance " + Quoted(instance) +
                     " is stale: only who may still report on a task may have its secrets"};
  }
  const std::vector<PackageWorkerRef> workers = b_.handouts.WorkersOf(**touched, *token);
  if (workers.empty()) return Ok{};  // its worker is of no package
  for (const std::string& name : names) {
    const bool listed = std::ranges::any_of(
        workers, [&](const PackageWorkerRef& one) { return Allowed(one.worker->secrets, name); });
    if (/*mutant secret-not-listed*/ listed /*end*/) continue;
    const PackageWorkerRef& last = workers.back();
    return Error{Code::kPermissionDenied, Reason::kNotAllowed,
                 "worker " + Quoted(last.worker->name) + " of package " + last.package->package +
                     "@" + last.package->version + " does not list the secret " + Quoted(name) +
                     " in its manifest, under env or secrets"};
  }
  return Ok{};
}

Result<uint32_t> Secrets::VersionOf(const std::string& ns, const std::string& name,
                                    uint32_t version) {
  auto known = rows::GetSecret(b_.turn.home(), ns, name);
  if (!b_.turn.Trust(known)) return known.error();
  if (!*known || (*known)->versions.empty()) return NoSuchSecret(ns, name);
  const auto& versions = (*known)->versions;
  if (version == 0) return /*mutant secret-oldest-read*/ versions.back().version /*end*/;
  if (std::ranges::find(versions, version, &rows::SecretVersion::version) != versions.end()) {
    return version;
  }
  return NoSuchSecret(ns, name, version);
}

Result<SealedValue> Secrets::Newest(const std::string& ns, const std::string& name) {
  auto version = VersionOf(ns, name, 0);
  if (!version) return version.error();
  auto sealed = rows::GetSealed(b_.turn.home(), ns, name, *version);
  if (!b_.turn.Trust(sealed)) return sealed.error();
  if (!*sealed) return NoSuchSecret(ns, name, *version);
  return SealedValue{ns, name, *version, **std::move(sealed), keys_};
}

// Rotation ---------------------------------------------------------------------------------------

void Secrets::SetKeys(SecretKeysPtr keys) {
  keys_ = std::move(keys);
  swept_.reset();
  sweeping_ = keys_ && std::ranges::any_of(by_key_, [this](const auto& one) {
                return one.first != keys_->first().id;
              });
  if (sweeping_) b_.turn.WantMore();
}

void Secrets::Work() {
  if (!sweeping_) return;
  std::vector<rows::SecretRow> old;
  size_t scanned = 0;
  size_t versions = 0;
  bool more = false;
  auto outcome = rows::ScanSecrets(b_.turn.reader(), swept_, [&](rows::SecretRow row) {
    if (versions >= kResealedPerPass || ++scanned > kScannedPerPass) {
      more = true;
      return false;
    }
    swept_ = rows::SecretName{row.ns, row.name};
    const auto stale = std::ranges::count_if(row.versions, [this](const rows::SecretVersion& one) {
      return one.key != keys_->first().id;
    });
    versions += static_cast<size_t>(stale);
    if (stale > 0) old.push_back(std::move(row));
    return true;
  });
  if (!b_.turn.Trust(outcome)) return;
  for (rows::SecretRow& row : old) {
    if (Reseal(&row)) rows::PutSecret(b_.turn.writer(), row);
  }
  if (more) return b_.turn.WantMore();
  sweeping_ = false;
  if (!b_.options.secrets_resealed) return;
  b_.turn.AfterCommit([tell = b_.options.secrets_resealed, counts = by_key_] { tell(counts); });
}

// False: nothing could be.
bool Secrets::Reseal(rows::SecretRow* row) {
  bool changed = false;
  for (rows::SecretVersion& version : row->versions) {
    if (version.key != keys_->first().id) changed = ResealOne(*row, &version) || changed;
  }
  return changed;
}

// What cannot be opened stays as it is: its key may come back.
bool Secrets::ResealOne(const rows::SecretRow& row, rows::SecretVersion* version) {
  const SecretPlace place{row.ns, row.name, version->version};
  auto sealed = rows::GetSealed(b_.turn.reader(), row.ns, row.name, version->version);
  if (!b_.turn.Trust(sealed) || !*sealed) return false;
  auto value = Unseal(keys_, (*sealed)->key, place, (*sealed)->sealed);
  if (!value) return false;
  const SecretKey& key = keys_->first();
  rows::PutSealed(b_.turn.writer(), row.ns, row.name, version->version,
                  {key.id, Seal(key, place, Nonce(), *value)});
  Count(version->key, -1);
  /*mutant secret-key-not-noted*/ Count(key.id, 1); /*end*/
  version->key = key.id;
  return true;
}

}  // namespace dfsmr
