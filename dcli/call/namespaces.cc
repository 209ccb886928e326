// The calls of NamespaceService.
#include "dcli/call/calling.h"

namespace dfsmr::cli {

NamespaceCalls Client::namespaces() { return NamespaceCalls(*this); }

Result<v1::Namespace> NamespaceCalls::CreateNamespace(const v1::CreateNamespaceRequest& request) {
  return client_.Call<v1::Namespace>(&NamespaceStub::CreateNamespace, request, false);
}
Result<v1::ListNamespacesResponse> NamespaceCalls::ListNamespaces(
    const v1::ListNamespacesRequest& request) {
  return client_.Call<v1::ListNamespacesResponse>(&NamespaceStub::ListNamespaces, request, true);
}
Result<v1::Namespace> NamespaceCalls::GetNamespace(const v1::GetNamespaceRequest& request) {
  return client_.Call<v1::Namespace>(&NamespaceStub::GetNamespace, request, true);
}
Result<v1::Namespace> NamespaceCalls::UpdateNamespace(const v1::UpdateNamespaceRequest& request) {
  return client_.Call<v1::Namespace>(&NamespaceStub::UpdateNamespace, request, true);
}
Result<v1::Namespace> NamespaceCalls::FreezeNamespace(const v1::FreezeNamespaceRequest& request) {
  return client_.Call<v1::Namespace>(&NamespaceStub::FreezeNamespace, request, true);
}
Result<v1::Namespace> NamespaceCalls::DeleteNamespace(const v1::DeleteNamespaceRequest& request) {
  return client_.Call<v1::Namespace>(&NamespaceStub::DeleteNamespace, request, true);
}

Result<Ok> NamespaceCalls::ExportNamespace(
    const v1::ExportNamespaceRequest& request,
    const std::function<bool(const v1::ExportItem&)>& visit) {
  const auto connection = client_.Reached();
  grpc::ClientContext context;
  SendToken(client_.credentials_, &context);
  auto reader = connection->namespaces->ExportNamespace(&context, request);
  v1::ExportItem item;
  bool stopped = false;
  bool ended = false;
  while (!stopped && reader->Read(&item)) {
    ended = item.end();
    stopped = !visit(item);
  }
  if (stopped) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (stopped || (status.ok() && ended)) return Ok{};
  if (status.ok()) {
    return Error{Code::kUnavailable, Reason::kNone, "the export was cut off before its end"};
  }
  const Error error = ErrorOf(status, context);
  client_.Lost(connection, error);
  return error;
}

Result<v1::ImportNamespaceResponse> NamespaceCalls::ImportNamespace(
    const v1::ImportNamespaceRequest::Header& header,
    const std::function<Result<std::optional<v1::ExportItem>>()>& next) {
  const auto connection = client_.Reached();
  grpc::ClientContext context;
  SendToken(client_.credentials_, &context);
  v1::ImportNamespaceResponse response;
  auto writer = connection->namespaces->ImportNamespace(&context, &response);
  v1::ImportNamespaceRequest request;
  *request.mutable_header() = header;
  bool open = writer->Write(request);
  while (open) {
    auto item = next();
    if (!item) {
      context.TryCancel();
      writer->Finish();
      return item.error();
    }
    if (!*item) break;
    *request.mutable_item() = **std::move(item);
    open = writer->Write(request);  // false: it is refused
  }
  if (open) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (status.ok()) return response;
  const Error error = ErrorOf(status, context);
  client_.Lost(connection, error);
  return error;
}

}  // namespace dfsmr::cli
