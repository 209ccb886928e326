// The calls of SecretService.
#pragma once

#include "dcli/call/client.h"
#include "dfsmr/v1/package.pb.h"

namespace dfsmr::cli {

// Valid as long as their client.
class SecretCalls {
 public:
  explicit SecretCalls(Client& client) : client_(client) {}

  // Not repeated when the connection breaks: there might be two versions then.
  Result<v1::Secret> PutSecret(const v1::PutSecretRequest& request);
  Result<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request);
  Result<v1::Secret> DeleteSecret(const v1::DeleteSecretRequest& request);
  Result<v1::ResolveSecretsResponse> ResolveSecrets(const v1::ResolveSecretsRequest& request,
                                                    Canceller* cancel);

 private:
  Client& client_;
};

}  // namespace dfsmr::cli
