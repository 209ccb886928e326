#include "dsrv/http/stream.h"

#include "dsrv/http/envelope.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/gzip.h"
#include "dsrv/http/service_stream.h"
#include "dsrv/http/unary.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

// One stream, until it has ended. Messages go in as they come, and out as the client takes them.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Exchange> exchange, const MethodDescriptor& method)
      : exchange_(std::move(exchange)), method_(method) {}

  void Begin(Inside& inside) {
    const Request& request = exchange_->request;
    const std::string type = MediaType(request);
    if (type != "application/connect+json" && type != "application/connect+proto") {
      return exchange_->Answer(UnknownType(*exchange_, method_, type));
    }
    codec_ = type.ends_with("json") ? Codec::kJson : Codec::kProto;
    lenient_ = request.Header("connect-protocol-version").has_value();
    const std::string coding =
        Lower(request.Header("connect-content-encoding").value_or("identity"));
    if (coding != "gzip" && coding != "identity") {
      return exchange_->Answer(
          exchange_->Refused(BadRequest(400, "the connect-content-encoding " + Quoted(coding) +
                                                 " is neither gzip nor identity")));
    }
    packs_ = coding == "gzip";
    auto timeout = TimeoutOf(request);
    if (!timeout) return exchange_->Answer(exchange_->Refused(Failure::Of(timeout.error())));
    const auto self = shared_from_this();
    service_ = ServiceStream::Begin(
        inside, NameOf(method_), ToAsker(request, exchange_->visitor), *timeout, exchange_,
        {.message = [self](std::string bytes) { self->OnMessage(std::move(bytes)); },
         .sent = [self] { self->TakeOne(); },
         .end = [self](const grpc::Status& status,
                       const Headers& trailers) { self->OnEnd(status, trailers); }});
    exchange_->on_gone = [self] {
      if (!self->service_) return;
      self->service_->Cancel();
      self->OnWritten();  // nobody takes what was written; the service's end is waited for
    };
    exchange_->on_written = [self] { self->OnWritten(); };
    exchange_->on_body = [self](const std::string& piece, bool last) {
      self->reader_.Add(piece);
      self->all_read_ = last;
      self->TakeOne();
    };
    exchange_->ReadBody();
  }

 private:
  // Sends the next message to the service, or asks for more of the body.
  void TakeOne() {
    if (failure_ || !service_) return;
    auto envelope = reader_.Take();
    if (reader_.too_large()) {
      return Fail({Code::kInvalidArgument, Reason::kTooLarge,
                   "a message may have " + std::to_string(limits::kMessage) + " bytes"});
    }
    if (!envelope && !all_read_) return exchange_->ReadBody();
    if (!envelope && !reader_.empty()) return Fail(Bad("the last message is not complete"));
    if (!envelope) {
      if (!method_.client_streaming() && taken_ != 1) {
        return Fail(Bad("the call takes one message, and none has come"));
      }
      return service_->CloseSend();
    }
    if (++taken_ > 1 && !method_.client_streaming()) {
      return Fail(Bad("the call takes one message, and several have come"));
    }
    auto text = Plain(*std::move(envelope));
    if (!text) return Fail(text.error());
    auto bytes = EncodeRequest(*method_.input_type(), codec_, *text, lenient_);
    if (!bytes) return Fail(bytes.error());
    service_->Send(*bytes);
  }

  Result<std::string> Plain(EnvelopeReader::Envelope envelope) const {
    if (envelope.flags == 0) return std::move(envelope.message);
    if (envelope.flags != kPackedFlag || !packs_) {
      return Bad("an envelope's flags are 0, or 1 with connect-content-encoding: gzip");
    }
    bool too_large = false;
    auto plain = Unpacked(envelope.message, limits::kMessage, &too_large);
    if (plain) return *std::move(plain);
    if (!too_large) return Bad("a message is no gzip");
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "a message may have " + std::to_string(limits::kMessage) + " bytes, unpacked"};
  }

  // The stream ends with this, whatever the service says.
  void Fail(const Error& error) {
    failure_ = Failure::Of(error);
    exchange_->NoteRefused(*failure_);
    service_->Cancel();
  }

  void BeginAnswer() {
    if (std::exchange(begun_, true)) return;
    Response head;
    head.Set("content-type",
             codec_ == Codec::kJson ? "application/connect+json" : "application/connect+proto");
    exchange_->Begin(std::move(head));
  }

  void OnMessage(std::string bytes) {
    if (exchange_->over() || failure_) return service_->Next();
    auto text = EncodeReply(*method_.output_type(), codec_, std::move(bytes));
    if (!text) {
      Fail(text.error());
      return service_->Next();
    }
    waits_ = true;
    BeginAnswer();
    exchange_->Write(ToEnvelope(0, *text));
  }

  void OnWritten() {
    if (std::exchange(waits_, false) && service_) service_->Next();
  }

  void OnEnd(const grpc::Status& status, const Headers& trailers) {
    if (!failure_ && !status.ok()) failure_ = Failure::Of(status, trailers);
    BeginAnswer();
    exchange_->Write(EndEnvelope(failure_ ? &*failure_ : nullptr));
    exchange_->End();
    service_ = nullptr;
  }

  const std::shared_ptr<Exchange> exchange_;
  const MethodDescriptor& method_;
  Codec codec_ = Codec::kJson;
  bool lenient_ = false;
  bool packs_ = false;
  std::shared_ptr<ServiceStream> service_;
  EnvelopeReader reader_{limits::kMessage};
  bool all_read_ = false;
  size_t taken_ = 0;
  bool begun_ = false;
  bool waits_ = false;  // for the client to take what was written
  std::optional<Failure> failure_;
};

}  // namespace

void ServeStream(Inside& inside, std::shared_ptr<Exchange> exchange,
                 const MethodDescriptor& method) {
  std::make_shared<Stream>(std::move(exchange), method)->Begin(inside);
}

}  // namespace dfsmr::http
