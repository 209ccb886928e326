#include "fsm/base/reason.h"

namespace dfsmr {
namespace {

struct Row {
  Reason reason;
  std::string_view name;
};
constexpr Row kNames[] = {
    {Reason::kBadRequest, "BAD_REQUEST"},
    {Reason::kBadMachine, "BAD_MACHINE"},
    {Reason::kBadParams, "BAD_PARAMS"},
    {Reason::kTooLarge, "TOO_LARGE"},
    {Reason::kBadFilter, "BAD_FILTER"},
    {Reason::kNoSuchMachine, "NO_SUCH_MACHINE"},
    {Reason::kNoSuchMethod, "NO_SUCH_METHOD"},
    {Reason::kNoSuchInstance, "NO_SUCH_INSTANCE"},
    {Reason::kNoSuchNode, "NO_SUCH_NODE"},
    {Reason::kNoSuchSchedule, "NO_SUCH_SCHEDULE"},
    {Reason::kNoSuchTrigger, "NO_SUCH_TRIGGER"},
    {Reason::kNoSuchLimit, "NO_SUCH_LIMIT"},
    {Reason::kNoSuchOccurrence, "NO_SUCH_OCCURRENCE"},
    {Reason::kNoSuchGroup, "NO_SUCH_GROUP"},
    {Reason::kNoSuchAgent, "NO_SUCH_AGENT"},
    {Reason::kNoSuchBulk, "NO_SUCH_BULK"},
    {Reason::kNoSuchPackage, "NO_SUCH_PACKAGE"},
    {Reason::kNoSuchFile, "NO_SUCH_FILE"},
    {Reason::kVersionExists, "VERSION_EXISTS"},
    {Reason::kIdTaken, "ID_TAKEN"},
    {Reason::kOwnedByPackage, "OWNED_BY_PACKAGE"},
    {Reason::kPackageInUse, "PACKAGE_IN_USE"},
    {Reason::kRetired, "RETIRED"},
    {Reason::kActiveChanged, "ACTIVE_CHANGED"},
    {Reason::kNoPrevious, "NO_PREVIOUS"},
    {Reason::kDigestMismatch, "DIGEST_MISMATCH"},
    {Reason::kAgentExists, "AGENT_EXISTS"},
    {Reason::kAgentEvicted, "AGENT_EVICTED"},
    {Reason::kBadPackage, "BAD_PACKAGE"},
    {Reason::kBadArchive, "BAD_ARCHIVE"},
    {Reason::kBadSignature, "BAD_SIGNATURE"},
    {Reason::kSignatureMismatch, "SIGNATURE_MISMATCH"},
    {Reason::kUnsigned, "UNSIGNED"},
    {Reason::kUntrustedKey, "UNTRUSTED_KEY"},
    {Reason::kKeyRevoked, "KEY_REVOKED"},
    {Reason::kNoSuchKey, "NO_SUCH_KEY"},
    {Reason::kKeyExists, "KEY_EXISTS"},
    {Reason::kLimitReached, "LIMIT_REACHED"},
    {Reason::kNotVirtual, "NOT_VIRTUAL"},
    {Reason::kNoSuchToken, "NO_SUCH_TOKEN"},
    {Reason::kInstanceExists, "INSTANCE_EXISTS"},
    {Reason::kIllegalTransition, "ILLEGAL_TRANSITION"},
    {Reason::kStaleClaim, "STALE_CLAIM"},
    {Reason::kNotHeld, "NOT_HELD"},
    {Reason::kInstanceStopped, "INSTANCE_STOPPED"},
    {Reason::kCancelling, "CANCELLING"},
    {Reason::kAmbiguousNode, "AMBIGUOUS_NODE"},
    {Reason::kSupersededVersion, "SUPERSEDED_VERSION"},
    {Reason::kCursorExpired, "CURSOR_EXPIRED"},
    {Reason::kCursorAhead, "CURSOR_AHEAD"},
    {Reason::kTooMany, "TOO_MANY"},
    {Reason::kOverloaded, "OVERLOADED"},
    {Reason::kDiskFull, "DISK_FULL"},
    {Reason::kNotReady, "NOT_READY"},
    {Reason::kNoOwner, "NO_OWNER"},
    {Reason::kPeerUnreachable, "PEER_UNREACHABLE"},
    {Reason::kStoreUnreachable, "STORE_UNREACHABLE"},
    {Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN"},
    {Reason::kNotEmbedded, "NOT_EMBEDDED"},
    {Reason::kStoreFailed, "STORE_FAILED"},
    {Reason::kAuditFailed, "AUDIT_FAILED"},
    {Reason::kBadToken, "BAD_TOKEN"},
    {Reason::kNotAllowed, "NOT_ALLOWED"},
    {Reason::kNoSuchNamespace, "NO_SUCH_NAMESPACE"},
    {Reason::kNamespaceExists, "NAMESPACE_EXISTS"},
    {Reason::kNamespaceFrozen, "NAMESPACE_FROZEN"},
    {Reason::kNotFrozen, "NOT_FROZEN"},
    {Reason::kNamespaceDeleting, "NAMESPACE_DELETING"},
    {Reason::kQuotaExceeded, "QUOTA_EXCEEDED"},
    {Reason::kNoSuchSecret, "NO_SUCH_SECRET"},
    {Reason::kSecretsLocked, "SECRETS_LOCKED"},
    {Reason::kInsecureChannel, "INSECURE_CHANNEL"},
};

}  // namespace

std::string_view Name(Reason reason) {
  for (const Row& row : kNames) {
    if (row.reason == reason) return row.name;
  }
  return "";
}

Reason ReasonNamed(std::string_view name) {
  for (const Row& row : kNames) {
    if (row.name == name) return row.reason;
  }
  return name.empty() ? Reason::kNone : Reason::kOther;
}

}  // namespace dfsmr
