// dfsmr.v1.TokenService: admins make, list and revoke access tokens, even when the other services
// do not ask for them.
#pragma once

#include <string>

#include "dfsmr/door.pb.h"
#include "dfsmr/v1/admin.pb.h"
#include "dsrv/calls/call.h"
#include "storage/rows/credential.h"

namespace dfsmr {

struct NewCredential {
  Access& access;
  rows::CredentialRow row;
  std::string secret;
};
Result<NewCredential> ParseCreateToken(const v1::CreateTokenRequest& request, const Call& call);
Result<PrincipalPtr> RunCreateToken(Engine& engine, const Caller&, NewCredential& made);
void ReplyCreateToken(const PrincipalPtr& principal, const NewCredential& made,
                      v1::CreateTokenResponse* reply);

struct ItsIfGiven {  // the namespaces; without one the list shows all that the caller may see
  template <typename Enter>
  void operator()(const v1::ListTokensRequest& request, Enter enter) const {
    if (!request.namespace_().empty()) enter(request.namespace_());
  }
};
void ServeListTokens(Call& call, const v1::ListTokensRequest& request,
                     v1::ListTokensResponse* reply);

struct RevokeCommand {
  Access& access;
  std::string id;
};
Result<RevokeCommand> ParseRevokeToken(const v1::RevokeTokenRequest& request, const Call& call);
Result<PrincipalPtr> RunRevokeToken(Engine& engine, const Caller& caller, RevokeCommand& command);
void ReplyRevokeToken(const PrincipalPtr& principal, const RevokeCommand&,
                      v1::RevokeTokenResponse* reply);

// Of a session; the caller is its parent, or a code. It is replied to as the making of a token is.
Result<NewCredential> ParseCreateSession(const v1::CreateSessionRequest& request, const Call& call);
Result<PrincipalPtr> RunCreateSession(Engine& engine, const Caller& caller, NewCredential& made);

// Of the session by which the caller calls.
Result<RevokeCommand> ParseEndSession(const door::EndSessionRequest&, const Call& call);
Result<Ok> RunEndSession(Engine& engine, const Caller&, RevokeCommand& command);
void ReplyEndSession(const Ok&, const RevokeCommand&, door::EndSessionResponse*);

void ServeGetCaller(Call& call, const v1::GetCallerRequest&, v1::AccessToken* reply);

}  // namespace dfsmr
