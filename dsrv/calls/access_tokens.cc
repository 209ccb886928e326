#include "dsrv/calls/access_tokens.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dsrv/engine/namespaces.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/fit.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kMostCredentials = 10'000;
constexpr int kMostNames = 100;        // machines, or queues, that a credential may be limited to
constexpr size_t kMostSessions = 100;  // of a credential; and as many codes
constexpr auto kSessionTime = std::chrono::hours(12);
constexpr auto kCodeTime = std::chrono::seconds(60);
constexpr auto kKeptExpired = std::chrono::hours(24 * 7);  // after that the next one made drops it

Error NoSuchCredential(const std::string& id) {
  return {Code::kNotFound, Reason::kNoSuchToken, "there is no token " + Quoted(id)};
}

void Show(const rows::CredentialRow& row, v1::AccessToken* out) {
  out->set_id(row.id);
  out->set_name(row.name);
  out->set_namespace_(row.ns);
  out->set_role(static_cast<AccessRole>(row.role));
  for (const std::string& machine : row.machines) out->add_machines(machine);
  for (const std::string& queue : row.queues) out->add_queues(queue);
  ToProto(row.create_time, out->mutable_create_time());
  if (row.expire_time != kNever) ToProto(row.expire_time, out->mutable_expire_time());
  out->set_created_by(row.created_by);
  out->set_parent(row.parent);
  out->mutable_secrets()->Assign(row.secrets.begin(), row.secrets.end());
}

Result<std::vector<std::string>> ToNames(
    std::string_view what, const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (names.size() > kMostNames) {
    return Bad("a token is limited to at most " + std::to_string(kMostNames) + " " +
               std::string(what) + "s");
  }
  for (const std::string& name : names) {
    if (auto problem = NameProblem(what, name)) return Bad(*problem);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

// Names, and patterns with one * at their end.
Result<std::vector<std::string>> ToSecrets(
    const google::protobuf::RepeatedPtrField<std::string>& patterns) {
  if (patterns.size() > kMostNames) {
    return Bad("a token is made for at most " + std::to_string(kMostNames) +
               " names and patterns of secrets");
  }
  for (const std::string& pattern : patterns) {
    if (auto problem = SecretPatternProblem(pattern)) return Bad(*problem);
  }
  return std::vector<std::string>(patterns.begin(), patterns.end());
}

Result<rows::CredentialRow> ToRow(const v1::CreateTokenRequest& request, Timestamp now) {
  rows::CredentialRow row;
  row.ns = request.namespace_().empty() ? "default" : request.namespace_();
  if (row.ns != "*") {
    if (auto problem = NameProblem("namespace", row.ns)) return Bad(*problem);
  }
  if (!v1::AccessToken::Role_IsValid(request.role()) ||
      request.role() == v1::AccessToken::ROLE_UNSPECIFIED) {
    return Bad("a token has one of the roles " + NamesOf(kAnybody));
  }
  row.role = static_cast<uint32_t>(request.role());
  if (!request.name().empty() && !ValidWorkerName(request.name())) {
    return Bad("the name of a token is at most " + std::to_string(limits::kWorkerName) +
               " characters that can be printed");
  }
  row.name = request.name();
  auto machines = ToNames("machine", request.machines());
  if (!machines) return machines.error();
  auto queues = ToNames("queue", request.queues());
  if (!queues) return queues.error();
  row.machines = *std::move(machines);
  row.queues = *std::move(queues);
  if (row.role != v1::AccessToken::WORKER && !(row.machines.empty() && row.queues.empty())) {
    return Bad("only a worker's token is limited to machines and queues, not one with the role " +
               std::string(NameOf(request.role())));
  }
  auto secrets = ToSecrets(request.secrets());
  if (!secrets) return secrets.error();
  row.secrets = *std::move(secrets);
  if (row.role != v1::AccessToken::WORKER && !row.secrets.empty()) {
    return Bad("only a worker's token is made for secrets, not one with the role " +
               std::string(NameOf(request.role())) + ": who runs no tasks reads none");
  }
  row.create_time = now;
  if (request.has_expire_time()) {
    const int64_t seconds = request.expire_time().seconds();
    // Far beyond what a timestamp may hold is never.
    if (seconds < 253'402'300'800) {
      row.expire_time = FromMicros(seconds * 1'000'000 + request.expire_time().nanos() / 1'000);
    }
    if (row.expire_time <= now) return Bad("expire_time has passed already");
  }
  return row;
}

// Its holder gets in no more, from now on and after a restart.
void Drop(Engine& engine, CredentialBook& book, const PrincipalPtr& one) {
  rows::DropCredential(engine.writer(), one->row.id);
  book.Remove(one);
}

// Whether who has the role `has` may do all that the role `wants` may.
bool Covers(AccessRole has, AccessRole wants) {
  return has == wants || has == v1::AccessToken::ADMIN ||
         (has == v1::AccessToken::OPERATOR && wants < has);
}

}  // namespace

Result<NewCredential> ParseCreateToken(const v1::CreateTokenRequest& request, const Call& call) {
  auto row = ToRow(request, call.backend().clock());
  if (!row) return row.error();
  row->id = RandomHex(6);
  row->created_by = call.caller().principal()->row.id;
  std::string secret = "dfsmr_" + row->id + "_" + RandomHex(32);
  row->hash = HashOf(secret);
  call.caller().On(row->id, std::string(NameOf(request.role())) + " in " + row->ns +
                                (row->name.empty() ? "" : " for " + row->name) +
                                (row->secrets.empty() ? "" : ", with secrets"));
  return NewCredential{call.backend().access, *std::move(row), std::move(secret)};
}

Result<PrincipalPtr> RunCreateToken(Engine& engine, const Caller&, NewCredential& made) {
  if (made.row.ns != "*") {
    auto used = engine.namespaces().Use(made.row.ns);
    if (!used) return used.error();
  }
  CredentialBook& book = made.access.book();
  const auto all = book.All();
  const auto count =
      std::ranges::count_if(all, [](const PrincipalPtr& one) { return one->row.parent.empty(); });
  if (static_cast<size_t>(count) >= kMostCredentials) {
    return Error{
        Code::kResourceExhausted, Reason::kTooLarge,
        "there are " + std::to_string(count) + " tokens, as many as there may be; revoke some"};
  }
  for (const PrincipalPtr& old : all) {
    if (After(old->row.expire_time, kKeptExpired) > made.row.create_time) continue;
    rows::DropCredential(engine.writer(), old->row.id);
    book.Remove(old);
  }
  rows::PutCredential(engine.writer(), made.row);
  return PrincipalPtr(std::make_shared<const Principal>(made.row));
}

void ReplyCreateToken(const PrincipalPtr& principal, const NewCredential& made,
                      v1::CreateTokenResponse* reply) {
  made.access.book().Add(principal);
  Show(principal->row, reply->mutable_token());
  reply->set_secret(made.secret);
}

void ServeListTokens(Call& call, const v1::ListTokensRequest& request,
                     v1::ListTokensResponse* reply) {
  const bool all = request.namespace_().empty();
  const Timestamp now = call.backend().clock();
  for (const PrincipalPtr& one : call.backend().access.book().All()) {
    if (!one->row.parent.empty() && !(request.sessions() && one->IsSession() && one->Valid(now))) {
      continue;
    }
    const bool shown =
        all ? call.caller().principal()->In(one->row.ns) : one->row.ns == request.namespace_();
    // What the admin's token file holds is not in the store, and only the file's owner revokes it.
    if (shown && one->row.id != kAdminFile) Show(one->row, reply->add_tokens());
  }
  call.Succeed();
}

Result<RevokeCommand> ParseRevokeToken(const v1::RevokeTokenRequest& request, const Call& call) {
  call.caller().On(request.id());
  return RevokeCommand{call.backend().access, request.id()};
}

Result<PrincipalPtr> RunRevokeToken(Engine& engine, const Caller& caller, RevokeCommand& command) {
  PrincipalPtr found = command.access.book().FindId(command.id);
  if (!found || !caller.principal()->In(found->row.ns) || command.id == kAdminFile) {
    return NoSuchCredential(command.id);
  }
  rows::DropCredential(engine.writer(), command.id);
  command.access.book().Remove(found);
  for (const PrincipalPtr& one : command.access.book().All()) {
    if (one->row.parent == command.id) Drop(engine, command.access.book(), one);
  }
  command.access.Sweep();
  return found;
}

void ReplyRevokeToken(const PrincipalPtr& principal, const RevokeCommand&,
                      v1::RevokeTokenResponse* reply) {
  Show(principal->row, reply->mutable_token());
}

Result<NewCredential> ParseCreateSession(const v1::CreateSessionRequest& request,
                                         const Call& call) {
  const Principal& who = *call.caller().principal();
  if (who.IsSession()) {
    return call.caller().Refused("a session makes no sessions: sign in with the token that it came from");
  }
  if (who.row.code && request.code()) {
    return call.caller().Refused("a code makes a session, and no code");
  }
  const Principal& parent = who.parent ? *who.parent : who;
  if (!v1::AccessToken::Role_IsValid(request.role())) {
    return Bad("there is no role " + std::to_string(request.role()));
  }
  const AccessRole role =
      request.role() == v1::AccessToken::ROLE_UNSPECIFIED ? who.role() : request.role();
  if (!Covers(who.role(), role)) {
    return call.caller().Refused("a session of the role " + std::string(NameOf(role)) +
                                 " may more than this token, which has the role " +
                                 std::string(NameOf(who.role())));
  }
  rows::CredentialRow row = parent.row;
  row.id = RandomHex(6);
  row.role = static_cast<uint32_t>(role);
  row.create_time = call.backend().clock();
  const auto time = request.code() ? Duration(kCodeTime) : Duration(kSessionTime);
  row.expire_time = std::min(parent.row.expire_time, row.create_time + time);
  row.created_by = row.parent = parent.row.id;
  row.parent_hash = parent.row.hash;
  row.code = request.code();
  std::string secret = "dfsmr_" + row.id + "_" + RandomHex(32);
  row.hash = HashOf(secret);
  call.caller().On(row.id, std::string(request.code() ? "code" : "session") + " as " +
                               std::string(NameOf(role)) + " in " + row.ns);
  return NewCredential{call.backend().access, std::move(row), std::move(secret)};
}

Result<PrincipalPtr> RunCreateSession(Engine& engine, const Caller& caller, NewCredential& made) {
  CredentialBook& book = made.access.book();
  const Timestamp now = made.row.create_time;
  const PrincipalPtr who = book.FindId(caller.principal()->row.id);
  if (!who || !who->Valid(now)) return BadCredential();  // such as a code that was used meanwhile
  if (who->row.code) Drop(engine, book, who);
  std::vector<PrincipalPtr> others;  // by time
  for (const PrincipalPtr& one : book.All()) {
    if (one->row.parent.empty()) continue;
    if (!one->Valid(now)) {
      Drop(engine, book, one);
    } else if (one->row.parent == made.row.parent && one->row.code == made.row.code) {
      others.push_back(one);
    }
  }
  for (size_t i = 0; i + kMostSessions <= others.size(); ++i) Drop(engine, book, others[i]);
  made.access.Sweep();
  rows::PutCredential(engine.writer(), made.row);
  return PrincipalPtr(std::make_shared<const Principal>(made.row, book.FindId(made.row.parent)));
}

Result<RevokeCommand> ParseEndSession(const door::EndSessionRequest&, const Call& call) {
  const Principal& who = *call.caller().principal();
  if (!who.IsSession()) {
    return call.caller().Refused("the token is no session's: dcli token revoke ends it");
  }
  call.caller().On(who.row.id, "session");
  return RevokeCommand{call.backend().access, who.row.id};
}

Result<Ok> RunEndSession(Engine& engine, const Caller&, RevokeCommand& command) {
  CredentialBook& book = command.access.book();
  if (const PrincipalPtr one = book.FindId(command.id)) Drop(engine, book, one);
  command.access.Sweep();
  return Ok{};
}

void ReplyEndSession(const Ok&, const RevokeCommand&, door::EndSessionResponse*) {}

void ServeGetCaller(Call& call, const v1::GetCallerRequest&, v1::AccessToken* reply) {
  Show(call.caller().principal()->row, reply);
  call.Succeed();
}

}  // namespace dfsmr
