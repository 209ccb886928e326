// The file of --trusted-keys: whose signatures an agent takes, whatever the server says.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "fsm/base/result.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {

// One thread.
class TrustedKeys {
 public:
  // An allowed_signers file; empty: whoever has signed, or nobody, is fine.
  explicit TrustedKeys(std::string file) : file_(std::move(file)) {}

  bool any() const { return !file_.empty(); }
  // Reads the file. Fails when it cannot be read, or a line of it is broken.
  Result<Ok> Load();
  // Whether one of these keys, which have signed a package, counts at this time by the file as it
  // is now. UNSIGNED, UNTRUSTED_KEY.
  Result<Ok> Check(const std::vector<PublicKey>& signed_by);

 private:
  const std::string file_;
  struct stat seen_ {};
  std::vector<AllowedSigner> signers_;
};

// The keys that have signed an archive with these hashes; empty: there are no signatures. Fails
// when there are some and none is good: SIGNATURE_MISMATCH, BAD_SIGNATURE.
Result<std::vector<PublicKey>> KeysOf(const std::vector<std::string>& signatures,
                                      const ArchiveHashes& hashes);

}  // namespace dfsmr::cli
