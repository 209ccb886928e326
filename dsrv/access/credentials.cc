#include "dsrv/access/credentials.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "dsrv/access/proof.h"
#include "fsm/base/hex.h"

namespace dfsmr {

std::string HashOf(std::string_view secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  const int filled =
      RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes));
  Check(filled == 1, "the system has no randomness to give");
  return ToHex(random);
}

size_t CredentialBook::First::operator()(const std::string& hash) const {
  size_t first = 0;
  std::memcpy(&first, hash.data(), std::min(sizeof first, hash.size()));
  return first;
}

bool CredentialBook::SameTime::operator()(const std::string& a, const std::string& b) const {
  return SameText(a, b);
}

PrincipalPtr CredentialBook::Find(std::string_view secret) const {
  const std::string hash = HashOf(secret);
  const ReadLock lock(mutex_);
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : found->second;
}

PrincipalPtr CredentialBook::FindId(std::string_view id) const {
  const ReadLock lock(mutex_);
  for (const auto& [hash, principal] : by_hash_) {
    if (principal->row.id == id) return principal;
  }
  return nullptr;
}

void CredentialBook::Add(PrincipalPtr principal) {
  const WriteLock lock(mutex_);
  by_hash_[principal->row.hash] = std::move(principal);
}

void CredentialBook::Remove(const PrincipalPtr& principal) {
  principal->revoked.store(true, std::memory_order_release);
  const WriteLock lock(mutex_);
  const auto found = by_hash_.find(principal->row.hash);
  if (found != by_hash_.end() && found->second == principal) by_hash_.erase(found);
}

std::vector<PrincipalPtr> CredentialBook::All() const {
  std::vector<PrincipalPtr> all;
  {
    const ReadLock lock(mutex_);
    for (const auto& [hash, principal] : by_hash_) all.push_back(principal);
  }
  std::ranges::sort(all, {}, [](const PrincipalPtr& one) {
    return std::pair(one->row.create_time, one->row.id);
  });
  return all;
}

}  // namespace dfsmr
