#include "dsrv/calls/grpc_call.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include "dsrv/access/door_key.h"
#include "dsrv/calls/deadline.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {

std::optional<std::string_view> GrpcOrigin::Metadata(std::string_view key) const {
  const auto& metadata = context_.client_metadata();
  const auto found = metadata.find({key.data(), key.size()});
  if (found == metadata.end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

std::optional<std::string_view> GrpcOrigin::FromDoor(std::string_view key) const {
  return Metadata(door::kKey) == door::Key() ? Metadata(key) : std::nullopt;
}

std::string GrpcOrigin::Peer() const {
  const auto told = FromDoor(door::kPeer);
  return told ? std::string(*told) : context_.peer();
}

std::string_view GrpcOrigin::Door() const { return FromDoor(door::kName).value_or(""); }

// Calls within the process have no peer, and those of others are not asked for their metadata.
bool GrpcOrigin::ByHttp() const { return context_.peer() == "unknown" && Door() == "http"; }

std::string GrpcOrigin::RequestId() const {
  const auto given = FromDoor(door::kRequestId);
  return std::string(given.value_or(""));
}

std::string_view GrpcOrigin::Bearer() const {
  const std::string_view value = Metadata("authorization").value_or("");
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((value[i] | 0x20) != kScheme[i]) return {};
  }
  return value.substr(kScheme.size());
}

std::string GrpcOrigin::Certificate() const {
  if (const auto told = FromDoor(door::kCertificate)) return std::string(*told);
  std::string certificate;
  for (const auto& name : context_.auth_context()->FindPropertyValues("x509_common_name")) {
    certificate.assign(name.data(), name.size());
  }
  return certificate;
}

grpc::Status RefuseStream(const Backend& backend, grpc::CallbackServerContext* context,
                          const Error& error) {
  const GrpcOrigin origin(*context);
  backend.refusals.Note(error, origin.Peer(), origin.RequestId());
  if (error.reason != Reason::kNone) {
    context->AddTrailingMetadata("dfsmr-reason", std::string(Name(error.reason)));
  }
  return ToStatus(error);
}

Timestamp UnaryCall::Deadline() const {
  return ByClock(context_->deadline(), std::chrono::system_clock::now(), backend().clock());
}

bool UnaryCall::Read(const grpc::ByteBuffer& in) {
  grpc::ByteBuffer copy = in;
  grpc::ProtoBufferReader reader(&copy);
  if (reader.status().ok() && messages_->request().ParseFromZeroCopyStream(&reader)) return true;
  Finish({grpc::StatusCode::INTERNAL, "the request could not be read"});
  return false;
}

void UnaryCall::Send(const Error* error) {
  if (error) return Finish(ToStatus(*error));
  bool own = false;
  Finish(grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
      messages_->reply(), out_, &own));
}

void UnaryCall::OnDone() {
  Done(context_->IsCancelled());
  messages_->Release();
  delete this;
}

}  // namespace dfsmr
