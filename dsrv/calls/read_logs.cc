#include "dsrv/calls/read_logs.h"

#include <utility>

#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {

ReadLogsStream* ReadLogsStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                      const Method& method, const Result<Caller>& caller,
                                      const v1::ReadLogsRequest& request) {
  auto* stream = new ReadLogsStream(backend, context);
  stream->Counts(backend, *context, method);
  std::shared_ptr<ReadLogsStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  stream->entered_ = backend.gate.Admit();
  auto ns = ToNamespace(request.namespace_());
  const Result<Ok> sound = !caller             ? caller.error()
                           : !stream->entered_ ? Stopping()
                           : !ns               ? ns.error()
                                               : LogReading::Check(request);
  if (!sound) {
    stream->End(sound.error());
    return stream;
  }
  if (!backend.logs.Enter(self)) {
    stream->End(Overloaded());
    return stream;
  }
  stream->reading_ = std::make_shared<LogReading>(backend.logs, request, *ns, self);
  backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  stream->reading_->Begin();
  return stream;
}

void ReadLogsStream::Send(const v1::ReadLogsResponse& response) {
  const Lock lock(mutex_);
  if (end_ || finished_) return;
  outgoing_ = response;
  writing_ = true;
  StartWrite(&outgoing_);
}

void ReadLogsStream::OnWriteDone(bool ok) {
  {
    const Lock lock(mutex_);
    writing_ = false;
  }
  if (!ok) return EndWith({grpc::StatusCode::CANCELLED, "the stream broke"});
  std::optional<grpc::Status> end;
  {
    const Lock lock(mutex_);
    if (end_ && !std::exchange(finished_, true)) end = end_;
  }
  if (end) return Finish(*std::move(end));
  reading_->Sent();
}

void ReadLogsStream::End(const std::optional<Error>& error) {
  EndWith(error ? RefuseStream(backend_, context_, *error) : grpc::Status::OK);
}

void ReadLogsStream::EndWith(grpc::Status status) {
  {
    const Lock lock(mutex_);
    if (!end_) end_ = std::move(status);
    if (writing_ || std::exchange(finished_, true)) return;
    status = *end_;
  }
  Finish(std::move(status));
}

void ReadLogsStream::Stop() {
  if (reading_) reading_->Stop();
}

void ReadLogsStream::OnDone() {
  if (reading_) reading_->Close();
  backend_.logs.Leave(this);
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<ReadLogsStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
