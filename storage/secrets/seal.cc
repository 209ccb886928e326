#include "storage/secrets/seal.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>

#include "fsm/base/hex.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kTagBytes = 16;
constexpr char kFormat = 1;  // the first byte of what is sealed: format, nonce, text, tag

std::string IdOf(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return ToHex(std::string_view(reinterpret_cast<const char*>(digest), 4));
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// What is not hidden, but cannot be another: names hold no zero byte.
std::string BoundTo(const SecretPlace& place) {
  std::string bound = "dfsmr-secret";
  bound += '\0';
  bound += place.ns;
  bound += '\0';
  bound += place.name;
  bound += '\0';
  for (int shift = 24; shift >= 0; shift -= 8) bound += static_cast<char>(place.version >> shift);
  return bound;
}

class Cipher {
 public:
  Cipher() : context_(EVP_CIPHER_CTX_new()) { Check(context_ != nullptr, "no cipher"); }
  ~Cipher() { EVP_CIPHER_CTX_free(context_); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
  EVP_CIPHER_CTX* get() const { return context_; }

 private:
  EVP_CIPHER_CTX* const context_;
};

Error Damaged(const SecretPlace& place) {
  return {Code::kDataLoss, Reason::kStoreFailed,
          "version " + std::to_string(place.version) + " of secret " + Quoted(place.name) +
              " in namespace " + Quoted(place.ns) + " cannot be opened: it is damaged"};
}

}  // namespace

const SecretKey* SecretKeys::Find(std::string_view id) const {
  const auto found = std::ranges::find(keys, id, &SecretKey::id);
  return found == keys.end() ? nullptr : &*found;
}

Result<SecretKeys> ParseSecretKeys(std::string_view text, std::string_view source) {
  SecretKeys parsed;
  const auto wrong = [&](size_t line, std::string_view why) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 std::string(source) + (line > 0 ? ":" + std::to_string(line) : "") + ": " +
                     std::string(why) + "; a key is a line of 64 hex digits: openssl rand -hex 32"};
  };
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    SecretKey key;
    if (line.size() != 2 * kKeyBytes) {
      return wrong(number, std::to_string(line.size()) + " characters");
    }
    auto bytes = FromHex(line);
    if (!bytes) return wrong(number, "not only hex digits");
    key.bytes = *std::move(bytes);
    key.id = IdOf(key.bytes);
    const SecretKey* same = parsed.Find(key.id);
    if (same != nullptr && same->bytes != key.bytes) {
      return wrong(number, "two keys are both called " + key.id + ", so make another");
    }
    if (same == nullptr) parsed.keys.push_back(std::move(key));
  }
  if (parsed.keys.empty()) return wrong(0, "it holds no key");
  return parsed;
}

std::string Seal(const SecretKey& key, const SecretPlace& place, std::string_view nonce,
                 std::string_view value) {
  Check(nonce.size() == kNonceBytes && key.bytes.size() == kKeyBytes, "no key, or no nonce");
  const std::string bound = BoundTo(place);
  std::string sealed(1 + kNonceBytes + value.size() + kTagBytes, kFormat);
  std::copy(nonce.begin(), nonce.end(), sealed.begin() + 1);
  unsigned char* const text = Bytes(sealed) + 1 + kNonceBytes;
  const Cipher cipher;
  int size = 0;
  const bool done =
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key.bytes),
                         Bytes(nonce)) == 1 &&
      EVP_EncryptUpdate(cipher.get(), nullptr, &size, Bytes(bound),
                        static_cast<int>(bound.size())) == 1 &&
      EVP_EncryptUpdate(cipher.get(), text, &size, Bytes(value), static_cast<int>(value.size())) ==
          1 &&
      EVP_EncryptFinal_ex(cipher.get(), text + size, &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, text + value.size()) == 1;
  Check(done, "AES-256-GCM cannot be used");
  return sealed;
}

Result<std::string> Unseal(const SecretKey& key, const SecretPlace& place,
                           std::string_view sealed) {
  constexpr size_t kAround = 1 + kNonceBytes + kTagBytes;
  if (sealed.size() < kAround || sealed[0] != kFormat) return Damaged(place);
  const std::string bound = BoundTo(place);
  const std::string_view nonce = sealed.substr(1, kNonceBytes);
  const std::string_view text = sealed.substr(1 + kNonceBytes, sealed.size() - kAround);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string value(text.size() + 1, '\0');  // so that there is a byte to point to
  const Cipher cipher;
  int size = 0;
  const bool done =
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key.bytes),
                         Bytes(nonce)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &size, Bytes(bound),
                        static_cast<int>(bound.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), Bytes(value), &size, Bytes(text),
                        static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, Bytes(tag)) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), Bytes(value) + size, &size) == 1;
  if (!done) return Damaged(place);
  value.resize(text.size());
  return value;
}

Result<std::string> Unseal(const SecretKeysPtr& keys, std::string_view key,
                           const SecretPlace& place, std::string_view sealed) {
  const SecretKey* with = keys ? keys->Find(key) : nullptr;
  if (with != nullptr) return Unseal(*with, place, sealed);
  return Error{Code::kFailedPrecondition, Reason::kSecretsLocked,
               "version " + std::to_string(place.version) + " of secret " + Quoted(place.name) +
                   " is sealed with the key " + std::string(key) +
                   ", which the server does not have: its line is missing in " +
                   (keys ? "the file of --secret-key-file"
                         : "a file that dsrv is given with --secret-key-file")};
}

Error NoSecretKeys() {
  return {Code::kFailedPrecondition, Reason::kSecretsLocked,
          "the server has no key to seal secrets with: make one with (umask 077; openssl rand -hex "
          "32 > secret.key), and start dsrv with --secret-key-file secret.key"};
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  Check(RAND_bytes(Bytes(bytes), static_cast<int>(count)) == 1, "the system has no randomness");
  return bytes;
}

}  // namespace dfsmr
