#include "dcli/commands/commands.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

std::string Joined(const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string Expiry(const v1::AccessToken& token, const Look& look) {
  return token.has_expire_time() ? When(token.expire_time(), look) : "never";
}

void PrintTable(Context& context,
                const google::protobuf::RepeatedPtrField<v1::AccessToken>& tokens) {
  Table table({"ID", "ROLE", "NAMESPACE", "MACHINES", "QUEUES", "SECRETS", "CREATED", "BY",
               "EXPIRES", "NAME"});
  for (const v1::AccessToken& token : tokens) {
    table.Add({token.id(), Lower(v1::AccessToken::Role_Name(token.role())), token.namespace_(),
               Joined(token.machines()), Joined(token.queues()), Joined(token.secrets()),
               When(token.create_time(), context.look), token.created_by(),
               Expiry(token, context.look), token.name()});
  }
  table.Print(context.out, context.look);
}

Result<v1::CreateTokenRequest> RequestOf(const Context& context, const TokenOptions& options) {
  v1::CreateTokenRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  if (options.role.empty()) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "token create needs --role viewer, worker, operator or admin"};
  }
  const auto role = ParseEnum(v1::AccessToken::Role_descriptor(), options.role, "role");
  if (!role) return role.error();
  request.set_role(static_cast<v1::AccessToken::Role>(*role));
  for (const std::string& machine : options.machines) request.add_machines(machine);
  for (const std::string& queue : options.queues) request.add_queues(queue);
  for (const std::string& secret : options.secrets) request.add_secrets(secret);
  if (!options.expires.empty()) {
    const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    const auto expires = ParseTime(options.expires, now);
    if (!expires) return expires.error();
    *request.mutable_expire_time() = ToProto(*expires);
  }
  return request;
}

// Only the secret goes to standard output, so that it can be redirected to a file.
int Create(Context& context, const TokenOptions& options) {
  const auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  const auto reply = context.client->CreateToken(*request);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply)) return kSucceeded;
  const v1::AccessToken& token = reply->token();
  context.out << reply->secret() << '\n';
  context.Note("token " + token.id() + ": " + Lower(v1::AccessToken::Role_Name(token.role())) +
               " in namespace " + token.namespace_() + ", expires " +
               Expiry(token, context.err_look) + "; its secret is shown this once");
  return kSucceeded;
}

int List(Context& context) {
  v1::ListTokensRequest request;
  request.set_namespace_(context.name_space);
  const auto list = context.client->ListTokens(request);
  if (!list) return context.Fail(list.error());
  if (context.Print(*list)) return kSucceeded;
  if (context.names()) {
    for (const v1::AccessToken& token : list->tokens()) context.out << token.id() << '\n';
  } else if (list->tokens_size() > 0) {
    PrintTable(context, list->tokens());
  } else {
    context.Note("there is no token");
  }
  return kSucceeded;
}

// One token with what it may do.
int Show(Context& context, const v1::AccessToken& token, std::string_view remark) {
  if (context.Print(token)) return kSucceeded;
  if (context.names()) {
    context.out << token.id() << '\n';
    return kSucceeded;
  }
  google::protobuf::RepeatedPtrField<v1::AccessToken> one;
  *one.Add() = token;
  PrintTable(context, one);
  if (!remark.empty()) context.Note(remark);
  return kSucceeded;
}

}  // namespace

int Token(Context& context, const TokenOptions& options) {
  const bool revokes = options.action == "revoke";
  if (revokes != !options.id.empty()) {
    return context.Fail(kBadUsage, revokes ? "token revoke needs the ID of the token"
                                           : "token " + options.action + " takes no ID");
  }
  if (options.action == "create") return Create(context, options);
  if (options.action == "list") return List(context);
  if (options.action == "whoami") {
    const auto token = context.client->GetCaller();
    return token ? Show(context, *token, "") : context.Fail(token.error());
  }
  if (revokes) {
    v1::RevokeTokenRequest request;
    request.set_id(options.id);
    const auto reply = context.client->RevokeToken(request);
    return reply ? Show(context, reply->token(), "it is revoked: what it has open ends now")
                 : context.Fail(reply.error());
  }
  return context.Fail(kBadUsage,
                      "token does not know \"" + options.action + "\"" +
                          DidYouMean(options.action, {"create", "list", "revoke", "whoami"}));
}

}  // namespace dfsmr::cli
