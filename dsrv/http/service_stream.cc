#include "dsrv/http/service_stream.h"

namespace dfsmr::http {

std::shared_ptr<ServiceStream> ServiceStream::Begin(
    Inside& inside, const std::string& method, const Asker& asker,
    std::optional<std::chrono::milliseconds> timeout, std::shared_ptr<Exchange> exchange,
    Events events) {
  std::shared_ptr<ServiceStream> stream(new ServiceStream(std::move(exchange)));
  stream->self_ = stream;
  stream->events_ = std::move(events);
  Inside::Prepare(&stream->context_, asker, timeout);
  inside.stub().PrepareBidiStreamingCall(&stream->context_, "/" + method, grpc::StubOptions(),
                                         stream.get());
  stream->AddHold();  // reads and writes are begun from the exchange's thread
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

void ServiceStream::Next() {
  if (!ended_) StartRead(&incoming_);
}

void ServiceStream::Send(const std::string& bytes) {
  if (ended_ || closed_) return;
  outgoing_ = ToBuffer(bytes);
  StartWrite(&outgoing_);
}

void ServiceStream::CloseSend() {
  if (ended_ || std::exchange(closed_, true)) return;
  StartWritesDone();
}

void ServiceStream::OnReadDone(bool ok) {
  exchange_->Post([self = self_, ok] {
    if (!ok) return self->Ended();
    std::string bytes = ToBytes(self->incoming_);
    self->incoming_.Clear();
    if (self->events_.message) self->events_.message(std::move(bytes));
  });
}

void ServiceStream::Ended() {
  if (std::exchange(ended_, true)) return;
  RemoveHold();
}

void ServiceStream::OnWriteDone(bool ok) {
  if (!ok) return;  // the read ends, too
  exchange_->Post([self = self_] {
    if (self->events_.sent) self->events_.sent();
  });
}

void ServiceStream::OnDone(const grpc::Status& status) {
  exchange_->Post([self = std::move(self_), status] {
    const Events events = std::move(self->events_);
    self->events_ = {};
    if (events.end) events.end(status, Inside::Trailers(self->context_));
  });
}

}  // namespace dfsmr::http
