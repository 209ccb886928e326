#include "dsrv/calls/secrets.h"

#include "dsrv/access/tls.h"
#include "dsrv/engine/secrets.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr int kMostAsked = 100;

void Show(const rows::SecretRow& row, v1::Secret* out) {
  out->set_namespace_(row.ns);
  out->set_name(row.name);
  for (auto one = row.versions.rbegin(); one != row.versions.rend(); ++one) {
    v1::Secret::Version* to = out->add_versions();
    to->set_version(one->version);
    ToProto(one->create_time, to->mutable_create_time());
    to->set_created_by(one->created_by);
    to->set_key(one->key);
  }
}

// "db@3, tls".
std::string NamesOf(const ResolveCommand& command, const std::vector<uint32_t>& versions) {
  std::string text;
  for (size_t i = 0; i < command.names.size(); ++i) {
    text += (i > 0 ? ", " : "") + command.names[i];
    if (versions[i] > 0) text += "@" + std::to_string(versions[i]);
  }
  return text;
}

// Whether a peer, as gRPC writes it, is on this machine.
bool OnThisMachine(std::string peer) {
  if (peer.starts_with("unix:")) return true;
  const size_t scheme = peer.find(':');
  std::string host = peer.substr(scheme == peer.npos ? 0 : scheme + 1);
  for (const auto& [coded, plain] : {std::pair("%5B", "["), {"%5D", "]"}, {"[::ffff:", "["}}) {
    const size_t at = host.find(coded);
    if (at != host.npos) host.replace(at, std::string_view(coded).size(), plain);
  }
  if (host.starts_with("[127.")) {  // of IPv4, by a socket of IPv6
    host = host.substr(1, host.find(']') - 1) + ":0";
  }
  return IsLoopback(host);
}

}  // namespace

void SetSecretKeys(Loop& loop, SecretKeyring& ring, SecretKeysPtr keys) {
  ring.Set(keys);
  loop.Post({.run = [keys = std::move(keys)](Engine& engine) { engine.secrets().SetKeys(keys); },
             .drop = [] {},
             .owed = true});
}

// By operators ------------------------------------------------------------------------------------

Result<PutSecretCommand> ParsePutSecret(const v1::PutSecretRequest& request, const Call& call) {
  call.caller().On(request.name());
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = Required("secret", request.name());
  if (!checked) return checked.error();
  if (request.value().size() > Secrets::kBytes) {
    return TooLarge("the value", request.value().size(), Secrets::kBytes);
  }
  const Principal* who = call.caller().principal();
  return PutSecretCommand{*ns, request.name(), request.value(), who ? who->row.id : ""};
}

Result<rows::SecretRow> RunPutSecret(Engine& engine, const Caller&, PutSecretCommand& command) {
  return engine.secrets().Put(command.ns, command.name, command.value, command.by);
}

void ReplyPutSecret(const rows::SecretRow& row, const PutSecretCommand&, v1::Secret* reply) {
  Show(row, reply);
}

Result<DeleteSecretCommand> ParseDeleteSecret(const v1::DeleteSecretRequest& request,
                                              const Call& call) {
  call.caller().On(request.name(),
                   request.version() > 0 ? "version " + std::to_string(request.version()) : "");
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = Required("secret", request.name());
  if (!checked) return checked.error();
  return DeleteSecretCommand{*ns, request.name(), request.version()};
}

Result<rows::SecretRow> RunDeleteSecret(Engine& engine, const Caller&,
                                        DeleteSecretCommand& command) {
  return engine.secrets().Delete(command.ns, command.name, command.version);
}

void ReplyDeleteSecret(const rows::SecretRow& row, const DeleteSecretCommand&, v1::Secret* reply) {
  Show(row, reply);
}

Result<ListSecretsCommand> ParseListSecrets(const v1::ListSecretsRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  return ListSecretsCommand{*ns};
}

Result<Ok> SettleListSecrets(Engine&, const Caller&, const ListSecretsCommand&) { return Ok{}; }

Result<Ok> ReadListSecrets(const Reader& reader, const ListSecretsCommand& command,
                           v1::ListSecretsResponse* reply) {
  auto rows = rows::SecretsOf({reader.store, reader.partition}, command.ns);
  if (!rows) return rows.error();
  for (const rows::SecretRow& row : *rows) {
    Show(row, reply->add_secrets());
    for (const rows::SecretVersion& one : row.versions) ++(*reply->mutable_keys())[one.key];
  }
  return Ok{};
}

// By holders of claims ----------------------------------------------------------------------------

Result<ResolveCommand> ParseResolveSecrets(const v1::ResolveSecretsRequest& request,
                                           const Call& call) {
  const Backend& backend = call.backend();
  ResolveCommand command{.claim = ClaimRef(request.claim()),
                         .insecure = !backend.tls && !OnThisMachine(call.Peer()),
                         .keys = backend.secret_keys,
                         .versions = std::make_shared<std::vector<uint32_t>>()};
  for (const v1::ResolveSecretsRequest::Item& item : request.secrets()) {
    command.names.push_back(item.name());
    command.asked.push_back(item.version());
  }
  call.caller().On(request.instance(), NamesOf(command, command.asked));
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  command.ns = *ns;
  command.instance = request.instance();
  if (request.instance().empty() || request.claim().empty()) {
    return Bad("secrets are told to who has claimed a task: instance and claim must be given");
  }
  auto checked = CheckInstanceId(request.instance());
  if (checked && request.secrets_size() > kMostAsked) {
    checked =
        TooLarge("the list of secrets", static_cast<size_t>(request.secrets_size()), kMostAsked);
  }
  for (const std::string& name : command.names) {
    if (checked) checked = Required("secret", name);
  }
  if (!checked) return checked.error();
  return command;
}

Result<Ok> SettleResolveSecrets(Engine& engine, const Caller& caller,
                                const ResolveCommand& command) {
  if (command.insecure) {
    return Error{Code::kFailedPrecondition, Reason::kInsecureChannel,
                 "a secret is told over TLS or on the server's own machine only: start dsrv with "
                 "--tls-cert and --tls-key, and let the worker connect by TLS"};
  }
  auto may = caller.MayReport(engine, command.ns, command.instance, command.claim);
  if (may)
    may = engine.secrets().MayAsk(command.ns, command.instance, command.claim, command.names);
  if (may) may = caller.MayResolve(command.names);
  if (!may) return may;
  for (size_t i = 0; i < command.names.size(); ++i) {
    auto version = engine.secrets().VersionOf(command.ns, command.names[i], command.asked[i]);
    if (!version) return version.error();
    command.versions->push_back(*version);
  }
  caller.On(command.instance, NamesOf(command, *command.versions));
  return Ok{};
}

Result<Ok> ReadResolveSecrets(const Reader& reader, const ResolveCommand& command,
                              v1::ResolveSecretsResponse* reply) {
  const rows::Reader rows{reader.store, kHome};
  v1::ResolveSecretsResponse values;
  size_t bytes = 0;
  for (size_t i = 0; i < command.names.size(); ++i) {
    const std::string& name = command.names[i];
    const uint32_t version = (*command.versions)[i];
    auto sealed = rows::GetSealed(rows, command.ns, name, version);
    if (!sealed) return sealed.error();
    if (!*sealed) return NoSuchSecret(command.ns, name, version);  // deleted meanwhile
    const SealedValue value{command.ns, name, version, **std::move(sealed), command.keys.Get()};
    auto open = value.Open();
    if (!open) return open.error();
    bytes += open->size() + name.size() + 16;
    if (bytes > kReplyBytes) {
      return TooLarge("the answer", bytes, kReplyBytes);
    }
    v1::ResolveSecretsResponse::Value* to = values.add_secrets();
    to->set_name(name);
    to->set_version(version);
    to->set_value(*std::move(open));
  }
  reply->Swap(&values);
  return Ok{};
}

}  // namespace dfsmr
