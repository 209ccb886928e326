// Calls by gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <string_view>

#include "dsrv/access/door_key.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/message_pool.h"

namespace dfsmr {

class GrpcOrigin final : public Origin {
 public:
  explicit GrpcOrigin(const grpc::CallbackServerContext& context) : context_(context) {}
  std::string Peer() const override;
  std::string_view Bearer() const override;
  std::string Certificate() const override;
  std::string_view Door() const override;
  std::string RequestId() const override;
  std::string_view Besides() const override { return FromDoor(door::kNamespaces).value_or(""); }
  // As Door() == "http", and cheaper where it is not.
  bool ByHttp() const;
  // Whether a page of this server asks, by that door.
  bool OfPage() const { return FromDoor(door::kPage).has_value(); }
  std::string_view Traceparent() const { return Metadata("traceparent").value_or(""); }

 private:
  // What the HTTP door says of a call that it passes on; nullopt: it came by another way.
  std::optional<std::string_view> FromDoor(std::string_view key) const;
  std::optional<std::string_view> Metadata(std::string_view key) const;
  const grpc::CallbackServerContext& context_;
};

// Turns an error into the status of a stream, with its reason in the trailer.
grpc::Status RefuseStream(const Backend& backend, grpc::CallbackServerContext* context,
                          const Error& error);

// A unary call. Deletes itself when it is done.
class UnaryCall final : public Call, public grpc::ServerUnaryReactor {
 public:
  // Releases the messages at its end. The bytes of the reply go to `out`.
  UnaryCall(const Backend& backend, grpc::CallbackServerContext* context, CallMessages* messages,
            grpc::ByteBuffer* out)
      : Call(backend), context_(context), messages_(messages), out_(out) {}

  // Reads the request. False: it is none, and the call has ended.
  bool Read(const grpc::ByteBuffer& in);

  std::string Peer() const override { return GrpcOrigin(*context_).Peer(); }
  std::string_view Bearer() const override { return GrpcOrigin(*context_).Bearer(); }
  std::string Certificate() const override { return GrpcOrigin(*context_).Certificate(); }
  std::string_view Door() const override { return GrpcOrigin(*context_).Door(); }
  std::string RequestId() const override { return GrpcOrigin(*context_).RequestId(); }
  std::string_view Besides() const override { return GrpcOrigin(*context_).Besides(); }
  Timestamp Deadline() const override;
  std::string_view Traceparent() const override { return GrpcOrigin(*context_).Traceparent(); }
  void AddTrailer(const std::string& key, const std::string& value) override {
    context_->AddTrailingMetadata(key, value);
  }

 private:
  void Send(const Error* error) override;
  bool ByHttp() const override { return GrpcOrigin(*context_).ByHttp(); }
  void OnCancel() override {
    // A caller tells how long it waits, so its own deadline passes as long before this one as the
    // request was on its way; its cancel may be here first.
    constexpr std::chrono::milliseconds kOnTheWay{50};
    const bool late = context_->deadline() <= std::chrono::system_clock::now() + kOnTheWay;
    Cancelled(late ? Code::kDeadlineExceeded : Code::kCancelled);
  }
  void OnDone() override;
  // As in gRPC's default reactor: what happens after the end of a call or its cancellation is too
  // short to be worth another thread. gRPC is free to use one nevertheless.
  bool InternalInlineable() final { return true; }

  grpc::CallbackServerContext* const context_;
  CallMessages* const messages_;
  grpc::ByteBuffer* const out_;
};

}  // namespace dfsmr
