#include "storage/signatures/signatures.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <optional>

#include "fsm/base/hex.h"
#include "fsm/base/names.h"
#include "storage/signatures/wire.h"

namespace dfsmr {
namespace {

constexpr std::string_view kPlain = "ssh-ed25519";
constexpr std::string_view kSecurity = "sk-ssh-ed25519@openssh.com";
constexpr std::string_view kMagic = "SSHSIG";
constexpr std::string_view kBegin = "-----BEGIN SSH SIGNATURE-----";
constexpr std::string_view kEnd = "-----END SSH SIGNATURE-----";
constexpr std::string_view kTypes = "ssh-ed25519 and sk-ssh-ed25519@openssh.com";
constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;

Error BadKey(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}
Error BadSignature(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadSignature, std::move(message)};
}

// What stands in the blob of a key.
struct KeyParts {
  std::string_view type;
  std::string_view point;        // of ed25519
  std::string_view application;  // of a security key
};
std::optional<KeyParts> PartsOf(std::string_view blob) {
  WireReader reader(blob);
  KeyParts parts;
  parts.type = reader.String();
  parts.point = reader.String();
  if (parts.type == kSecurity) parts.application = reader.String();
  if (!reader.AtEnd() || parts.point.size() != kKeyBytes) return std::nullopt;
  return parts;
}

bool Counts(std::string_view type) { return type == kPlain || type == kSecurity; }

std::string_view Trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  const size_t end = text.find_last_not_of(" \t\r\n");
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

// Takes the next word off a line, without the blanks around it.
std::string_view TakeWord(std::string_view* line) {
  *line = Trimmed(*line);
  const size_t end = std::min(line->find_first_of(" \t"), line->size());
  const std::string_view word = line->substr(0, end);
  *line = Trimmed(line->substr(end));
  return word;
}

std::string Sha256(std::string_view bytes) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

bool Ed25519Holds(std::string_view point, std::string_view signature, std::string_view message) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(point), point.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  if (!key || !context) return false;
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) return false;
  return EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                          message.size()) == 1;
}

// What `ssh-keygen -Y sign` signs: not the archive, but this.
std::string SignedText(const SshSignature& signature, const ArchiveHashes& hashes) {
  std::string text(kMagic);
  PutString(kSignatureNamespace, &text);
  PutString("", &text);
  PutString(signature.hash, &text);
  PutString(signature.hash == "sha512" ? hashes.sha512 : hashes.sha256, &text);
  return text;
}

// The key of a signature, and whether it is of a type that counts.
Result<PublicKey> KeyOf(std::string_view blob) {
  WireReader reader(blob);
  const std::string type(reader.String());
  if (!reader.ok()) return BadSignature("the signature holds no public key");
  if (!Counts(type)) {
    return BadSignature("it is signed with a key of type " + Quoted(type) + "; " +
                        std::string(kTypes) + " count");
  }
  if (!PartsOf(blob)) return BadSignature("the public key in the signature is broken");
  return PublicKey{type, std::string(blob), ""};
}

Result<std::string> Unarmored(std::string_view armored) {
  std::string_view text = Trimmed(armored);
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd) ||
      text.size() < kBegin.size() + kEnd.size()) {
    return BadSignature("it is no signature of OpenSSH, which begins with '" + std::string(kBegin) +
                        "'; make one with: ssh-keygen -Y sign -f KEY -n dfsmr-package FILE");
  }
  text.remove_prefix(kBegin.size());
  text.remove_suffix(kEnd.size());
  std::string digits;
  for (const char c : text) {
    if (c != '\n' && c != '\r' && c != ' ' && c != '\t') digits += c;
  }
  auto blob = FromBase64(digits);
  if (!blob) return BadSignature("it is no signature of OpenSSH: the base64 in it is broken");
  return *std::move(blob);
}

Result<Ok> ReadInner(std::string_view inner, SshSignature* to) {
  WireReader reader(inner);
  const std::string type(reader.String());
  to->bytes = std::string(reader.String());
  if (to->key.security_key()) {
    to->flags = reader.Byte();
    to->counter = reader.Number();
  }
  if (!reader.AtEnd() || type != to->key.type || to->bytes.size() != kSignatureBytes) {
    return BadSignature("it is no signature of OpenSSH: it does not fit the type of its key");
  }
  return Ok{};
}

}  // namespace

Result<PublicKey> ParsePublicKey(std::string_view line) {
  std::string_view rest = Trimmed(line);
  if (rest.find('\n') != rest.npos) return BadKey("expected one public key, on one line");
  const std::string type(TakeWord(&rest));
  const std::string_view base64 = TakeWord(&rest);
  if (type.empty() || base64.empty()) {
    return BadKey("expected a public key as in id_ed25519.pub, such as 'ssh-ed25519 AAAA… ann'");
  }
  if (type.starts_with("-----BEGIN")) {
    return BadKey(
        "this is a private key, or no key of OpenSSH; the public one is in the file "
        "beside it, *.pub");
  }
  if (!Counts(type)) {
    return BadKey("a key of type " + Quoted(type) + " does not sign packages; " +
                  std::string(kTypes) + " do: ssh-keygen -t ed25519");
  }
  const auto blob = FromBase64(base64);
  const auto parts = blob ? PartsOf(*blob) : std::nullopt;
  if (!parts || parts->type != type) return BadKey("the public key is broken: not a whole " + type);
  return PublicKey{type, *blob, std::string(rest)};
}

std::string LineOf(const PublicKey& key) {
  return key.type + " " + ToBase64(key.blob) + (key.comment.empty() ? "" : " " + key.comment);
}

std::string Fingerprint(const PublicKey& key) {
  std::string text = ToBase64(Sha256(key.blob));
  while (text.ends_with('=')) text.pop_back();
  return "SHA256:" + text;
}

Result<SshSignature> ParseSignature(std::string_view armored) {
  if (armored.size() > kSignatureMax) return BadSignature("a signature has at most 4 KiB");
  const auto blob = Unarmored(armored);
  if (!blob) return blob.error();
  WireReader reader(*blob);
  const std::string_view magic = reader.Bytes(kMagic.size());
  const uint32_t version = reader.Number();
  const std::string_view key_blob = reader.String();
  const std::string_view name = reader.String();
  reader.String();  // reserved
  SshSignature signature;
  signature.hash = std::string(reader.String());
  const std::string_view inner = reader.String();
  if (magic != kMagic || !reader.AtEnd()) {
    return BadSignature("it is no signature of OpenSSH: its fields are broken");
  }
  if (version != 1) {
    return BadSignature("it is a signature of version " + std::to_string(version) +
                        " of the format; 1 is known");
  }
  if (name != kSignatureNamespace) {
    return BadSignature("it was made with -n " + Quoted(name) + "; packages are signed with -n " +
                        std::string(kSignatureNamespace));
  }
  auto key = KeyOf(key_blob);
  if (!key) return key.error();
  if (signature.hash != "sha512" && signature.hash != "sha256") {
    return BadSignature("its hash is " + Quoted(signature.hash) + "; sha512 and sha256 are known");
  }
  signature.key = *std::move(key);
  if (auto read = ReadInner(inner, &signature); !read) return read.error();
  return signature;
}

std::vector<std::string> ArmoredBlocks(std::string_view text) {
  std::vector<std::string> blocks;
  for (size_t begin = text.find(kBegin); begin != text.npos; begin = text.find(kBegin, begin + 1)) {
    const size_t end = text.find(kEnd, begin);
    if (end == text.npos) break;
    blocks.push_back(std::string(text.substr(begin, end + kEnd.size() - begin)) + "\n");
  }
  return blocks;
}

std::string ArchiveHashes::Digest() const { return "sha256:" + ToHex(sha256); }

struct ArchiveHasher::Inside {
  EVP_MD_CTX* sha256 = EVP_MD_CTX_new();
  EVP_MD_CTX* sha512 = EVP_MD_CTX_new();
};

ArchiveHasher::ArchiveHasher() : inside_(std::make_unique<Inside>()) {
  Check(EVP_DigestInit_ex(inside_->sha256, EVP_sha256(), nullptr) == 1 &&
            EVP_DigestInit_ex(inside_->sha512, EVP_sha512(), nullptr) == 1,
        "OpenSSL has SHA-2");
}

ArchiveHasher::~ArchiveHasher() {
  EVP_MD_CTX_free(inside_->sha256);
  EVP_MD_CTX_free(inside_->sha512);
}

void ArchiveHasher::Add(std::string_view bytes) {
  EVP_DigestUpdate(inside_->sha256, bytes.data(), bytes.size());
  EVP_DigestUpdate(inside_->sha512, bytes.data(), bytes.size());
}

ArchiveHashes ArchiveHasher::Take() {
  ArchiveHashes hashes{std::string(SHA256_DIGEST_LENGTH, '\0'),
                       std::string(SHA512_DIGEST_LENGTH, '\0')};
  EVP_DigestFinal_ex(inside_->sha256, reinterpret_cast<unsigned char*>(hashes.sha256.data()),
                     nullptr);
  EVP_DigestFinal_ex(inside_->sha512, reinterpret_cast<unsigned char*>(hashes.sha512.data()),
                     nullptr);
  return hashes;
}

ArchiveHashes HashesOf(std::string_view archive) {
  ArchiveHasher hasher;
  hasher.Add(archive);
  return hasher.Take();
}

Result<Ok> Verify(const SshSignature& signature, const ArchiveHashes& hashes) {
  const auto parts = PartsOf(signature.key.blob);
  std::string message = SignedText(signature, hashes);
  if (parts && signature.key.security_key()) {
    std::string wrapped = Sha256(parts->application);
    wrapped += static_cast<char>(signature.flags);
    for (int shift = 24; shift >= 0; shift -= 8) {
      wrapped += static_cast<char>(signature.counter >> shift & 0xffU);
    }
    message = wrapped + Sha256(message);
  }
  if (parts && Ed25519Holds(parts->point, signature.bytes, message)) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kSignatureMismatch,
               "the signature of " + Fingerprint(signature.key) +
                   " is not one of these bytes: the archive or the signature was changed"};
}

}  // namespace dfsmr
