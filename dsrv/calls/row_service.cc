#include "dsrv/calls/row_service.h"

#include <utility>

namespace dfsmr {

void RowService::AddBytes(const Method& method, BeginBytes begin) {
  Register(method, grpc::internal::RpcMethod::NORMAL_RPC,
           new grpc::internal::CallbackUnaryHandler<Bytes, Bytes>(std::move(begin)));
}

void RowService::Register(const Method& method, grpc::internal::RpcMethod::RpcType type,
                          grpc::internal::MethodHandler* handler) {
  paths_.push_back("/" + std::string(method.name));
  AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type, nullptr));
  MarkMethodCallback(count_++, handler);
}

}  // namespace dfsmr
