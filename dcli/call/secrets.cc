#include "dcli/call/secrets.h"

#include "dcli/call/calling.h"

namespace dfsmr::cli {

SecretCalls Client::secrets() { return SecretCalls(*this); }

Result<v1::Secret> SecretCalls::PutSecret(const v1::PutSecretRequest& request) {
  return client_.Call<v1::Secret>(&SecretStub::PutSecret, request, false);
}
Result<v1::ListSecretsResponse> SecretCalls::ListSecrets(const v1::ListSecretsRequest& request) {
  return client_.Call<v1::ListSecretsResponse>(&SecretStub::ListSecrets, request, true);
}
Result<v1::Secret> SecretCalls::DeleteSecret(const v1::DeleteSecretRequest& request) {
  return client_.Call<v1::Secret>(&SecretStub::DeleteSecret, request, false);
}
Result<v1::ResolveSecretsResponse> SecretCalls::ResolveSecrets(
    const v1::ResolveSecretsRequest& request, Canceller* cancel) {
  return client_.Call<v1::ResolveSecretsResponse>(&SecretStub::ResolveSecrets, request, true,
                                                  Duration::zero(), cancel);
}

}  // namespace dfsmr::cli
