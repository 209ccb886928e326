// Sealing of secrets: AES-256-GCM, with OpenSSL. A sealed value is bound to its namespace, name and
// version, so that a row cannot stand in for another. No state; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr {

struct SecretKey {
  std::string id;     // what people call it: the first 8 hex digits of the SHA-256 of its bytes
  std::string bytes;  // 32
};

// The keys of a server: the first seals, all open.
struct SecretKeys {
  std::vector<SecretKey> keys;  // at least one
  const SecretKey& first() const { return keys.front(); }
  const SecretKey* Find(std::string_view id) const;  // null: it is not here
};
using SecretKeysPtr = std::shared_ptr<const SecretKeys>;

// Lines of 64 hex digits; empty lines count for nothing. BAD_REQUEST says which line is wrong, and
// never what it holds. `source` is what errors call the text.
Result<SecretKeys> ParseSecretKeys(std::string_view text, std::string_view source);

// What a sealed value is bound to.
struct SecretPlace {
  std::string_view ns;
  std::string_view name;
  uint32_t version = 0;
};

inline constexpr size_t kNonceBytes = 12;

// `nonce`: kNonceBytes that were never used with this key before. Random ones are, for 2^32 values.
std::string Seal(const SecretKey& key, const SecretPlace& place, std::string_view nonce,
                 std::string_view value);
// STORE_FAILED: it was sealed by another key or for another place, or is damaged.
Result<std::string> Unseal(const SecretKey& key, const SecretPlace& place, std::string_view sealed);

// The same by its key's id. SECRETS_LOCKED: the key is not among `keys` (null: there are none); it
// names the key.
Result<std::string> Unseal(const SecretKeysPtr& keys, std::string_view key,
                           const SecretPlace& place, std::string_view sealed);
// The refusal where there is no key to seal with.
Error NoSecretKeys();

// Bytes of the system's generator, for nonces.
std::string RandomBytes(size_t count);

// The keys of the moment. Any thread.
class SecretKeyring {
 public:
  SecretKeysPtr Get() const {
    const Lock lock(mutex_);
    return keys_;
  }
  void Set(SecretKeysPtr keys) {
    const Lock lock(mutex_);
    keys_ = std::move(keys);
  }

 private:
  mutable Mutex mutex_;
  SecretKeysPtr keys_ GUARDED(mutex_);  // null: there are none
};

}  // namespace dfsmr
