#include "dsrv/calls/trust.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/method.h"
#include "dsrv/calls/signatures.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/packages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kKeyLine = 4 << 10;
constexpr size_t kBlockedBytes = 3 << 20;  // of the versions in one answer

// As a principal of an allowed_signers file has to be, where a name becomes one.
Result<Ok> CheckKeyName(const std::string& name) {
  if (name.empty()) return Bad("the name of the key is missing");
  auto sound = CheckWorker("the name of the key", name);
  if (!sound) return sound;
  const bool fingerprint = name.starts_with("SHA256:");
  if (!fingerprint && name.find_first_of(" \t\"#,*?!") == std::string::npos) return sound;
  return Bad("the name of the key is " + Quoted(name) +
             (fingerprint ? ", which would be a fingerprint: choose one such as 'ann'"
                          : ": it has no space and none of \" # , * ? !, such as 'ann'"));
}

// One signature on its way: what it is of is looked up in the loop, it is checked in the pool, and
// kept in the loop.
class SignCall : public std::enable_shared_from_this<SignCall> {
 public:
  SignCall(Call& call, std::string ns, const v1::SignPackageRequest& request, GivenSignatures given,
           v1::PackageVersion* reply)
      : call_(call),
        ns_(std::move(ns)),
        request_(request),
        given_(std::move(given)),
        reply_(reply) {}

  void Begin() {
    PostFor(call_, 0, [self = shared_from_this()](Engine& engine) {
      auto may = engine.MayChange(self->ns_);
      auto known =
          engine.packages().Find(self->ns_, self->request_.package(), self->request_.version());
      if (!may || !known) return self->Fail(engine, may ? known.error() : may.error());
      self->version_ = known->version;
      engine.AfterCommit([self] { self->call_.backend().pool.Post([self] { self->Verify(); }); });
    });
  }

 private:
  void Fail(Engine& engine, const Error& error) {
    engine.AfterCommit([self = shared_from_this(), error] { self->call_.Fail(error); });
  }

  Result<Ok> Check() {
    const Moment moment(call_.backend().reader);
    auto row = rows::GetPackageVersion(moment.rows, ns_, version_->package, version_->version);
    if (!row) return row.error();
    if (!*row || (*row)->removed) {
      return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
    }
    auto hashes = HashesOf(moment, **row);
    return hashes ? VerifyAll(given_, *hashes) : hashes.error();
  }

  void Verify() {
    if (auto good = Check(); !good) return call_.Fail(good.error());
    PostFor(call_, 0, [self = shared_from_this()](Engine& engine) { self->Keep(engine); });
  }

  void Keep(Engine& engine) {
    auto may = engine.MayChange(ns_);
    if (may) may = engine.packages().trust().Sign(*version_, RowsOf(given_, IdOf(call_.caller())));
    if (!may) return Fail(engine, may.error());
    seen_ = See(engine.packages(), *version_);
    engine.AfterCommit([self = shared_from_this()] {
      self->call_.backend().pool.Post([self] {
        const Moment moment(self->call_.backend().reader);
        auto shown = ShowPackage(moment, self->ns_, self->seen_, self->reply_);
        shown ? self->call_.Succeed() : self->call_.Fail(shown.error());
      });
    });
  }

  Call& call_;
  const std::string ns_;
  const v1::SignPackageRequest& request_;
  const GivenSignatures given_;
  v1::PackageVersion* const reply_;
  PackageVersionPtr version_;
  SeenPackage seen_;
};

void ToProto(const rows::TrustedKeyRow& key, v1::TrustedKey* out) {
  out->set_name(key.name);
  out->set_fingerprint(key.fingerprint);
  out->set_public_key(key.public_key);
  dfsmr::ToProto(key.create_time, out->mutable_create_time());
  out->set_created_by(key.created_by);
  if (key.Revoked()) dfsmr::ToProto(key.revoke_time, out->mutable_revoke_time());
}

}  // namespace

void ServeSignPackage(Call& call, const v1::SignPackageRequest& request,
                      v1::PackageVersion* reply) {
  call.caller().On(request.package() + "@" + request.version());
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return call.Refuse(ns.error());
  if (request.version().empty()) return call.Refuse(Bad("the version to sign is missing"));
  auto given = ParseSignatures({request.signature()});
  if (!given) return call.Refuse(given.error());
  if (!call.Enter()) return;
  std::make_shared<SignCall>(call, *std::move(ns), request, *std::move(given), reply)->Begin();
}

Result<KeyCommand> ParseAddTrustedKey(const v1::AddTrustedKeyRequest& request, const Call& call) {
  call.caller().On(request.name());
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto name = CheckKeyName(request.name()); !name) return name.error();
  if (request.public_key().size() > kKeyLine) {
    return TooLarge("the public key", request.public_key().size(), kKeyLine);
  }
  auto key = ParsePublicKey(request.public_key());
  if (!key) return key.error();
  call.caller().On(request.name(), Fingerprint(*key));
  return KeyCommand{*std::move(ns),
                    {request.name(), Fingerprint(*key), LineOf(*key), {}, IdOf(call.caller()), {}}};
}

Result<rows::TrustedKeyRow> RunAddTrustedKey(Engine& engine, const Caller&, KeyCommand& command) {
  return engine.packages().trust().Add(command.ns, command.key);
}

void ReplyAddTrustedKey(const rows::TrustedKeyRow& key, const KeyCommand&, v1::TrustedKey* reply) {
  ToProto(key, reply);
}

Result<KeysCommand> ParseListTrustedKeys(const v1::ListTrustedKeysRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  return KeysCommand{*std::move(ns)};
}

Result<std::vector<rows::TrustedKeyRow>> RunListTrustedKeys(Engine& engine, const Caller&,
                                                            KeysCommand& command) {
  return engine.packages().trust().KeysOf(command.ns);
}

void ReplyListTrustedKeys(const std::vector<rows::TrustedKeyRow>& keys, const KeysCommand&,
                          v1::ListTrustedKeysResponse* reply) {
  for (const rows::TrustedKeyRow& key : keys) ToProto(key, reply->add_keys());
}

Result<RevokeKeyCommand> ParseRevokeTrustedKey(const v1::RevokeTrustedKeyRequest& request,
                                               const Call& call) {
  call.caller().On(request.key());
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (request.key().empty()) return Bad("the name or fingerprint of the key is missing");
  return RevokeKeyCommand{*std::move(ns), request.key(),
                          std::make_shared<RevokeKeyCommand::Found>()};
}

Result<Ok> SettleRevokeTrustedKey(Engine& engine, const Caller&, const RevokeKeyCommand& command) {
  if (auto may = engine.MayChange(command.ns); !may) return may;
  Packages& packages = engine.packages();
  auto revoked = packages.trust().Revoke(command.ns, command.key);
  if (!revoked) return revoked.error();
  command.found->key = *std::move(revoked);
  for (const PackageVersionPtr& one : packages.trust().InUse(command.ns, Verdict::kRevoked)) {
    SeenPackage seen = See(packages, *one);
    const auto& signers = seen.standing.trust.signers;
    const auto by =
        std::ranges::find(signers, command.found->key.fingerprint, &TrustView::Signer::fingerprint);
    if (by != signers.end()) command.found->blocked.push_back(std::move(seen));
  }
  return Ok{};
}

Result<Ok> ReadRevokeTrustedKey(const Reader& reader, const RevokeKeyCommand& command,
                                v1::RevokeTrustedKeyResponse* reply) {
  ToProto(command.found->key, reply->mutable_key());
  const Moment moment(reader);
  size_t bytes = 0;
  for (const SeenPackage& seen : command.found->blocked) {
    v1::PackageVersion shown;
    auto read = ShowPackage(moment, command.ns, seen, &shown);
    if (!read) return read;
    shown.clear_manifest();
    shown.clear_documents();
    shown.clear_workers();
    if ((bytes += shown.ByteSizeLong()) > kBlockedBytes) break;
    *reply->add_blocked() = std::move(shown);
  }
  return Ok{};
}

}  // namespace dfsmr
