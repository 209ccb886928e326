#include "dsrv/calls/changes_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr auto kChangesBeat = std::chrono::milliseconds(2'500);  // promised: a message every 5 s

Error TooManyStreams() {
  return {Code::kResourceExhausted, Reason::kOverloaded,
          "the server serves " + std::to_string(limits::kWatchers) + " watchers already"};
}

}  // namespace

WatcherClass ClassOf(const GrpcOrigin& origin) {
  if (!origin.ByHttp()) return WatcherClass::kGrpc;
  return origin.OfPage() ? WatcherClass::kConsole : WatcherClass::kHttp;
}

bool Watchers::Add(ChangesStream* stream) {
  const Lock lock(mutex_);
  const bool crowded = open_.size() >= limits::kWatchers;
  open_.insert(stream);
  return !crowded;
}

void Watchers::Remove(ChangesStream* stream) {
  const Lock lock(mutex_);
  open_.erase(stream);
}

std::array<Watchers::Reading, kWatcherClasses> Watchers::ByClass() {
  std::array<Reading, kWatcherClasses> classes;
  const Lock lock(mutex_);
  for (const ChangesStream* stream : open_) {
    const uint64_t read = stream->read_up_to_.load(std::memory_order_relaxed);
    if (read == UINT64_MAX) continue;
    Reading& one = classes[static_cast<size_t>(stream->class_)];
    ++one.count;
    one.slowest = std::min(one.slowest, read);
  }
  return classes;
}

void Watchers::EndAll() {
  std::vector<std::shared_ptr<ChangesStream>> open;
  std::vector<std::function<void()>> ends;
  {
    const Lock lock(mutex_);
    ends = ends_;
    for (ChangesStream* stream : open_) {
      const Lock stream_lock(stream->mutex_);
      if (stream->self_) open.push_back(stream->self_);
    }
  }
  for (const auto& stream : open) {
    stream->End(
        {grpc::StatusCode::UNAVAILABLE, "the server is stopping; resume from the last cursor"});
    stream->Step();
  }
  for (const auto& end : ends) end();
}

ChangesStream* ChangesStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                    const Method& method, const Result<Caller>& caller,
                                    const std::function<Result<Open>()>& open, Encode encode) {
  auto* stream = new ChangesStream(backend, context, std::move(encode));
  stream->Counts(backend, *context, method);
  std::shared_ptr<ChangesStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  stream->entered_ = backend.gate.Admit();
  const bool crowded = !backend.watchers.Add(stream);
  Result<Open> opened = !caller             ? Result<Open>(caller.error())
                        : !stream->entered_ ? Stopping()
                        : crowded           ? TooManyStreams()
                                            : open();
  if (opened) {
    stream->open_ = *std::move(opened);
    if (stream->open_.until == UINT64_MAX) stream->read_up_to_ = stream->open_.after;
    backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  } else {
    stream->End(RefuseStream(backend, context, opened.error()));
  }
  {
    const Lock lock(stream->mutex_);
    stream->stage_ = Stage::kIdle;
  }
  stream->Step();
  return stream;
}

ChangesStream::ChangesStream(const Backend& backend, grpc::CallbackServerContext* context,
                             Encode encode)
    : backend_(backend),
      context_(context),
      encode_(std::move(encode)),
      class_(ClassOf(GrpcOrigin(*context))) {}

void ChangesStream::End(grpc::Status status) {
  const Lock lock(mutex_);
  if (!end_) end_ = std::move(status);
}

bool ChangesStream::WriteOrFinish() {
  if (!end_ && messages_.empty() && !first_ && open_.after >= open_.until) end_ = grpc::Status::OK;
  if (end_) {
    stage_ = Stage::kFinished;
    Finish(*end_);
    return true;
  }
  stage_ = Stage::kBusy;
  if (messages_.empty()) return false;
  first_ = false;
  last_message_ = std::chrono::steady_clock::now();
  StartWrite(&messages_.front());
  return true;
}

// Does whatever is next: send, finish, read on, or wait to be woken.
void ChangesStream::Step() {
  std::shared_ptr<ChangesStream> self;  // a cancel may end the stream while this goes on
  while (true) {
    {
      const Lock lock(mutex_);
      if (stage_ != Stage::kIdle) return;
      self = self_;
      if (WriteOrFinish()) return;
    }
    if (open_.from_first) return ReadStore(self);
    auto portion = backend_.changes.Read(open_.after, open_.until, open_.filter);
    if (!portion) return ReadStore(self);
    Take(portion);
    const bool ended = open_.after >= open_.until;
    const uint64_t after = open_.after;
    bool idle;
    {
      const Lock lock(mutex_);
      stage_ = Stage::kIdle;
      idle = messages_.empty() && portion->at_head && !ended;
    }
    if (idle) return backend_.changes.WakeLater(self, after);
  }
}

void ChangesStream::ReadStore(const std::shared_ptr<ChangesStream>& self) {
  backend_.changes.pool().Post([self] {
    Open& open = self->open_;
    const bool from_first = std::exchange(open.from_first, false);
    auto read = self->backend_.changes.ReadStore(open.after, open.until, open.filter, from_first);
    if (read) {
      self->Take(*read);
    } else {
      self->End(RefuseStream(self->backend_, self->context_, read.error()));
    }
    {
      const Lock lock(self->mutex_);
      self->stage_ = Stage::kIdle;
    }
    self->Step();
  });
}

void ChangesStream::Take(const Changes::PortionPtr& portion) {
  open_.after = std::max(open_.after, portion->up_to);
  if (open_.until == UINT64_MAX) read_up_to_.store(open_.after, std::memory_order_relaxed);
  const Lock lock(mutex_);
  const bool silent = std::chrono::steady_clock::now() - last_message_ >= kChangesBeat;
  if (portion->changes.empty() && !(open_.beats && (first_ || silent))) {
    if (!open_.beats) first_ = false;
    return;
  }
  encode_(portion, CursorText(backend_.changes.CursorAt(open_.after)), &messages_);
}

void ChangesStream::Revoke(const Error& error) {
  {
    const Lock lock(mutex_);
    if (!end_) end_ = RefuseStream(backend_, context_, error);
  }
  Step();
}

void ChangesStream::OnWriteDone(bool ok) {
  {
    const Lock lock(mutex_);
    stage_ = Stage::kIdle;
    messages_.pop_front();
    if (!ok && !end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
  }
  Step();
}

void ChangesStream::OnCancel() {
  End({grpc::StatusCode::CANCELLED, "the call was cancelled"});
  Step();
}

void ChangesStream::OnDone() {
  backend_.watchers.Remove(this);
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<ChangesStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
