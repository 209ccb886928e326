#include "dcli/agent/trusted_keys.h"

#include <chrono>
#include <optional>

#include "storage/archive/files.h"

namespace dfsmr::cli {
namespace {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

Timestamp WallClock() { return std::chrono::floor<Duration>(std::chrono::system_clock::now()); }

}  // namespace

Result<Ok> TrustedKeys::Load() {
  signers_.clear();
  struct stat about {};
  if (stat(file_.c_str(), &about) == 0) seen_ = about;
  const auto text = ReadWholeFile(file_);
  if (!text) return text.error();
  auto signers = ParseAllowedSigners(*text);
  if (!signers) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 file_ + ": " + signers.error().message};
  }
  signers_ = *std::move(signers);
  return Ok{};
}

Result<Ok> TrustedKeys::Check(const std::vector<PublicKey>& signed_by) {
  struct stat about {};
  const bool same = stat(file_.c_str(), &about) == 0 && SameFile(about, seen_);
  if (!same) {
    // A file that cannot be read trusts nobody.
    seen_ = {};
    if (auto loaded = Load(); !loaded) return loaded;
  }
  const Timestamp now = WallClock();
  for (const PublicKey& key : signed_by) {
    if (FindSigner(signers_, key, now) != nullptr) return Ok{};
  }
  if (signed_by.empty()) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "nobody has signed it (UNSIGNED), and this agent runs only what a key of " +
                     file_ + " has signed"};
  }
  return Error{Code::kFailedPrecondition, Reason::kNone,
               "it is signed by " + Fingerprint(signed_by.front()) + ", which is not in " + file_ +
                   ", or not at this time (UNTRUSTED_KEY)"};
}

Result<std::vector<PublicKey>> KeysOf(const std::vector<std::string>& signatures,
                                      const ArchiveHashes& hashes) {
  std::vector<PublicKey> keys;
  std::optional<Error> wrong;
  for (const std::string& armored : signatures) {
    auto signature = ParseSignature(armored);
    const auto good = signature ? Verify(*signature, hashes) : Result<Ok>(signature.error());
    if (good) {
      keys.push_back(std::move(signature->key));
    } else if (!wrong) {
      wrong = good.error();
    }
  }
  if (keys.empty() && wrong) return *wrong;
  return keys;
}

}  // namespace dfsmr::cli
