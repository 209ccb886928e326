// The trust of a simulated run of packages: which keys a namespace trusts or has revoked, which
// version is signed with which, and what follows from that. A value: what a crash undoes is copied.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>

#include "dsrv/engine/trust.h"
#include "tests/sim/random.h"

namespace dfsmr {

class TrustModel {
 public:
  static constexpr int kKeys = 4;
  enum class Key : uint8_t { kUnknown, kTrusted, kRevoked };

  static std::string FingerprintOf(int key) { return "SHA256:key" + std::to_string(key); }
  static rows::SignatureRow SignatureOf(int key, int version);

  // Draws none, one or two of them.
  static std::set<int> DrawKeys(Random& random);
  static std::vector<rows::SignatureRow> SignaturesOf(const std::set<int>& keys, int version);

  Verdict VerdictOf(const std::set<int>& signers) const;
  Verdict VerdictOf(int version) const { return VerdictOf(SignersOf(version)); }
  std::set<int> SignersOf(int version) const;
  // What a version may not be activated for; kNone: it may.
  Reason MayUse(int version) const;
  bool Blocked(int version) const { return MayUse(version) != Reason::kNone; }
  // What signatures of these keys are not taken for.
  Reason MaySign(int version, const std::set<int>& keys) const;
  void Sign(int version, const std::set<int>& keys);

  std::array<Key, kKeys> keys = {};
  std::map<int, std::set<int>> signers;  // by version
  bool required = false;
};

}  // namespace dfsmr
