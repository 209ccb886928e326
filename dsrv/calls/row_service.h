// A service of gRPC whose methods are rows of the table of methods.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "dsrv/calls/direct_call.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/calls/message_pool.h"
#include "dsrv/calls/method.h"

namespace dfsmr {

// The compiler of the protos makes a class for each method, inside of that of the method before it:
// a hundred of them take a minute to compile. Here all unary methods share one handler of bytes.
class RowService final : public grpc::Service {
 public:
  using Context = grpc::CallbackServerContext;

  // `direct`: its unary methods may be asked by that way, too.
  RowService(const Backend& backend, DirectRows* direct) : backend_(backend), direct_(direct) {}

  // Unary methods, by their rows, which outlive it.
  template <typename... Rows>
  void Add(const Rows&... rows) {
    (AddUnary(rows, [] { return new MessagesOf<typename Rows::Takes, typename Rows::Gives>(); }),
     ...);
  }
  // One that is busy: its messages are used again.
  template <typename Row>
  void AddBusy(const Row& row) {
    auto pool = std::make_shared<MessagePool<typename Row::Takes, typename Row::Gives>>();
    AddUnary(row, [pool] { return pool->Take(); });
  }

  // Streams: `begin` returns the reactor of a call, which owns itself.
  template <typename Request, typename Reply>
  void AddReplies(
      const Method& method,
      std::function<grpc::ServerWriteReactor<Reply>*(Context* context, const Request* request)>
          begin) {
    Register(method, grpc::internal::RpcMethod::SERVER_STREAMING,
             new grpc::internal::CallbackServerStreamingHandler<Request, Reply>(std::move(begin)));
  }
  template <typename Request, typename Reply>
  void AddRequests(
      const Method& method,
      std::function<grpc::ServerReadReactor<Request>*(Context* context, Reply* reply)> begin) {
    Register(method, grpc::internal::RpcMethod::CLIENT_STREAMING,
             new grpc::internal::CallbackClientStreamingHandler<Request, Reply>(std::move(begin)));
  }
  template <typename Request, typename Reply>
  void AddBoth(const Method& method,
               std::function<grpc::ServerBidiReactor<Request, Reply>*(Context* context)> begin) {
    Register(method, grpc::internal::RpcMethod::BIDI_STREAMING,
             new grpc::internal::CallbackBidiHandler<Request, Reply>(std::move(begin)));
  }

 private:
  using Bytes = grpc::ByteBuffer;
  using BeginBytes =
      std::function<grpc::ServerUnaryReactor*(Context* context, const Bytes* in, Bytes* out)>;

  template <typename Row, typename MakeMessages>
  void AddUnary(const Row& row, MakeMessages make) {
    AddBytes(row.method, [this, &row, make](Context* context, const Bytes* in, Bytes* out) {
      auto* const messages = make();
      auto* const call = new UnaryCall(backend_, context, messages, out);
      if (call->Read(*in)) Serve(row, *call, messages->request(), &messages->reply());
      return call;
    });
    using Both = std::remove_pointer_t<decltype(make())>;
    direct_->Add("/" + std::string(row.method.name), make,
                 [&row](dfsmr::Call& call, CallMessages& messages) {
                   auto& these = static_cast<Both&>(messages);
                   Serve(row, call, these.request(), &these.reply());
                 });
  }
  void AddBytes(const Method& method, BeginBytes begin);
  void Register(const Method& method, grpc::internal::RpcMethod::RpcType type,
                grpc::internal::MethodHandler* handler);

  const Backend& backend_;
  DirectRows* const direct_;
  std::deque<std::string> paths_;  // gRPC keeps pointers to them
  int count_ = 0;
};

}  // namespace dfsmr
