// SignPackage, AddTrustedKey, ListTrustedKeys and RevokeTrustedKey.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/packages.h"
#include "storage/rows/trust.h"

namespace dfsmr {

void ServeSignPackage(Call& call, const v1::SignPackageRequest& request, v1::PackageVersion* reply);

struct KeyCommand {
  std::string ns;
  rows::TrustedKeyRow key;
};
Result<KeyCommand> ParseAddTrustedKey(const v1::AddTrustedKeyRequest& request, const Call& call);
Result<rows::TrustedKeyRow> RunAddTrustedKey(Engine& engine, const Caller&, KeyCommand& command);
void ReplyAddTrustedKey(const rows::TrustedKeyRow& key, const KeyCommand&, v1::TrustedKey* reply);

struct KeysCommand {
  std::string ns;
};
Result<KeysCommand> ParseListTrustedKeys(const v1::ListTrustedKeysRequest& request, const Call&);
Result<std::vector<rows::TrustedKeyRow>> RunListTrustedKeys(Engine& engine, const Caller&,
                                                            KeysCommand& command);
void ReplyListTrustedKeys(const std::vector<rows::TrustedKeyRow>& keys, const KeysCommand&,
                          v1::ListTrustedKeysResponse* reply);

struct RevokeKeyCommand {
  std::string ns;
  std::string key;
  // What the loop has found.
  struct Found {
    rows::TrustedKeyRow key;
    std::vector<SeenPackage> blocked;
  };
  std::shared_ptr<Found> found;
};
Result<RevokeKeyCommand> ParseRevokeTrustedKey(const v1::RevokeTrustedKeyRequest& request,
                                               const Call& call);
Result<Ok> SettleRevokeTrustedKey(Engine& engine, const Caller&, const RevokeKeyCommand& command);
Result<Ok> ReadRevokeTrustedKey(const Reader& reader, const RevokeKeyCommand& command,
                                v1::RevokeTrustedKeyResponse* reply);

}  // namespace dfsmr
