#include "dcli/call/packages.h"

#include "dcli/call/calling.h"

namespace dfsmr::cli {

PackageCalls Client::packages() { return PackageCalls(*this); }

Result<v1::ListPackagesResponse> PackageCalls::ListPackages(
    const v1::ListPackagesRequest& request) {
  return client_.Call<v1::ListPackagesResponse>(&PackageStub::ListPackages, request, true);
}
Result<v1::PackageVersion> PackageCalls::GetPackage(const v1::GetPackageRequest& request) {
  return client_.Call<v1::PackageVersion>(&PackageStub::GetPackage, request, true);
}
// Once more would be another activation, or the undoing of a rollback.
Result<v1::ActivatePackageResponse> PackageCalls::ActivatePackage(
    const v1::ActivatePackageRequest& request) {
  return client_.Call<v1::ActivatePackageResponse>(&PackageStub::ActivatePackage, request,
                                                   !request.rollback());
}
Result<v1::ActivatePackageResponse> PackageCalls::DeactivatePackage(
    const v1::DeactivatePackageRequest& request) {
  return client_.Call<v1::ActivatePackageResponse>(&PackageStub::DeactivatePackage, request, false);
}
Result<v1::RemovePackageResponse> PackageCalls::RemovePackage(
    const v1::RemovePackageRequest& request) {
  return client_.Call<v1::RemovePackageResponse>(&PackageStub::RemovePackage, request, false);
}

Result<v1::PackageVersion> PackageCalls::SignPackage(const v1::SignPackageRequest& request) {
  return client_.Call<v1::PackageVersion>(&PackageStub::SignPackage, request, true);
}

Result<v1::TrustedKey> PackageCalls::AddTrustedKey(const v1::AddTrustedKeyRequest& request) {
  return client_.Call<v1::TrustedKey>(&PackageStub::AddTrustedKey, request, false);
}
Result<v1::ListTrustedKeysResponse> PackageCalls::ListTrustedKeys(
    const v1::ListTrustedKeysRequest& request) {
  return client_.Call<v1::ListTrustedKeysResponse>(&PackageStub::ListTrustedKeys, request, true);
}
Result<v1::RevokeTrustedKeyResponse> PackageCalls::RevokeTrustedKey(
    const v1::RevokeTrustedKeyRequest& request) {
  return client_.Call<v1::RevokeTrustedKeyResponse>(&PackageStub::RevokeTrustedKey, request, true);
}

Result<v1::PutPackageResponse> PackageCalls::PutPackage(
    const v1::PutPackageRequest::Header& header,
    const std::function<Result<std::string>(uint64_t)>& next) {
  const auto connection = client_.Reached();
  grpc::ClientContext context;
  SendToken(client_.credentials_, &context);
  v1::PutPackageResponse response;
  auto writer = connection->packages->PutPackage(&context, &response);
  v1::PutPackageRequest request;
  *request.mutable_header() = header;
  bool open = writer->Write(request);
  for (uint64_t offset = 0; open;) {
    auto bytes = next(offset);
    if (!bytes) {
      context.TryCancel();
      writer->Finish();
      return bytes.error();
    }
    if (bytes->empty()) break;
    offset += bytes->size();
    request.set_data(*std::move(bytes));
    open = writer->Write(request);  // false: it is answered already, or refused
  }
  if (open) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (status.ok()) return response;
  const Error error = ErrorOf(status, context);
  client_.Lost(connection, error);
  return error;
}

Result<Ok> PackageCalls::FetchPackage(
    const v1::FetchPackageRequest& request,
    const std::function<bool(const v1::FetchPackageResponse&)>& visit, Canceller* cancel) {
  const auto connection = client_.Reached();
  grpc::ClientContext context;
  SendToken(client_.credentials_, &context);
  const CallUnderWay under_way(cancel, &context);
  auto reader = connection->packages->FetchPackage(&context, request);
  v1::FetchPackageResponse response;
  bool stopped = false;
  while (!stopped && reader->Read(&response)) stopped = !visit(response);
  if (stopped) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (stopped || status.ok()) return Ok{};
  const Error error = ErrorOf(status, context);
  client_.Lost(connection, error);
  return error;
}

}  // namespace dfsmr::cli
