// Secrets: values that only holders of claims get. What is kept is sealed (storage/secrets), by the
// first of the server's keys; which versions there are is in rows, and nothing but counts in
// memory.
//
// When the keys change, what is sealed by another than the first is sealed anew, some at a time.
// Each is one row with its entry, in one batch; where it has come to follows from what is left, so
// it is carried on after a crash at any point.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/rules/rules.h"
#include "storage/rows/secret.h"
#include "storage/secrets/seal.h"

namespace dfsmr {

// A sealed value, and the keys of the moment.
struct SealedValue {
  std::string ns;
  std::string name;
  uint32_t version = 0;
  rows::SealedSecret sealed;
  SecretKeysPtr keys;

  // SECRETS_LOCKED. Any thread.
  Result<std::string> Open() const {
    return Unseal(keys, sealed.key, {ns, name, version}, sealed.sealed);
  }
};

Error NoSuchSecret(const std::string& ns, const std::string& name, uint32_t version = 0);

class Secrets {
 public:
  static constexpr size_t kNames = 1'000;     // of a namespace
  static constexpr size_t kVersions = 10;     // of a secret: the newest
  static constexpr size_t kBytes = 64 << 10;  // of a value

  struct Below {
    OpenTurn& turn;
    Spaces& spaces;
    Changer& changer;
    Traces& traces;
    HandOuts& handouts;
    const EngineOptions& options;
  };
  explicit Secrets(const Below& below) : b_(below), keys_(below.options.secret_keys) {}
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;

  // At start: what there is.
  Result<Ok> Recover();
  // From now on these keys. Null: there are none.
  void SetKeys(SecretKeysPtr keys);
  // In each pass: seals some anew.
  void Work();
  // Those of a namespace that goes, before its rows do.
  void Forget(const std::string& ns);

  // The next version. SECRETS_LOCKED, TOO_LARGE, and as Spaces::Use.
  Result<rows::SecretRow> Put(const std::string& ns, const std::string& name,
                              const std::string& value, const std::string& by);
  // A version; 0: all of it. What is left. NO_SUCH_SECRET.
  Result<rows::SecretRow> Delete(const std::string& ns, const std::string& name, uint32_t version);

  // Whether the holder of a claim may have the secrets that its task's package says: of a task
  // without a package all. STALE_CLAIM, NOT_ALLOWED.
  Result<Ok> MayAsk(const std::string& ns, const std::string& instance, const ClaimRef& claim,
                    const std::vector<std::string>& names);
  // The number of the version that is meant; 0 means the newest. NO_SUCH_SECRET.
  Result<uint32_t> VersionOf(const std::string& ns, const std::string& name, uint32_t version);
  // The newest version, for the server itself. NO_SUCH_SECRET.
  Result<SealedValue> Newest(const std::string& ns, const std::string& name);

  // How many versions each key seals, in all namespaces.
  const std::map<std::string, uint64_t>& by_key() const { return by_key_; }

 private:
  void Count(const std::string& key, int64_t versions);
  bool Reseal(rows::SecretRow* row);
  bool ResealOne(const rows::SecretRow& row, rows::SecretVersion* version);
  std::string Nonce();

  const Below b_;
  SecretKeysPtr keys_;
  std::map<std::string, uint64_t> by_key_;
  std::map<std::string, uint64_t> names_;  // by namespace
  bool sweeping_ = false;
  std::optional<rows::SecretName> swept_;  // up to this one
};

}  // namespace dfsmr
