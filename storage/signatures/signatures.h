// Signatures of OpenSSH over packages: what `ssh-keygen -Y sign -n dfsmr-package` writes, checked
// with OpenSSL. For the server, dcli and the agent. No secrets, no state; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

inline constexpr std::string_view kSignatureNamespace = "dfsmr-package";
inline constexpr size_t kSignatureMax = 4 << 10;  // bytes of an armored one

// ssh-ed25519 or sk-ssh-ed25519@openssh.com.
struct PublicKey {
  std::string type;
  std::string blob;  // as in the base64 of its line
  std::string comment;
  bool security_key() const { return type.starts_with("sk-"); }
  friend bool operator==(const PublicKey& a, const PublicKey& b) { return a.blob == b.blob; }
};

// A line as in id_ed25519.pub. BAD_REQUEST: it is none, or a key of another type, which it says.
Result<PublicKey> ParsePublicKey(std::string_view line);
std::string LineOf(const PublicKey& key);
// "SHA256:…", as ssh-keygen -l prints it.
std::string Fingerprint(const PublicKey& key);

struct SshSignature {
  PublicKey key;
  std::string hash;  // "sha512" or "sha256"
  std::string bytes;
  uint8_t flags = 0;     // of a security key
  uint32_t counter = 0;  // likewise
};

// An armored signature. BAD_SIGNATURE: not of this format, with another namespace than
// dfsmr-package, or by another type of key; the message says which.
Result<SshSignature> ParseSignature(std::string_view armored);
// The armored blocks in a text, such as a file that holds several; an empty list when there is
// none.
std::vector<std::string> ArmoredBlocks(std::string_view text);

// What is signed is a hash of the archive: both that ssh-keygen knows, and "sha256:…".
struct ArchiveHashes {
  std::string sha256;          // 32 bytes
  std::string sha512;          // 64 bytes
  std::string Digest() const;  // "sha256:" and 64 hex digits
};
// Takes the archive in pieces.
class ArchiveHasher {
 public:
  ArchiveHasher();
  ~ArchiveHasher();
  ArchiveHasher(const ArchiveHasher&) = delete;
  ArchiveHasher& operator=(const ArchiveHasher&) = delete;
  void Add(std::string_view bytes);
  ArchiveHashes Take();  // once, at the end

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};
ArchiveHashes HashesOf(std::string_view archive);

// SIGNATURE_MISMATCH: the archive or the signature was changed.
Result<Ok> Verify(const SshSignature& signature, const ArchiveHashes& hashes);

// A line of an allowed_signers file.
struct AllowedSigner {
  std::string principals;
  PublicKey key;
  std::string valid_after;  // as written; empty: any time
  std::string valid_before;
};
// The signers of an allowed_signers file (ssh-keygen(1)) that may sign packages: those with a key
// of a type that counts, that are no certificate authority, and whose `namespaces`, if they have
// any, take dfsmr-package. BAD_REQUEST: a line is broken; it says which.
Result<std::vector<AllowedSigner>> ParseAllowedSigners(std::string_view text);
// Null: nobody with this key may sign at this time. `now` is UTC; times without a Z are taken for
// UTC, too.
const AllowedSigner* FindSigner(const std::vector<AllowedSigner>& signers, const PublicKey& key,
                                Timestamp now);

}  // namespace dfsmr
