// SecretService.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/call.h"
#include "storage/rows/secret.h"

namespace dfsmr {

// The keys have changed, or may have since the last start: they are used from now on, and what is
// sealed by others is sealed anew. Any thread.
void SetSecretKeys(Loop& loop, SecretKeyring& ring, SecretKeysPtr keys);

struct PutSecretCommand {
  std::string ns;
  std::string name;
  std::string value;
  std::string by;
};
Result<PutSecretCommand> ParsePutSecret(const v1::PutSecretRequest& request, const Call& call);
Result<rows::SecretRow> RunPutSecret(Engine& engine, const Caller&, PutSecretCommand& command);
void ReplyPutSecret(const rows::SecretRow& row, const PutSecretCommand&, v1::Secret* reply);

struct DeleteSecretCommand {
  std::string ns;
  std::string name;
  uint32_t version = 0;
};
Result<DeleteSecretCommand> ParseDeleteSecret(const v1::DeleteSecretRequest& request,
                                              const Call& call);
Result<rows::SecretRow> RunDeleteSecret(Engine& engine, const Caller&,
                                        DeleteSecretCommand& command);
void ReplyDeleteSecret(const rows::SecretRow& row, const DeleteSecretCommand&, v1::Secret* reply);

struct ListSecretsCommand {
  std::string ns;
};
Result<ListSecretsCommand> ParseListSecrets(const v1::ListSecretsRequest& request, const Call&);
Result<Ok> SettleListSecrets(Engine&, const Caller&, const ListSecretsCommand&);
Result<Ok> ReadListSecrets(const Reader& reader, const ListSecretsCommand& command,
                           v1::ListSecretsResponse* reply);

struct ResolveCommand {
  std::string ns;
  std::string instance;
  ClaimRef claim;
  std::vector<std::string> names;
  std::vector<uint32_t> asked;  // versions, as they were asked for
  bool insecure = false;        // others on the way could read the answer
  const SecretKeyring& keys;
  std::shared_ptr<std::vector<uint32_t>> versions;  // that are meant
};
Result<ResolveCommand> ParseResolveSecrets(const v1::ResolveSecretsRequest& request,
                                           const Call& call);
Result<Ok> SettleResolveSecrets(Engine& engine, const Caller& caller,
                                const ResolveCommand& command);
Result<Ok> ReadResolveSecrets(const Reader& reader, const ResolveCommand& command,
                              v1::ResolveSecretsResponse* reply);

}  // namespace dfsmr
