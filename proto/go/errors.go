package dfsmr

import (
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "dfsmr/v1"
)

// Error is a call that the server refused, or that did not reach it (then Reason is empty).
// errors.Is(err, dfsmr.StaleClaim) asks for its reason.
type Error struct {
	Reason      Reason
	Message     string
	Code        codes.Code
	Diagnostics []*v1.Diagnostic // of a definition with errors
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Message + " (" + e.Code.String() + ")"
	}
	return e.Message + " (" + string(e.Reason) + ")"
}

// Is says whether target is the reason.
func (e *Error) Is(target error) bool {
	reason, ok := target.(Reason)
	return ok && reason == e.Reason
}

// GRPCStatus has status.Code and status.Convert know the code.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// Reason says why a call was refused: proto/README.md of the repository explains them. It is an
// error only to be asked for by errors.Is.
type Reason string

func (r Reason) Error() string { return string(r) }

// The reasons that this version knows.
const (
	BadMachine        Reason = "BAD_MACHINE"
	BadParams         Reason = "BAD_PARAMS"
	BadRequest        Reason = "BAD_REQUEST"
	BadFilter         Reason = "BAD_FILTER"
	BadPackage        Reason = "BAD_PACKAGE"
	BadArchive        Reason = "BAD_ARCHIVE"
	BadSignature      Reason = "BAD_SIGNATURE"
	SignatureMismatch Reason = "SIGNATURE_MISMATCH"
	DigestMismatch    Reason = "DIGEST_MISMATCH"
	TooLarge          Reason = "TOO_LARGE"
	NoSuchMachine     Reason = "NO_SUCH_MACHINE"
	NoSuchInstance    Reason = "NO_SUCH_INSTANCE"
	NoSuchNode        Reason = "NO_SUCH_NODE"
	NoSuchToken       Reason = "NO_SUCH_TOKEN"
	NoSuchSchedule    Reason = "NO_SUCH_SCHEDULE"
	NoSuchTrigger     Reason = "NO_SUCH_TRIGGER"
	NoSuchLimit       Reason = "NO_SUCH_LIMIT"
	NoSuchOccurrence  Reason = "NO_SUCH_OCCURRENCE"
	NoSuchGroup       Reason = "NO_SUCH_GROUP"
	NoSuchAgent       Reason = "NO_SUCH_AGENT"
	NoSuchBulk        Reason = "NO_SUCH_BULK"
	NoSuchPackage     Reason = "NO_SUCH_PACKAGE"
	NoSuchFile        Reason = "NO_SUCH_FILE"
	NoSuchKey         Reason = "NO_SUCH_KEY"
	NoSuchNamespace   Reason = "NO_SUCH_NAMESPACE"
	NoSuchSecret      Reason = "NO_SUCH_SECRET"
	NoSuchMethod      Reason = "NO_SUCH_METHOD"
	InstanceExists    Reason = "INSTANCE_EXISTS"
	AgentExists       Reason = "AGENT_EXISTS"
	VersionExists     Reason = "VERSION_EXISTS"
	KeyExists         Reason = "KEY_EXISTS"
	NamespaceExists   Reason = "NAMESPACE_EXISTS"
	IllegalTransition Reason = "ILLEGAL_TRANSITION"
	StaleClaim        Reason = "STALE_CLAIM"
	NotHeld           Reason = "NOT_HELD"
	InstanceStopped   Reason = "INSTANCE_STOPPED"
	Cancelling        Reason = "CANCELLING"
	AgentEvicted      Reason = "AGENT_EVICTED"
	AmbiguousNode     Reason = "AMBIGUOUS_NODE"
	SupersededVersion Reason = "SUPERSEDED_VERSION"
	IDTaken           Reason = "ID_TAKEN"
	OwnedByPackage    Reason = "OWNED_BY_PACKAGE"
	PackageInUse      Reason = "PACKAGE_IN_USE"
	Retired           Reason = "RETIRED"
	ActiveChanged     Reason = "ACTIVE_CHANGED"
	NoPrevious        Reason = "NO_PREVIOUS"
	Unsigned          Reason = "UNSIGNED"
	UntrustedKey      Reason = "UNTRUSTED_KEY"
	KeyRevoked        Reason = "KEY_REVOKED"
	SecretsLocked     Reason = "SECRETS_LOCKED"
	InsecureChannel   Reason = "INSECURE_CHANNEL"
	LimitReached      Reason = "LIMIT_REACHED"
	NotVirtual        Reason = "NOT_VIRTUAL"
	NamespaceFrozen   Reason = "NAMESPACE_FROZEN"
	NotFrozen         Reason = "NOT_FROZEN"
	NamespaceDeleting Reason = "NAMESPACE_DELETING"
	NotEmbedded       Reason = "NOT_EMBEDDED"
	CursorExpired     Reason = "CURSOR_EXPIRED"
	CursorAhead       Reason = "CURSOR_AHEAD"
	Overloaded        Reason = "OVERLOADED"
	DiskFull          Reason = "DISK_FULL"
	QuotaExceeded     Reason = "QUOTA_EXCEEDED"
	TooMany           Reason = "TOO_MANY"
	NotReady          Reason = "NOT_READY"
	StoreFailed       Reason = "STORE_FAILED"
	AuditFailed       Reason = "AUDIT_FAILED"
	NoOwner           Reason = "NO_OWNER"
	PeerUnreachable   Reason = "PEER_UNREACHABLE"
	StoreUnreachable  Reason = "STORE_UNREACHABLE"
	OutcomeUnknown    Reason = "OUTCOME_UNKNOWN"
	BadToken          Reason = "BAD_TOKEN"
	NotAllowed        Reason = "NOT_ALLOWED"
)

// ofCall makes an Error of a failed call and its trailer.
func ofCall(err error, trailer metadata.MD) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	of, ok := status.FromError(err)
	if !ok {
		return err
	}
	made := &Error{Message: of.Message(), Code: of.Code()}
	if found := trailer.Get("dfsmr-reason"); len(found) > 0 {
		made.Reason = Reason(found[0])
	}
	if found := trailer.Get("dfsmr-diagnostics-bin"); len(found) > 0 {
		var reply v1.DefineResponse
		if proto.Unmarshal([]byte(found[0]), &reply) == nil {
			made.Diagnostics = reply.Diagnostics
		}
	}
	return made
}

// ofItem makes an Error of one inside a reply.
func ofItem(err *v1.Error) *Error {
	return &Error{Reason: Reason(err.Reason), Message: err.Message, Code: codes.Code(err.Code)}
}

// again says whether a stream that ended so is opened again.
func again(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Unavailable, codes.ResourceExhausted, codes.Canceled, codes.Aborted,
		codes.Internal, codes.Unknown, codes.DeadlineExceeded:
		return true
	}
	return false
}

// errorStream makes Errors of what ends a stream.
type errorStream struct{ grpc.ClientStream }

func (s errorStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if _, ok := status.FromError(err); err != nil && ok {
		return ofCall(err, s.Trailer())
	}
	return err
}
