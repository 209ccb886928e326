#include "dsrv/http/failure.h"

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/http/mapping.h"
#include "dsrv/http/url.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

struct CodeRow {
  const char* name;
  int status;
};
constexpr CodeRow kCodes[] = {{"ok", 200},
                              {"canceled", 499},
                              {"unknown", 500},
                              {"invalid_argument", 400},
                              {"deadline_exceeded", 504},
                              {"not_found", 404},
                              {"already_exists", 409},
                              {"permission_denied", 403},
                              {"resource_exhausted", 429},
                              {"failed_precondition", 400},
                              {"aborted", 409},
                              {"out_of_range", 400},
                              {"unimplemented", 501},
                              {"internal", 500},
                              {"unavailable", 503},
                              {"data_loss", 500},
                              {"unauthenticated", 401}};

const CodeRow& RowOf(int code) {
  const bool known = code >= 0 && code < static_cast<int>(std::size(kCodes));
  return kCodes[known ? code : 2];
}

std::string Detail(const google::protobuf::Message& message) {
  return "{\"type\":" + json::Quote(message.GetDescriptor()->full_name()) +
         ",\"value\":" + json::Quote(ToBase64(message.SerializeAsString(), false)) +
         ",\"debug\":" + ToJson(message) + "}";
}

}  // namespace

Failure Failure::Of(const grpc::Status& status, const Headers& trailers) {
  Failure failure;
  failure.code = status.error_code();
  failure.status = RowOf(failure.code).status;
  failure.message = status.error_message();
  for (const auto& [name, value] : trailers) {
    if (name == "dfsmr-reason") failure.reason = value;
    if (name == "dfsmr-diagnostics-bin") failure.diagnostics = value;
  }
  failure.trailers = trailers;
  if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED || !failure.reason.empty()) {
    return failure;
  }
  return NoSuchMethod("this server has no such method");
}

Failure Failure::Of(const Error& error, int status) {
  Failure failure;
  failure.code = static_cast<int>(error.code);
  failure.status = status > 0 ? status : RowOf(failure.code).status;
  failure.reason = Name(error.reason);
  failure.message = error.message;
  if (error.reason != Reason::kNone) failure.trailers = {{"dfsmr-reason", failure.reason}};
  return failure;
}

std::string ErrorJson(const Failure& failure) {
  v1::Error error;
  error.set_code(failure.code);
  error.set_reason(failure.reason);
  // A server's own text is UTF-8; gRPC's may quote what is not.
  error.set_message(InvalidUtf8(failure.message) ? OneLine(failure.message) : failure.message);
  std::string details = Detail(error);
  v1::DefineResponse diagnostics;
  if (!failure.diagnostics.empty() && diagnostics.ParseFromString(failure.diagnostics)) {
    details += "," + Detail(diagnostics);
  }
  return "{\"code\":" + json::Quote(RowOf(failure.code).name) +
         ",\"message\":" + json::Quote(error.message()) + ",\"details\":[" + details + "]}";
}

Response ToResponse(const Failure& failure) {
  Response response;
  response.status = failure.status;
  response.Set("content-type", "application/json");
  for (const auto& [name, value] : failure.trailers) {
    response.Set("trailer-" + name, name.ends_with("-bin") ? ToBase64(value, false) : value);
  }
  if (failure.status == 429 || failure.status == 503) response.Set("retry-after", "1");
  response.body = ErrorJson(failure);
  return response;
}

Failure BadRequest(int status, std::string message) {
  return Failure::Of({Code::kInvalidArgument, Reason::kBadRequest, std::move(message)}, status);
}

Failure NoSuchMethod(std::string message) {
  return Failure::Of({Code::kUnimplemented, Reason::kNoSuchMethod, std::move(message)}, 404);
}

}  // namespace dfsmr::http
