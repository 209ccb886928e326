// Calls with one request and one reply: POST, and GET of what only reads.
#pragma once

#include <memory>

#include "dsrv/http/exchange.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/interface.h"

namespace dfsmr::http {

// What a call's request and reply are written in.
enum class Codec { kJson, kProto };

// The request's message, as gRPC takes it. `lenient`: unknown fields are left out.
Result<std::string> EncodeRequest(const google::protobuf::Descriptor& type, Codec codec,
                                  std::string_view text, bool lenient);
// The reply's message as the client takes it.
Result<std::string> EncodeReply(const google::protobuf::Descriptor& type, Codec codec,
                                std::string bytes);

// "application/json" of "application/json; charset=utf-8".
std::string MediaType(const Request& request);
// Of Connect-Timeout-Ms; nullopt: none is given.
Result<std::optional<std::chrono::milliseconds>> TimeoutOf(const Request& request);
// 415, with the types that a method takes.
Response UnknownType(const Exchange& exchange, const MethodDescriptor& method,
                     const std::string& given);

void ServeUnary(Inside& inside, std::shared_ptr<Exchange> exchange, const MethodDescriptor& method);

}  // namespace dfsmr::http
