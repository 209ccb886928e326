// The calls of PackageService.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/call/client.h"
#include "dfsmr/v1/package.pb.h"

namespace dfsmr::cli {

// Valid as long as their client.
class PackageCalls {
 public:
  explicit PackageCalls(Client& client) : client_(client) {}

  Result<v1::ListPackagesResponse> ListPackages(const v1::ListPackagesRequest& request);
  Result<v1::PackageVersion> GetPackage(const v1::GetPackageRequest& request);
  Result<v1::ActivatePackageResponse> ActivatePackage(const v1::ActivatePackageRequest& request);
  Result<v1::ActivatePackageResponse> DeactivatePackage(
      const v1::DeactivatePackageRequest& request);
  Result<v1::RemovePackageResponse> RemovePackage(const v1::RemovePackageRequest& request);

  Result<v1::PackageVersion> SignPackage(const v1::SignPackageRequest& request);

  Result<v1::TrustedKey> AddTrustedKey(const v1::AddTrustedKeyRequest& request);
  Result<v1::ListTrustedKeysResponse> ListTrustedKeys(const v1::ListTrustedKeysRequest& request);
  Result<v1::RevokeTrustedKeyResponse> RevokeTrustedKey(const v1::RevokeTrustedKeyRequest& request);

  // Sends an archive. `next` gives its bytes from an offset on, at most 1 MiB; empty: its end.
  Result<v1::PutPackageResponse> PutPackage(
      const v1::PutPackageRequest::Header& header,
      const std::function<Result<std::string>(uint64_t offset)>& next);
  // Hands each message to `visit` until that returns false, or all has come.
  Result<Ok> FetchPackage(const v1::FetchPackageRequest& request,
                          const std::function<bool(const v1::FetchPackageResponse&)>& visit,
                          Canceller* cancel = nullptr);

 private:
  Client& client_;
};

}  // namespace dfsmr::cli
