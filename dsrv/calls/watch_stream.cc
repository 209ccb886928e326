#include "dsrv/calls/watch_stream.h"

#include <set>

#include "dsrv/wire/checks.h"
#include "dsrv/wire/watch.h"

namespace dfsmr {
namespace {

constexpr int kChangesShown = 200;                           // of an instance, in one message
constexpr auto kWatchSilence = std::chrono::milliseconds(3'500);  // promised: a message every 5 s

Error TooManyWatchers() {
  return {Code::kResourceExhausted, Reason::kOverloaded,
          "the server serves as many watchers as it can already"};
}

}  // namespace

WatchStream* WatchStream::Begin(const Backend& backend, Looks& looks,
                                grpc::CallbackServerContext* context, const Method& method,
                                const Result<Caller>& caller, const v1::WatchRequest& request) {
  auto* stream = new WatchStream(backend, looks, context, request);
  stream->Counts(backend, *context, method);
  std::shared_ptr<WatchStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  auto every = CheckWatch(request);
  std::optional<Error> refusal;
  if (!caller) {
    refusal = caller.error();
  } else if (!every) {
    refusal = every.error();
  } else {
    stream->entered_ = backend.gate.Admit();
    if (!stream->entered_) refusal = Stopping();
  }
  if (!refusal && !looks.Add(self, request, *every, *caller)) refusal = TooManyWatchers();
  if (refusal) {
    stream->EndWith(RefuseStream(backend, context, *refusal));
  } else {
    backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  }
  return stream;
}

void WatchStream::Show(size_t topic, Looks::ValuePtr value) {
  const Lock lock(mutex_);
  if (pending_[topic] && pending_[topic]->message.has_news()) {  // never to be read
    const v1::WatchResponse& lost = pending_[topic]->message;
    lost_[topic] += lost.left_out() + static_cast<uint64_t>(lost.news().changes_size());
  }
  pending_[topic] = std::move(value);
  Step();
}

void WatchStream::Beat() {
  const Lock lock(mutex_);
  beat_ = std::chrono::steady_clock::now() - last_ >= kWatchSilence;
  Step();
}

void WatchStream::Stop() {
  EndWith({grpc::StatusCode::UNAVAILABLE, "the server is stopping; watch again when it is back"});
}

void WatchStream::Revoke(const Error& error) { EndWith(RefuseStream(backend_, context_, error)); }

void WatchStream::EndWith(grpc::Status status) {
  const Lock lock(mutex_);
  if (!end_) end_ = std::move(status);
  Step();
}

void WatchStream::Step() {
  if (writing_ || finished_) return;
  if (end_) {
    finished_ = true;
    Finish(*end_);
    return;
  }
  for (size_t i = 0; i < pending_.size(); ++i) {
    const size_t topic = (next_ + i) % pending_.size();
    if (!pending_[topic]) continue;
    const Looks::ValuePtr value = std::exchange(pending_[topic], nullptr);
    next_ = topic + 1;
    Fill(topic, *value);
    writing_ = true;
    break;
  }
  if (!writing_ && beat_) {
    outgoing_.Clear();
    writing_ = true;
  }
  if (!writing_) return;
  beat_ = false;
  last_ = std::chrono::steady_clock::now();
  StartWrite(&outgoing_);
}

// An instance comes with its changes since the last message.
void WatchStream::Fill(size_t topic, const Looks::Value& value) {
  outgoing_ = value.message;
  outgoing_.set_key(request_.topics(static_cast<int>(topic)).key());
  if (value.message.has_news()) {
    outgoing_.set_left_out(value.message.left_out() + std::exchange(lost_[topic], 0));
  }
  if (!value.message.has_instance() || value.changes.empty()) return;
  std::optional<uint64_t>& told = told_[topic];
  if (told) {
    size_t fresh = 0;
    for (const v1::Change& change : value.changes) fresh += change.seq() > *told ? 1 : 0;
    size_t left_out = fresh > kChangesShown ? fresh - kChangesShown : 0;
    outgoing_.set_left_out(left_out);
    for (const v1::Change& change : value.changes) {
      if (change.seq() <= *told) continue;
      if (left_out > 0) {
        --left_out;
      } else {
        *outgoing_.add_changes() = change;
      }
    }
  }
  told = value.changes.back().seq();
}

void WatchStream::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  writing_ = false;
  if (!ok && !end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
  Step();
}

void WatchStream::OnCancel() { EndWith({grpc::StatusCode::CANCELLED, "the call was cancelled"}); }

void WatchStream::OnDone() {
  looks_.Remove(this);
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<WatchStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
