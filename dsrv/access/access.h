// The door: who calls, whether this caller may, and what is to be noted of it. Every method of ours
// asks here first. (gRPC 1.51 has no place to do it once: an interceptor cannot stop a call, and
// its AuthMetadataProcessor aborts the process on a port without TLS.)
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
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

// One call's caller. Copies cheaply; empty, and then everything is allowed, where nobody is asked
// and nothing is noted. Any thread, also after the call.
class Caller {
 public:
  Caller() = default;

  // Whether it is let into this namespace, too (empty: "default"), as the call's own was.
  Result<Ok> MayEnter(const std::string& ns) const;
  // Whether it may take what the filter asks for. A limited worker's filter that says nothing is
  // narrowed to what it is limited to, where that is one.
  Result<Ok> Narrow(Filter* filter) const;
  Result<Ok> MayStart(const std::string& machine, bool flow) const;
  // Whether it may report on a claim, extend it or give it back; or, without one, do so from
  // outside. In the loop.
  Result<Ok> MayReport(Engine& engine, const std::string& ns, const std::string& instance,
                       const std::string& claim) const;
  Result<Ok> MaySee(Engine& engine, const std::string& ns, const std::string& instance) const;

  // Null where nobody is asked.
  const Principal* principal() const { return info_ ? info_->who.get() : nullptr; }

  // What the call is about, for the audit trail. One thread at a time.
  void On(std::string_view ids, std::string_view detail = "") const;
  // Whether what it changes goes into the audit trail; always so for what comes from outside.
  bool Audited() const { return info_ && info_->audit && info_->method->changes && Changer(); }
  bool AuditedOutside() const { return info_ && info_->audit && Changer(); }
  // How a change ended. Does nothing when it is not Audited.
  void Note(const Error* error) const;
  void NoteOutside(std::string_view on, std::string_view detail, const Error* error) const;

 private:
  friend class Access;
  struct Info {
    const Method* method = nullptr;
    PrincipalPtr who;  // null where nobody is asked
    Audit* audit = nullptr;
    std::string ns;
    std::string peer;
    std::string certificate;
    std::string on;
    std::string detail;
  };
  bool Changer() const { return !info_->who || Among(info_->who->role(), kChangers); }
  AuditEntry Entry() const;
  Error Denied(const Method& method, std::string_view ns, std::string_view why) const;

  std::shared_ptr<Info> info_;
};

// A call that goes on for a while, and ends when the token that it came with does.
class Revocable {
 public:
  virtual ~Revocable() = default;
  virtual void Revoke(const Error& error) = 0;  // any thread; may come late or twice
};

class Access {
 public:
  struct Options {
    bool asks = false;             // for tokens; else they are looked at by the token service only
    std::string admin_token_file;  // whose content lets an admin of all namespaces in; may be empty
    bool mutual_tls = false;
    std::function<Timestamp()> clock;
  };
  // Reads the tokens of the store. Fails when the file cannot be read or nobody could ever get in.
  // `audit` may be null.
  static Result<std::unique_ptr<Access>> Open(Options options, const Store& store,
                                              PartitionId partition, Audit* audit);
  ~Access();

  // UNAUTHENTICATED, PERMISSION_DENIED, or the caller; `ns` is the request's.
  Result<Caller> Admit(const grpc::CallbackServerContext& context, const Method& method,
                       std::string_view ns) const;
  // The same where the namespace is not known yet: Caller::MayEnter is for later.
  Result<Caller> AdmitAnywhere(const grpc::CallbackServerContext& context,
                               const Method& method) const;
  // The same for a method that asks for a token whether the others do or not. Its caller has a
  // principal. `anywhere`: what it may touch is looked at later.
  Result<Caller> AdmitToken(const grpc::CallbackServerContext& context, const Method& method,
                            std::string_view ns, bool anywhere) const;

  // Ends `call` when the caller's token is revoked or expires, within a second of it.
  void Watch(const Caller& caller, std::weak_ptr<Revocable> call);

  TokenBook& book() { return book_; }
  // Call it when one was revoked, so that what it has open ends at once.
  void Sweep();

 private:
  explicit Access(Options options, Audit* audit);

  Result<Caller> Enter(const grpc::CallbackServerContext& context, const Method& method,
                       std::string_view ns, bool ask, bool anywhere) const;
  PrincipalPtr WhoIs(const grpc::CallbackServerContext& context) const;
  Result<Ok> ReadAdminFile();
  void Tend();
  void EndInvalid();

  const Options options_;
  Audit* const audit_;
  TokenBook book_;
  PrincipalPtr admin_;  // of the file
  std::string admin_problem_;

  struct Lease {
    PrincipalPtr who;
    std::weak_ptr<Revocable> call;
  };
  Mutex mutex_;
  Condition changed_;
  std::vector<Lease> leases_ GUARDED(mutex_);
  bool sweep_ GUARDED(mutex_) = false;
  bool ended_ GUARDED(mutex_) = false;
  std::thread tender_;
};

// The id of what is in the admin token file.
inline constexpr std::string_view kAdminFile = "admin-token-file";

// The one text for all that is wrong with a token.
Error BadToken();

}  // namespace dfsmr
