#include "dsrv/calls/token_service.h"

#include <algorithm>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "storage/rows/credential.h"

namespace dfsmr {
namespace {

constexpr size_t kMostTokens = 10'000;
constexpr int kMostNames = 100;                  // machines, or queues, that one is limited to
constexpr auto kKeptExpired = std::chrono::hours(24 * 7);  // listed so long, then forgotten

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

Error NoSuchToken(const std::string& id) {
  return {Code::kNotFound, Reason::kNoSuchToken, "there is no token " + Quoted(id)};
}

void SetTime(Timestamp time, google::protobuf::Timestamp* out) {
  out->set_seconds(Micros(time) / 1'000'000);
  out->set_nanos(static_cast<int32_t>(Micros(time) % 1'000'000 * 1'000));
}

void ToProto(const rows::CredentialRow& row, v1::AccessToken* out) {
  out->set_id(row.id);
  out->set_name(row.name);
  out->set_namespace_(row.ns);
  out->set_role(static_cast<AccessRole>(row.role));
  for (const std::string& machine : row.machines) out->add_machines(machine);
  for (const std::string& queue : row.queues) out->add_queues(queue);
  SetTime(row.create_time, out->mutable_create_time());
  if (row.expire_time != kNever) SetTime(row.expire_time, out->mutable_expire_time());
  out->set_created_by(row.created_by);
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
  row.role = request.role();
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

}  // namespace

grpc::ServerUnaryReactor* TokenService::CreateToken(Context* context,
                                                    const v1::CreateTokenRequest* request,
                                                    v1::CreateTokenResponse* reply) {
  auto caller = backend_.access.AdmitToken(
      *context, RuleOf("dfsmr.v1.TokenService/CreateToken"), request->namespace_(), false);
  if (!caller) return Refused(context, caller.error());
  auto row = ToRow(*request, backend_.clock());
  if (!row) return Refused(context, row.error());
  row->id = RandomHex(6);
  row->created_by = caller->principal()->row.id;
  const std::string secret = "dfsmr_" + row->id + "_" + RandomHex(32);
  row->hash = HashOf(secret);
  caller->On(row->id, std::string(NameOf(request->role())) + " in " + row->ns +
                          (row->name.empty() ? "" : " for " + row->name));
  Access& access = backend_.access;
  return Decided(
      backend_, context, *std::move(caller), 256, reply,
      [&access, row = *row](Engine& engine) -> Result<PrincipalPtr> {
        const auto all = access.book().All();
        if (all.size() >= kMostTokens) {
          return Error{Code::kResourceExhausted, Reason::kTooLarge,
                       "there are " + std::to_string(all.size()) +
                           " tokens, as many as there may be; revoke some"};
        }
        for (const PrincipalPtr& old : all) {
          if (After(old->row.expire_time, kKeptExpired) > row.create_time) continue;
          rows::DropCredential(engine.writer(), old->row.id);
          access.book().Remove(old);
        }
        rows::PutCredential(engine.writer(), row);
        return std::make_shared<const Principal>(row);
      },
      [&access, secret](const PrincipalPtr& principal, v1::CreateTokenResponse* out) {
        access.book().Add(principal);
        ToProto(principal->row, out->mutable_token());
        out->set_secret(secret);
      });
}

grpc::ServerUnaryReactor* TokenService::ListTokens(Context* context,
                                                   const v1::ListTokensRequest* request,
                                                   v1::ListTokensResponse* reply) {
  const bool all = request->namespace_().empty();
  auto caller = backend_.access.AdmitToken(*context, RuleOf("dfsmr.v1.TokenService/ListTokens"),
                                           request->namespace_(), all);
  if (!caller) return Refused(context, caller.error());
  for (const PrincipalPtr& one : backend_.access.book().All()) {
    const bool mine = all ? caller->principal()->In(one->row.ns)
                          : one->row.ns == request->namespace_();
    // The admin's token file is no token of the store, and can be revoked by its owner only.
    if (mine && one->row.id != kAdminFile) ToProto(one->row, reply->add_tokens());
  }
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* TokenService::RevokeToken(Context* context,
                                                    const v1::RevokeTokenRequest* request,
                                                    v1::RevokeTokenResponse* reply) {
  auto caller = backend_.access.AdmitToken(
      *context, RuleOf("dfsmr.v1.TokenService/RevokeToken"), "", true);
  if (!caller) return Refused(context, caller.error());
  caller->On(request->id());
  Access& access = backend_.access;
  return Decided(
      backend_, context, *caller, 256, reply,
      [&access, caller = *caller, id = request->id()](Engine& engine) -> Result<PrincipalPtr> {
        PrincipalPtr found = access.book().FindId(id);
        if (!found || !caller.principal()->In(found->row.ns) || id == kAdminFile) {
          return NoSuchToken(id);
        }
        rows::DropCredential(engine.writer(), id);
        access.book().Remove(found);
        access.Sweep();
        return found;
      },
      [](const PrincipalPtr& principal, v1::RevokeTokenResponse* out) {
        ToProto(principal->row, out->mutable_token());
      });
}

grpc::ServerUnaryReactor* TokenService::GetCaller(Context* context, const v1::GetCallerRequest*,
                                                  v1::AccessToken* reply) {
  auto caller = backend_.access.AdmitToken(*context, RuleOf("dfsmr.v1.TokenService/GetCaller"), "",
                                           true);
  if (!caller) return Refused(context, caller.error());
  ToProto(caller->principal()->row, reply);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace dfsmr
