// The credentials that let callers in (users call them access tokens), by the hashes of their
// secrets. No secret is kept longer than it takes to hash it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dsrv/access/roles.h"
#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "storage/rows/credential.h"

namespace dfsmr {

// SHA-256, 32 bytes.
std::string HashOf(std::string_view secret);
// `bytes` random bytes from the system's generator, as hexadecimal digits.
std::string RandomHex(size_t bytes);

struct Principal;
using PrincipalPtr = std::shared_ptr<const Principal>;

// The holder of one credential. Its row never changes.
struct Principal {
  explicit Principal(rows::CredentialRow given, PrincipalPtr ends_with = nullptr)
      : row(std::move(given)), parent(std::move(ends_with)) {}

  AccessRole role() const { return static_cast<AccessRole>(row.role); }
  bool InAll() const { return row.ns == "*"; }
  bool In(std::string_view ns) const { return InAll() || row.ns == ns; }
  // Whether it is limited to some machines or queues, as only a worker's can be.
  bool Limited() const { return !row.machines.empty() || !row.queues.empty(); }
  bool IsSession() const { return !row.parent.empty() && !row.code; }
  bool Valid(Timestamp now) const {
    return !revoked.load(std::memory_order_acquire) && now < row.expire_time &&
           (!parent || parent->Valid(now));
  }

  const rows::CredentialRow row;
  const PrincipalPtr parent;  // of a session and of a code
  mutable std::atomic<bool> revoked{false};
};

// Any thread.
class CredentialBook {
 public:
  // The holder of this secret, whose credential may have expired. Null: there is none.
  PrincipalPtr Find(std::string_view secret) const;
  PrincipalPtr FindId(std::string_view id) const;
  void Add(PrincipalPtr principal);
  // Revokes it.
  void Remove(const PrincipalPtr& principal);
  std::vector<PrincipalPtr> All() const;

 private:
  // Hashes are of secrets that callers cannot choose, so their first bytes are distributed evenly.
  struct First {
    size_t operator()(const std::string& hash) const;
  };
  struct SameTime {  // whatever the two hold
    bool operator()(const std::string& a, const std::string& b) const;
  };
  mutable SharedMutex mutex_;
  std::unordered_map<std::string, PrincipalPtr, First, SameTime> by_hash_ GUARDED(mutex_);
};

}  // namespace dfsmr
