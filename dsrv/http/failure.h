// Errors as HTTP answers: Connect's codes, their status, and the body with its details.
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <utility>
#include <vector>

#include "dsrv/http/message.h"
#include "fsm/base/result.h"

namespace dfsmr::http {

// BAD_REQUEST, with what is wrong.
inline Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

struct Failure {
  // A call's status with its trailer; a message of protobuf may stand in it as a detail.
  static Failure Of(const grpc::Status& status, const Headers& trailers);
  static Failure Of(const Error& error) { return Of(error, 0); }
  // With another HTTP status than its code has.
  static Failure Of(const Error& error, int status);

  int status = 500;    // of HTTP
  int code = 2;        // of gRPC
  std::string reason;  // "STALE_CLAIM"; empty: none
  std::string message;
  Headers trailers;
  std::string diagnostics;  // of Define: a DefineResponse's bytes
};

// {"code":…,"message":…,"details":[…]}.
std::string ErrorJson(const Failure& failure);
Response ToResponse(const Failure& failure);

// The door's own refusals.
Failure BadRequest(int status, std::string message);
Failure NoSuchMethod(std::string message);

}  // namespace dfsmr::http
