// Why a call was refused, as a word that programs may branch on: the words of runner.proto and
// of the other files beside it.
// Messages are for people, and may be reworded; nothing is read out of them.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfsmr {

enum class Reason : uint8_t {
  kNone,   // the contract names no word for it
  kOther,  // a word of another version's: only a client meets it
  kBadRequest,
  kBadMachine,
  kBadParams,
  kTooLarge,
  kBadFilter,
  kNoSuchMachine,
  kNoSuchMethod,  // of the HTTP door
  kNoSuchInstance,
  kNoSuchNode,
  kNoSuchToken,
  kNoSuchSchedule,
  kNoSuchTrigger,
  kNoSuchLimit,
  kNoSuchOccurrence,
  kNoSuchGroup,
  kNoSuchAgent,
  kNoSuchBulk,
  kNoSuchPackage,
  kNoSuchFile,
  kAgentExists,
  kAgentEvicted,
  kInstanceExists,
  kIllegalTransition,
  kStaleClaim,
  kNotHeld,
  kInstanceStopped,
  kCancelling,
  kAmbiguousNode,
  kSupersededVersion,
  kVersionExists,
  kIdTaken,
  kOwnedByPackage,
  kPackageInUse,
  kRetired,
  kActiveChanged,
  kNoPrevious,
  kDigestMismatch,
  kBadPackage,
  kBadArchive,
  kBadSignature,
  kSignatureMismatch,
  kUnsigned,
  kUntrustedKey,
  kKeyRevoked,
  kNoSuchKey,
  kKeyExists,
  kLimitReached,
  kNotVirtual,
  kCursorExpired,
  kCursorAhead,
  kTooMany,
  kOverloaded,
  kDiskFull,
  kNotReady,
  kNoOwner,
  kPeerUnreachable,
  kStoreUnreachable,
  kOutcomeUnknown,
  kNotEmbedded,
  kStoreFailed,
  kAuditFailed,
  kBadToken,
  kNotAllowed,
  kNoSuchNamespace,
  kNamespaceExists,
  kNamespaceFrozen,
  kNotFrozen,
  kNamespaceDeleting,
  kQuotaExceeded,
  kNoSuchSecret,
  kSecretsLocked,
  kInsecureChannel,
};

// The word that travels: "STALE_CLAIM". "" for kNone and kOther.
std::string_view Name(Reason reason);
// kNone for "", kOther for a word that is not in the table.
Reason ReasonNamed(std::string_view name);

}  // namespace dfsmr
