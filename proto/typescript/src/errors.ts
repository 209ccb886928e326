// Refused calls, by reason: proto/README.md of the repository says what each reason means.
import { Metadata, status, type ServiceError } from "@grpc/grpc-js";
import type { Diagnostic, ItemError } from "./messages";

/** A call that the server refused, or that did not reach it (then `reason` is empty). A reason that
 * this version does not know is one, with `reason` as the server gave it. */
export class DfsmrError extends Error {
  readonly reason: string;
  readonly code: status;
  /** Of a definition with errors. */
  readonly diagnostics: Diagnostic[];

  constructor(message: string, reason = "", code: status = status.UNKNOWN, diagnostics: Diagnostic[] = []) {
    super(message);
    this.reason = reason || ((new.target as { reason?: string }).reason ?? "");
    this.name = new.target.name;
    this.code = code;
    this.diagnostics = diagnostics;
  }
}

export class BadMachine extends DfsmrError { static readonly reason = "BAD_MACHINE"; }
export class BadParams extends DfsmrError { static readonly reason = "BAD_PARAMS"; }
export class BadRequest extends DfsmrError { static readonly reason = "BAD_REQUEST"; }
export class BadFilter extends DfsmrError { static readonly reason = "BAD_FILTER"; }
export class BadPackage extends DfsmrError { static readonly reason = "BAD_PACKAGE"; }
export class BadArchive extends DfsmrError { static readonly reason = "BAD_ARCHIVE"; }
export class BadSignature extends DfsmrError { static readonly reason = "BAD_SIGNATURE"; }
export class SignatureMismatch extends DfsmrError { static readonly reason = "SIGNATURE_MISMATCH"; }
export class DigestMismatch extends DfsmrError { static readonly reason = "DIGEST_MISMATCH"; }
export class TooLarge extends DfsmrError { static readonly reason = "TOO_LARGE"; }
export class NoSuchMachine extends DfsmrError { static readonly reason = "NO_SUCH_MACHINE"; }
export class NoSuchInstance extends DfsmrError { static readonly reason = "NO_SUCH_INSTANCE"; }
export class NoSuchNode extends DfsmrError { static readonly reason = "NO_SUCH_NODE"; }
export class NoSuchToken extends DfsmrError { static readonly reason = "NO_SUCH_TOKEN"; }
export class NoSuchSchedule extends DfsmrError { static readonly reason = "NO_SUCH_SCHEDULE"; }
export class NoSuchTrigger extends DfsmrError { static readonly reason = "NO_SUCH_TRIGGER"; }
export class NoSuchLimit extends DfsmrError { static readonly reason = "NO_SUCH_LIMIT"; }
export class NoSuchOccurrence extends DfsmrError { static readonly reason = "NO_SUCH_OCCURRENCE"; }
export class NoSuchGroup extends DfsmrError { static readonly reason = "NO_SUCH_GROUP"; }
export class NoSuchAgent extends DfsmrError { static readonly reason = "NO_SUCH_AGENT"; }
export class NoSuchBulk extends DfsmrError { static readonly reason = "NO_SUCH_BULK"; }
export class NoSuchPackage extends DfsmrError { static readonly reason = "NO_SUCH_PACKAGE"; }
export class NoSuchFile extends DfsmrError { static readonly reason = "NO_SUCH_FILE"; }
export class NoSuchKey extends DfsmrError { static readonly reason = "NO_SUCH_KEY"; }
export class NoSuchNamespace extends DfsmrError { static readonly reason = "NO_SUCH_NAMESPACE"; }
export class NoSuchSecret extends DfsmrError { static readonly reason = "NO_SUCH_SECRET"; }
export class NoSuchMethod extends DfsmrError { static readonly reason = "NO_SUCH_METHOD"; }
export class InstanceExists extends DfsmrError { static readonly reason = "INSTANCE_EXISTS"; }
export class AgentExists extends DfsmrError { static readonly reason = "AGENT_EXISTS"; }
export class VersionExists extends DfsmrError { static readonly reason = "VERSION_EXISTS"; }
export class KeyExists extends DfsmrError { static readonly reason = "KEY_EXISTS"; }
export class NamespaceExists extends DfsmrError { static readonly reason = "NAMESPACE_EXISTS"; }
export class IllegalTransition extends DfsmrError { static readonly reason = "ILLEGAL_TRANSITION"; }
export class StaleClaim extends DfsmrError { static readonly reason = "STALE_CLAIM"; }
export class NotHeld extends DfsmrError { static readonly reason = "NOT_HELD"; }
export class InstanceStopped extends DfsmrError { static readonly reason = "INSTANCE_STOPPED"; }
export class Cancelling extends DfsmrError { static readonly reason = "CANCELLING"; }
export class AgentEvicted extends DfsmrError { static readonly reason = "AGENT_EVICTED"; }
export class AmbiguousNode extends DfsmrError { static readonly reason = "AMBIGUOUS_NODE"; }
export class SupersededVersion extends DfsmrError { static readonly reason = "SUPERSEDED_VERSION"; }
export class IdTaken extends DfsmrError { static readonly reason = "ID_TAKEN"; }
export class OwnedByPackage extends DfsmrError { static readonly reason = "OWNED_BY_PACKAGE"; }
export class PackageInUse extends DfsmrError { static readonly reason = "PACKAGE_IN_USE"; }
export class Retired extends DfsmrError { static readonly reason = "RETIRED"; }
export class ActiveChanged extends DfsmrError { static readonly reason = "ACTIVE_CHANGED"; }
export class NoPrevious extends DfsmrError { static readonly reason = "NO_PREVIOUS"; }
export class Unsigned extends DfsmrError { static readonly reason = "UNSIGNED"; }
export class UntrustedKey extends DfsmrError { static readonly reason = "UNTRUSTED_KEY"; }
export class KeyRevoked extends DfsmrError { static readonly reason = "KEY_REVOKED"; }
export class SecretsLocked extends DfsmrError { static readonly reason = "SECRETS_LOCKED"; }
export class InsecureChannel extends DfsmrError { static readonly reason = "INSECURE_CHANNEL"; }
export class LimitReached extends DfsmrError { static readonly reason = "LIMIT_REACHED"; }
export class NotVirtual extends DfsmrError { static readonly reason = "NOT_VIRTUAL"; }
export class NamespaceFrozen extends DfsmrError { static readonly reason = "NAMESPACE_FROZEN"; }
export class NotFrozen extends DfsmrError { static readonly reason = "NOT_FROZEN"; }
export class NamespaceDeleting extends DfsmrError { static readonly reason = "NAMESPACE_DELETING"; }
export class NotEmbedded extends DfsmrError { static readonly reason = "NOT_EMBEDDED"; }
export class CursorExpired extends DfsmrError { static readonly reason = "CURSOR_EXPIRED"; }
export class CursorAhead extends DfsmrError { static readonly reason = "CURSOR_AHEAD"; }
export class Overloaded extends DfsmrError { static readonly reason = "OVERLOADED"; }
export class DiskFull extends DfsmrError { static readonly reason = "DISK_FULL"; }
export class QuotaExceeded extends DfsmrError { static readonly reason = "QUOTA_EXCEEDED"; }
export class TooMany extends DfsmrError { static readonly reason = "TOO_MANY"; }
export class NotReady extends DfsmrError { static readonly reason = "NOT_READY"; }
export class StoreFailed extends DfsmrError { static readonly reason = "STORE_FAILED"; }
export class AuditFailed extends DfsmrError { static readonly reason = "AUDIT_FAILED"; }
export class NoOwner extends DfsmrError { static readonly reason = "NO_OWNER"; }
export class PeerUnreachable extends DfsmrError { static readonly reason = "PEER_UNREACHABLE"; }
export class StoreUnreachable extends DfsmrError { static readonly reason = "STORE_UNREACHABLE"; }
export class OutcomeUnknown extends DfsmrError { static readonly reason = "OUTCOME_UNKNOWN"; }
export class BadToken extends DfsmrError { static readonly reason = "BAD_TOKEN"; }
export class NotAllowed extends DfsmrError { static readonly reason = "NOT_ALLOWED"; }

const BY_REASON = new Map<string, typeof DfsmrError>([
  BadMachine, BadParams, BadRequest, BadFilter, BadPackage, BadArchive, BadSignature,
  SignatureMismatch, DigestMismatch, TooLarge, NoSuchMachine, NoSuchInstance, NoSuchNode,
  NoSuchToken, NoSuchSchedule, NoSuchTrigger, NoSuchLimit, NoSuchOccurrence, NoSuchGroup,
  NoSuchAgent, NoSuchBulk, NoSuchPackage, NoSuchFile, NoSuchKey, NoSuchNamespace, NoSuchSecret,
  NoSuchMethod, InstanceExists, AgentExists, VersionExists, KeyExists, NamespaceExists,
  IllegalTransition, StaleClaim, NotHeld, InstanceStopped, Cancelling, AgentEvicted,
  AmbiguousNode, SupersededVersion, IdTaken, OwnedByPackage, PackageInUse, Retired,
  ActiveChanged, NoPrevious, Unsigned, UntrustedKey, KeyRevoked, SecretsLocked, InsecureChannel,
  LimitReached, NotVirtual, NamespaceFrozen, NotFrozen, NamespaceDeleting, NotEmbedded,
  CursorExpired, CursorAhead, Overloaded, DiskFull, QuotaExceeded, TooMany, NotReady,
  StoreFailed, AuditFailed, NoOwner, PeerUnreachable, StoreUnreachable, OutcomeUnknown,
  BadToken, NotAllowed,
].map((type) => [type.reason, type] as const));

function make(reason: string, message: string, code: status, diagnostics?: Diagnostic[]): DfsmrError {
  return new (BY_REASON.get(reason) ?? DfsmrError)(message, reason, code, diagnostics);
}

/** Of an Error inside a reply. */
export function ofItem(error: ItemError): DfsmrError {
  return make(error.reason, error.message, error.code);
}

/** Of a call that failed. `decode` reads the diagnostics of a definition. */
export function ofCall(error: unknown, decode?: (bytes: Buffer) => Diagnostic[]): DfsmrError {
  if (error instanceof DfsmrError) return error;
  const { code, details, message, metadata } = error as ServiceError;
  if (code === undefined) return new DfsmrError(message ?? String(error));
  const said = metadata instanceof Metadata ? metadata : new Metadata();
  const bytes = said.get("dfsmr-diagnostics-bin")[0];
  const diagnostics = decode && bytes instanceof Buffer ? decode(bytes) : [];
  return make(String(said.get("dfsmr-reason")[0] ?? ""), details ?? message, code, diagnostics);
}

const AGAIN = new Set([status.OK, status.UNAVAILABLE, status.RESOURCE_EXHAUSTED, status.CANCELLED,
  status.ABORTED, status.INTERNAL, status.UNKNOWN, status.DEADLINE_EXCEEDED]);

/** Whether a stream that ended so is opened again. */
export function isAgain(error: DfsmrError): boolean {
  return AGAIN.has(error.code);
}
