#include "dsrv/calls/export_stream.h"

#include <utility>

#include "dsrv/calls/counting.h"
#include "dsrv/calls/others.h"
#include "dsrv/wire/checks.h"

namespace dfsmr {

ExportStream* ExportStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                  const Method& method, const Result<Caller>& caller,
                                  const v1::ExportNamespaceRequest& request) {
  auto* stream = new ExportStream(backend, context);
  stream->Counts(backend, *context, method);
  std::shared_ptr<ExportStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  stream->entered_ = backend.gate.Admit();
  auto ns = ToNamespace(request.name());
  const Result<Ok> sound = !caller             ? caller.error()
                           : !stream->entered_ ? Stopping()
                           : !ns               ? ns.error()
                                               : Result<Ok>(Ok{});
  if (!sound) {
    stream->End(sound.error());
    return stream;
  }
  stream->args_ = {*std::move(ns), request.instances(), request.all_package_versions(),
                   backend.others ? backend.others->partitions : uint16_t{1}};
  stream->caller_ = *caller;
  stream->caller_.On(stream->args_.ns, request.instances() ? "instances" : "");
  backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  GatherLive(backend, stream->args_.ns, Counting::kDecides, /*settle=*/request.instances(),
             [self](const Result<LiveCounts>& elsewhere) {
               elsewhere ? self->Begin(*elsewhere) : self->End(elsewhere.error());
             });
  return stream;
}

void ExportStream::Begin(const LiveCounts& elsewhere) {
  const bool posted = backend_.loop.Post(
      {.run = [self = weak_from_this().lock(), elsewhere](
                  Engine& engine) { self->Look(engine, elsewhere); },
       .drop = [self = weak_from_this().lock()] { self->End(DeadlinePassed()); }});
  if (!posted) End(Overloaded());
}

void ExportStream::Look(Engine& engine, const LiveCounts& elsewhere) {
  const CountsElsewhere counted(engine, args_.ns, elsewhere);
  auto standing = StandingForExport(engine, args_);
  if (!standing) {
    return engine.AfterCommit([self = weak_from_this().lock(), error = standing.error()] {
      if (self) self->End(error);
    });
  }
  standing_ = *std::move(standing);
  engine.AfterCommit([this, self = weak_from_this().lock()] {
    if (self) backend_.pool.Post([this, self] { Open(); });
  });
}

void ExportStream::Open() {
  if (Ended()) return;
  export_ = std::make_unique<Export>(backend_.reader, args_, std::move(standing_));
  if (auto begun = export_->Begin(); !begun) return End(begun.error());
  SendNext();
}

void ExportStream::SendNext() {
  if (Ended()) return;
  if (outgoing_.end()) return EndWith(grpc::Status::OK);
  auto item = export_->Next();
  if (!item) return End(item.error());
  outgoing_ = *std::move(item);
  const Lock lock(mutex_);
  if (!finished_) StartWrite(&outgoing_);
}

void ExportStream::OnWriteDone(bool ok) {
  if (!ok) return EndWith({grpc::StatusCode::CANCELLED, "the stream broke"});
  if (Ended()) return;
  backend_.pool.Post([self = weak_from_this().lock()] { self->SendNext(); });
}

void ExportStream::End(const Error& error) {
  if (Ended()) return;
  caller_.Note(&error);
  EndWith(RefuseStream(backend_, context_, error));
}

void ExportStream::EndWith(grpc::Status status) {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  if (status.ok()) caller_.Note(nullptr);
  Finish(std::move(status));
}

bool ExportStream::Ended() {
  const Lock lock(mutex_);
  return finished_;
}

void ExportStream::OnDone() {
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<ExportStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
