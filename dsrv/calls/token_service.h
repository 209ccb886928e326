// dfsmr.v1.TokenService: tokens are made, listed and revoked by admins, whether the other services
// ask for them or not.
#pragma once

#include "dfsmr/v1/admin.grpc.pb.h"
#include "dsrv/calls/calls.h"

namespace dfsmr {

class TokenService final : public v1::TokenService::CallbackService {
 public:
  explicit TokenService(const Backend& backend) : backend_(backend) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  Unary* CreateToken(Context*, const v1::CreateTokenRequest*, v1::CreateTokenResponse*) override;
  Unary* ListTokens(Context*, const v1::ListTokensRequest*, v1::ListTokensResponse*) override;
  Unary* RevokeToken(Context*, const v1::RevokeTokenRequest*, v1::RevokeTokenResponse*) override;
  Unary* GetCaller(Context*, const v1::GetCallerRequest*, v1::AccessToken*) override;

  const Backend backend_;
};

}  // namespace dfsmr
