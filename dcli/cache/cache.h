// Unpacked packages, by digest, in a folder that the agents of a machine may share. Whoever needs
// one that is not there fetches it while the others wait. It is unpacked under another name, and
// renamed when it is whole: what a process that was killed has left half-written is never used, and
// goes with the next look. What somebody uses is never evicted.
//
//   packages/HEX/NAME-VERSION   the files, read-only
//   packages/HEX/about          what is known of them
//   locks/HEX                   shared by those who use it, exclusive for who fetches or evicts it;
//                               its time is that of the last use
//   partial/HEX.XXXXXX          on its way in, or out
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dcli/system/process.h"
#include "fsm/base/result.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {

// A package that is in use, and stays, as long as this lives. Any thread.
class CachedPackage {
 public:
  CachedPackage() = default;
  ~CachedPackage();
  CachedPackage(const CachedPackage&) = delete;
  CachedPackage& operator=(const CachedPackage&) = delete;

  const std::string& folder() const { return folder_; }    // of its files
  const ArchiveHashes& hashes() const { return hashes_; }  // of its archive
  // Another one when it was fetched anew.
  const std::string& birth() const { return birth_; }

 private:
  friend class PackageCache;
  Descriptor lock_;
  std::string folder_;
  ArchiveHashes hashes_;
  std::string birth_;
};
using CachedPackagePtr = std::shared_ptr<const CachedPackage>;

// Any thread; each call looks at the disk. Digests are "sha256:" and 64 hex digits.
class PackageCache {
 public:
  // `most`: bytes of all that is kept, but for what is in use.
  PackageCache(std::string folder, uint64_t most) : folder_(std::move(folder)), most_(most) {}

  // Makes the folder; deletes what was left half-written, and what is too much.
  Result<Ok> Open() const;

  // Writes the archive to a file of this path, which does not exist.
  using Fetch = std::function<Result<Ok>(const std::string& path)>;
  // The package of a digest; `fetch` is called when it is not there and nobody else fetches it.
  // `given_up` is asked now and then while somebody else does. Fails with what `fetch` fails with,
  // when the bytes are not those of the digest, and when no archive may be so.
  Result<CachedPackagePtr> Get(const std::string& digest, const Fetch& fetch,
                               const std::function<bool()>& given_up) const;
  // The same, if it is there; null: it is not, or somebody is about to change that.
  CachedPackagePtr Find(const std::string& digest) const;

  // Of what is there, the last used first.
  std::vector<std::string> Digests(size_t most) const;
  // Evicts what is too much, the least recently used first.
  void Trim() const;

 private:
  std::string Place(const char* kind, const std::string& hex) const;
  CachedPackagePtr Seen(const std::string& hex, Descriptor lock) const;
  Result<Ok> Bring(const std::string& digest, const Fetch& fetch) const;
  void DeletePartial(const std::string& hex) const;
  void SweepPartial() const;
  void Evict(const std::string& hex) const;

  const std::string folder_;
  const uint64_t most_;
};

}  // namespace dfsmr::cli
