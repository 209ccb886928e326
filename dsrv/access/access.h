// Admits callers: finds out who calls and whether the caller may, and writes the audit trail. Every
// call of every protocol is admitted here first. (gRPC 1.51 offers no single place for that: an
// interceptor cannot stop a call, and its AuthMetadataProcessor aborts the process on a port
// without TLS.)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dsrv/access/audit.h"
#include "dsrv/access/credentials.h"
#include "dsrv/access/roles.h"
#include "dsrv/engine/engine.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Where a call comes from, as far as its protocol can tell. Valid while the call is under way.
class Origin {
 public:
  virtual ~Origin() = default;
  virtual std::string Peer() const = 0;  // the address
  // The text after "Bearer" in the call's authorization; empty: there is none.
  virtual std::string_view Bearer() const = 0;
  // The common name in the client's certificate; empty: it showed none.
  virtual std::string Certificate() const = 0;
  // By which door it came, where not by gRPC's port: "http".
  virtual std::string_view Door() const { return {}; }
  // By which the caller and a proxy in front know it; empty: they do not.
  virtual std::string RequestId() const { return {}; }
  // The namespaces that the call enters besides those of its request, with a zero between two: it
  // is a part of one that enters them.
  virtual std::string_view Besides() const { return {}; }
};

// The caller of one call. Copies cheaply. Empty when the server asks for no credentials and keeps
// no audit trail; then everything is allowed. Any thread, also after the call.
class Caller {
 public:
  Caller() = default;

  // Whether what is in this namespace (empty: "default") is shown to the caller. To leave something
  // out is no refusal, so unlike MayEnter it notes nothing.
  bool Sees(std::string_view ns) const;
  // Whether the caller may enter this namespace, too (empty: "default").
  Result<Ok> MayEnter(std::string_view ns) const;
  // Whether the caller may take the tasks that the filter asks for. A worker whose credential is
  // limited to one machine or queue need not name it: the filter is narrowed to it.
  Result<Ok> Narrow(Filter* filter) const;
  Result<Ok> MayStart(const std::string& machine, bool flow) const;
  // Whether the caller may start an instance past all limits.
  Result<Ok> MayForce() const;
  // Whether the caller may do what concerns the server as a whole: an admin of all namespaces.
  Result<Ok> MayInAll(std::string_view what) const;
  // Whether the caller may report on a claim, extend it or give it back. Without a claim this is
  // decided by the rule for calls from outside. In the loop.
  Result<Ok> MayReport(Engine& engine, const std::string& ns, const std::string& instance,
                       const ClaimRef& claim) const;
  // Whether the caller's credential was made for these secrets.
  Result<Ok> MayResolve(const std::vector<std::string>& secrets) const;
  Result<Ok> MaySee(Engine& engine, const std::string& ns, const std::string& instance) const;
  // The error for what this caller may not, by a rule of the method; the audit trail has it then.
  // REQUIRES: the caller has been admitted by a credential.
  Error Refused(std::string_view why) const { return Denied(info_->deed, info_->ns, why); }

  // Null when the server asks for no credentials.
  const Principal* principal() const { return info_ ? info_->who.get() : nullptr; }

  // Notes what the call is about, for the audit trail. One thread at a time.
  void On(std::string_view ids, std::string_view detail = "") const {
    if (Audited()) NoteOn(ids, detail);
  }
  // Whether the audit trail has to say what this call changes.
  bool Audited() const {
    return info_ && info_->audit &&
           (info_->deed.method->told || (Changer() && info_->deed.changes()));
  }
  // Whether it has to say what an item of this call changes that comes from outside, or starts.
  bool AuditedOutside() const { return info_ && info_->audit && Changer(); }
  // An error when it has to, and cannot.
  Result<Ok> MayNoteOutside() const { return AuditedOutside() ? info_->audit->Ready() : Ok{}; }
  // Says in the audit trail how a change ended. Does nothing when the call is not Audited.
  void Note(const Error* error) const {
    if (Audited()) NoteOutside(info_->on, info_->detail, error);
  }
  void NoteOutside(std::string_view on, std::string_view detail, const Error* error) const;

 private:
  friend class Access;
  struct Info {
    Deed deed;
    PrincipalPtr who;  // null when the server asks for no credentials
    Audit* audit = nullptr;
    std::string ns;
    std::string peer;
    std::string certificate;
    std::string door;
    std::string request_id;
    std::string on;
    std::string detail;
  };
  void NoteOn(std::string_view ids, std::string_view detail) const;
  bool Changer() const { return !info_->who || Among(info_->who->role(), kChangers); }
  AuditEntry Entry() const;
  Error Denied(const Deed& deed, std::string_view ns, std::string_view why) const;
  // "S/M takes the role viewer in namespace 'a'; this token has the role …". Without a namespace
  // when it is not known yet.
  static std::string WrongRole(const Deed& deed, std::optional<std::string_view> ns,
                               const Principal& who);

  std::shared_ptr<Info> info_;
};

// A call that goes on for a while, and ends when its caller's credential does.
class Revocable {
 public:
  virtual ~Revocable() = default;
  virtual void Revoke(const Error& error) = 0;  // any thread; may come late or twice
};

class Access {
 public:
  struct Options {
    bool asks = false;  // every call for a credential; false: only methods that always ask do
    // A file whose content is the access token of an admin of all namespaces. Empty: there is none.
    std::string admin_token_file;
    bool mutual_tls = false;
    Audit* told = nullptr;  // the trail of methods that are always told, where there is no other
    std::function<Timestamp()> clock;
  };
  // Reads the store's credentials. Fails when the file cannot be read, or when nobody could ever be
  // admitted. `audit` null: there is no audit trail.
  static Result<std::unique_ptr<Access>> Open(Options options, const Store& store,
                                              PartitionId partition, Audit* audit);
  ~Access();

  // UNAUTHENTICATED, PERMISSION_DENIED, or the caller; `ns` is the request's (empty: "default").
  Result<Caller> Admit(const Origin& origin, const Deed& deed, std::string_view ns) const;
  // The same when the namespace is not known yet: Caller::MayEnter has to follow.
  Result<Caller> AdmitAnywhere(const Origin& origin, const Deed& deed) const;

  // Ends `call` when the caller's credential is revoked or expires, within a second of it.
  void Watch(const Caller& caller, std::weak_ptr<Revocable> call);

  // Reads the store's credentials anew: those that are gone let nobody in any more. Any thread, one
  // at a time.
  Result<Ok> Reload(const Store& store, PartitionId partition);
  // The rows of a namespace's credentials are gone: nobody gets in with them any more.
  void RevokeAll(const std::string& ns);
  CredentialBook& book() { return book_; }
  // Ends the open calls whose caller's credential has been revoked, at once.
  void Sweep();

 private:
  explicit Access(Options options, Audit* audit);

  // nullopt: the namespace is not known yet.
  Result<Caller> Enter(const Origin& origin, const Deed& deed,
                       std::optional<std::string_view> ns) const;
  PrincipalPtr WhoIs(const Origin& origin, const Method& method) const;
  void AddSession(rows::CredentialRow row);
  Result<Ok> ReadAdminFile();
  void Tend();
  void EndInvalid();

  const Options options_;
  Audit* const audit_;
  CredentialBook book_;
  PrincipalPtr admin_;  // of the admin token file
  std::string admin_problem_;

  struct Lease {
    PrincipalPtr who;
    std::weak_ptr<Revocable> call;
  };
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Lease> leases_ GUARDED(mutex_);
  bool sweep_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
  std::thread tender_;
};

// The id of the credential in the admin token file.
inline constexpr std::string_view kAdminFile = "admin-token-file";

// The error for every invalid credential: it does not say what is wrong with it.
Error BadCredential();

}  // namespace dfsmr
