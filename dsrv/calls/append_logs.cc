#include "dsrv/calls/append_logs.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <string>
#include <utility>

#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {
namespace {

constexpr size_t kUnanswered = 16;  // requests; with more no further one is read

}  // namespace

AppendLogsStream* AppendLogsStream::Begin(const Backend& backend,
                                          grpc::CallbackServerContext* context,
                                          const Method& method) {
  auto* stream = new AppendLogsStream(backend, context);
  stream->Counts(backend, *context, method);
  std::shared_ptr<AppendLogsStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  // The first message says which namespace it wants to enter.
  auto caller = backend.access.AdmitAnywhere(GrpcOrigin(*context), {&method});
  if (!caller) {
    stream->EndWith(caller.error());
    return stream;
  }
  stream->entered_ = backend.gate.Admit();
  if (!stream->entered_ || !backend.logs.Enter(self)) {
    stream->EndWith(stream->entered_ ? Overloaded() : Stopping());
    return stream;
  }
  stream->intake_ = std::make_shared<LogIntake>(backend.logs, *caller, self);
  backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  const Lock lock(stream->mutex_);
  stream->reading_ = false;
  stream->GoOn();
  return stream;
}

void AppendLogsStream::GoOn() {
  if (finished_) return;
  if (!writing_ && !answers_.empty()) {
    writing_ = true;
    StartWrite(&answers_.front());
  }
  const bool done = read_all_ && unanswered_ == 0;
  if (!writing_ && (end_ || done)) {
    finished_ = true;
    return Finish(end_.value_or(grpc::Status::OK));
  }
  if (reading_ || read_all_ || end_ || unanswered_ > kUnanswered) return;
  if (!backend_.logs.MayRead(self_)) return;
  reading_ = true;
  StartRead(&incoming_);
}

void AppendLogsStream::OnReadDone(bool ok) {
  const size_t bytes = ok ? incoming_.Length() : 0;
  if (ok && bytes > limits::kLogMessage) {
    return EndWith(TooLarge("a message of AppendLogs", bytes, limits::kLogMessage));
  }
  {
    const Lock lock(mutex_);
    if (!ok) read_all_ = true;
    if (ok) ++unanswered_;
  }
  if (ok) {
    auto buffer = std::make_shared<grpc::ByteBuffer>();
    buffer->Swap(&incoming_);
    intake_->Take(
        [buffer](v1::AppendLogsRequest* request) {
          grpc::ProtoBufferReader reader(buffer.get());
          return request->ParseFromZeroCopyStream(&reader);
        },
        bytes);
  }
  const Lock lock(mutex_);
  reading_ = false;  // not before: an answer to an earlier message reads the next one
  GoOn();
}

void AppendLogsStream::Answer(const v1::AppendLogsResponse& response) {
  const grpc::Slice slice(response.SerializeAsString());
  const Lock lock(mutex_);
  answers_.emplace_back(&slice, 1);
  --unanswered_;
  GoOn();
}

void AppendLogsStream::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  writing_ = false;
  answers_.pop_front();
  if (!ok) {
    answers_.clear();
    if (!end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
  }
  GoOn();
}

void AppendLogsStream::EndWith(const Error& error) {
  const Lock lock(mutex_);
  if (!end_ && !finished_) end_ = RefuseStream(backend_, context_, error);
  GoOn();
}

void AppendLogsStream::Resume() {
  const Lock lock(mutex_);
  GoOn();
}

void AppendLogsStream::Stop() {
  const Lock lock(mutex_);
  if (!end_) {
    end_ = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        "the server is stopping; send again what was not answered");
  }
  GoOn();
}

void AppendLogsStream::OnCancel() {
  const Lock lock(mutex_);
  answers_.clear();
  if (!end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the call was cancelled");
  GoOn();
}

void AppendLogsStream::OnDone() {
  backend_.logs.Leave(this);
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<AppendLogsStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
