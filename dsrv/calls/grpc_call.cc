#include "dsrv/calls/grpc_call.h"

#include "dsrv/wire/replies.h"

namespace dfsmr {

std::string_view GrpcOrigin::Bearer() const {
  const auto& metadata = context_.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return {};
  const std::string_view value(found->second.data(), found->second.size());
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((value[i] | 0x20) != kScheme[i]) return {};
  }
  return value.substr(kScheme.size());
}

std::string GrpcOrigin::Certificate() const {
  std::string certificate;
  for (const auto& name : context_.auth_context()->FindPropertyValues("x509_common_name")) {
    certificate.assign(name.data(), name.size());
  }
  return certificate;
}

grpc::Status RefuseStream(const Backend& backend, grpc::CallbackServerContext* context,
                          const Error& error) {
  backend.refusals.Note(error, context->peer());
  if (error.reason != Reason::kNone) {
    context->AddTrailingMetadata("dfsmr-reason", std::string(Name(error.reason)));
  }
  return ToStatus(error);
}

Timestamp UnaryCall::Deadline() const {
  const auto deadline = context_->deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  return std::chrono::time_point_cast<Duration>(deadline);
}

void UnaryCall::Send(const Error* error) {
  Finish(error ? ToStatus(*error) : grpc::Status::OK);
}

void UnaryCall::OnDone() {
  Done(context_->IsCancelled());
  delete this;
}

}  // namespace dfsmr
