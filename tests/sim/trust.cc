#include "tests/sim/trust.h"

namespace dfsmr {

rows::SignatureRow TrustModel::SignatureOf(int key, int version) {
  return {
      FingerprintOf(key), "of " + std::to_string(key) + " over " + std::to_string(version), {}, ""};
}

std::set<int> TrustModel::DrawKeys(Random& random) {
  std::set<int> keys;
  for (size_t n = random.Below(3); n > 0; --n) keys.insert(static_cast<int>(random.Below(kKeys)));
  return keys;
}

std::vector<rows::SignatureRow> TrustModel::SignaturesOf(const std::set<int>& keys, int version) {
  std::vector<rows::SignatureRow> rows;
  for (int key : keys) rows.push_back(SignatureOf(key, version));
  return rows;
}

std::set<int> TrustModel::SignersOf(int version) const {
  const auto found = signers.find(version);
  return found == signers.end() ? std::set<int>() : found->second;
}

Verdict TrustModel::VerdictOf(const std::set<int>& of) const {
  bool revoked = false;
  for (int key : of) {
    if (keys[static_cast<size_t>(key)] == Key::kTrusted) return Verdict::kTrusted;
    revoked |= keys[static_cast<size_t>(key)] == Key::kRevoked;
  }
  return revoked ? Verdict::kRevoked : Verdict::kUnsigned;
}

Reason TrustModel::MayUse(int version) const {
  switch (VerdictOf(version)) {
    case Verdict::kRevoked:
      return Reason::kKeyRevoked;
    case Verdict::kUnsigned:
      if (!required) return Reason::kNone;
      return SignersOf(version).empty() ? Reason::kUnsigned : Reason::kUntrustedKey;
    default:
      return Reason::kNone;
  }
}

Reason TrustModel::MaySign(int version, const std::set<int>& with) const {
  std::set<int> all = SignersOf(version);
  const size_t before = all.size();
  all.insert(with.begin(), with.end());
  const bool adds = all.size() > before;
  return adds && VerdictOf(all) == Verdict::kRevoked ? Reason::kKeyRevoked : Reason::kNone;
}

void TrustModel::Sign(int version, const std::set<int>& with) {
  if (!with.empty()) signers[version].insert(with.begin(), with.end());
}

}  // namespace dfsmr
