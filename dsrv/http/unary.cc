#include "dsrv/http/unary.h"

#include <map>
#include <set>

#include "dsrv/http/gzip.h"
#include "dsrv/http/mapping.h"
#include "dsrv/http/url.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

Error TooLarge() {
  return {Code::kInvalidArgument, Reason::kTooLarge,
          "the request may have " + std::to_string(limits::kMessage) + " bytes, unpacked"};
}

// Of a GET, whose parameter `encoding` tells the codec.
Response UnknownEncoding(const Exchange& exchange, const MethodDescriptor& method,
                         const std::string& given) {
  const std::string told = given.empty() ? "the parameter 'encoding' is missing"
                                         : "the encoding " + Quoted(given) + " is unknown";
  Response response =
      exchange.Refused(BadRequest(415, told + ": " + NameOf(method) +
                                           " takes encoding=json and encoding=proto"));
  response.Set("accept-post", "application/json, application/proto");
  return response;
}

// One call, until it is answered.
class UnaryCall : public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(std::shared_ptr<Exchange> exchange, const MethodDescriptor& method)
      : exchange_(std::move(exchange)), method_(method) {}

  void Begin(Inside& inside) {
    auto text = exchange_->request.method == "POST" ? ReadPost() : ReadQuery();
    if (!text) return;
    if (exchange_->request.Header("connect-protocol-version")) generated_ = true;
    auto request = EncodeRequest(*method_.input_type(), codec_, *text, generated_);
    if (!request) return Refuse(Failure::Of(request.error()));
    auto timeout = TimeoutOf(exchange_->request);
    if (!timeout) return Refuse(Failure::Of(timeout.error()));
    call_ = inside.Call(NameOf(method_), ToAsker(exchange_->request, exchange_->visitor), *request,
                        *timeout, [self = shared_from_this()](Inside::Outcome outcome) {
                          self->exchange_->Post([self, outcome = std::move(outcome)]() mutable {
                            self->Answer(std::move(outcome));
                          });
                        });
    exchange_->on_gone = [call = call_] { call->Cancel(); };
  }

 private:
  // Before anybody else has seen the call.
  void Refuse(const Failure& failure) { exchange_->Answer(exchange_->Refused(failure)); }
  void Fail(const Failure& failure) { exchange_->Answer(ToResponse(failure)); }

  // The request's text; nullopt: it is refused.
  std::optional<std::string> ReadPost() {
    const Request& request = exchange_->request;
    const std::string type = MediaType(request);
    if (type == "application/json") {
      codec_ = Codec::kJson;
    } else if (type == "application/proto") {
      codec_ = Codec::kProto;
    } else {
      exchange_->Answer(UnknownType(*exchange_, method_, type));
      return std::nullopt;
    }
    return Unpack(Lower(request.Header("content-encoding").value_or("identity")), request.body);
  }

  std::optional<std::string> Unpack(const std::string& coding, std::string text) {
    if (coding == "identity" || coding.empty()) return text;
    if (coding != "gzip") {
      Refuse(BadRequest(
          400, "the content-encoding " + Quoted(coding) + " is neither gzip nor identity"));
      return std::nullopt;
    }
    bool too_large = false;
    auto plain = Unpacked(text, limits::kMessage, &too_large);
    if (!plain) {
      Refuse(too_large ? Failure::Of(TooLarge(), 413) : BadRequest(400, "the body is no gzip"));
    }
    return plain;
  }

  std::optional<std::string> ReadQuery() {
    std::map<std::string, std::string> given = {{"encoding", ""}, {"message", ""}, {"base64", ""},
                                                {"compression", ""}, {"connect", ""}};
    if (auto read = ReadParameters(&given); !read) {
      Refuse(BadRequest(400, read.error().message));
      return std::nullopt;
    }
    generated_ = !given["connect"].empty();
    const std::string& encoding = given["encoding"];
    if (encoding != "json" && encoding != "proto") {
      exchange_->Answer(UnknownEncoding(*exchange_, method_, encoding));
      return std::nullopt;
    }
    codec_ = encoding == "json" ? Codec::kJson : Codec::kProto;
    std::string message = std::move(given["message"]);
    if (given["base64"] == "1") {
      auto bytes = FromBase64(message);
      if (!bytes) {
        Refuse(BadRequest(400, "the message is no base64"));
        return std::nullopt;
      }
      message = *std::move(bytes);
    }
    if (message.empty() && codec_ == Codec::kJson) message = "{}";
    return Unpack(Lower(given["compression"]), std::move(message));
  }

  // Into those that there are, each once.
  Result<Ok> ReadParameters(std::map<std::string, std::string>* given) const {
    auto parameters = http::ReadQuery(exchange_->request.query);
    if (!parameters) return Bad("a percent sign is followed by two hexadecimal digits");
    std::set<std::string> seen;
    for (auto& [name, value] : *parameters) {
      const auto slot = given->find(name);
      if (slot == given->end()) {
        return Bad("there is no parameter " + Quoted(name) +
                   ": a call by GET has encoding=json and message=REQUEST");
      }
      if (!seen.insert(name).second) return Bad(Quoted(name) + " is given twice");
      slot->second = std::move(value);
    }
    return Ok();
  }

  void Answer(Inside::Outcome outcome) {
    if (!outcome.status.ok()) return Fail(Failure::Of(outcome.status, outcome.trailers));
    auto text = EncodeReply(*method_.output_type(), codec_, std::move(outcome.reply));
    if (!text) return Fail(Failure::Of(text.error()));
    Response response;
    response.Set("content-type", codec_ == Codec::kJson ? "application/json" : "application/proto");
    response.body = *std::move(text);
    exchange_->Answer(std::move(response));
  }

  const std::shared_ptr<Exchange> exchange_;
  const MethodDescriptor& method_;
  Codec codec_ = Codec::kJson;
  bool generated_ = false;  // by a generated client, which says so in a header, or in `connect`
  std::shared_ptr<Inside::Unary> call_;
};

}  // namespace

Result<std::string> EncodeRequest(const google::protobuf::Descriptor& type, Codec codec,
                                  std::string_view text, bool lenient) {
  auto message = NewMessage(type);
  if (codec == Codec::kProto) {
    if (message->ParseFromArray(text.data(), static_cast<int>(text.size()))) {
      return std::string(text);
    }
    return Bad("the request is no " + type.full_name());
  }
  auto read = FromJson(text, {TakesJson, lenient}, message.get());
  if (!read) return read.error();
  std::string bytes = message->SerializeAsString();
  if (bytes.size() > limits::kMessage) return TooLarge();
  return bytes;
}

Result<std::string> EncodeReply(const google::protobuf::Descriptor& type, Codec codec,
                                std::string bytes) {
  if (codec == Codec::kProto) return bytes;
  auto message = NewMessage(type);
  if (message->ParseFromString(bytes)) return ToJson(*message);
  return Error{Code::kInternal, Reason::kNone, "the reply could not be read"};
}

std::string MediaType(const Request& request) {
  const std::string_view type = request.Header("content-type").value_or("");
  return Lower(Trimmed(type.substr(0, type.find(';'))));
}

Result<std::optional<std::chrono::milliseconds>> TimeoutOf(const Request& request) {
  const auto given = request.Header("connect-timeout-ms");
  if (!given) return std::optional<std::chrono::milliseconds>();
  const bool digits = !given->empty() && given->size() <= 10 &&
                      given->find_first_not_of("0123456789") == given->npos;
  if (!digits) return Bad("Connect-Timeout-Ms is a number of milliseconds, of at most 10 digits");
  return std::optional(std::chrono::milliseconds(std::stoll(std::string(*given))));
}

Response UnknownType(const Exchange& exchange, const MethodDescriptor& method,
                     const std::string& given) {
  const std::string types = Streams(method) ? "application/connect+json, application/connect+proto"
                                            : "application/json, application/proto";
  Response response = exchange.Refused(
      BadRequest(415, NameOf(method) + " takes " + types + ", not " + Quoted(given)));
  response.Set("accept-post", types);
  return response;
}

void ServeUnary(Inside& inside, std::shared_ptr<Exchange> exchange,
                const MethodDescriptor& method) {
  std::make_shared<UnaryCall>(std::move(exchange), method)->Begin(inside);
}

}  // namespace dfsmr::http
