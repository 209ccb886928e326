#include "dsrv/cluster/watching.h"

#include <algorithm>
#include <utility>

#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/run_after.h"
#include "dsrv/wire/watch.h"
#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr const char* kWatch = "/dfsmr.v1.ViewService/Watch";
constexpr const char* kFeed = "/dfsmr.v1.RunnerService/Changes";
constexpr int kNews = 500;  // changes in one message
constexpr milliseconds kOpensAnew{100};
constexpr milliseconds kWatchBeat{250};
constexpr milliseconds kSilence{3'500};  // promised: a message every 5 s
constexpr std::chrono::seconds kOneLook{10};

using Topics = v1::WatchRequest::Topic;

// By which call a topic is looked at, and what is asked; null: it comes as a stream.
const char* LookOf(const Topics& topic, std::string* request) {
  switch (topic.what_case()) {
    case Topics::kOverview:
      *request = topic.overview().SerializeAsString();
      return "/dfsmr.v1.ViewService/GetOverview";
    case Topics::kMachine:
      *request = topic.machine().SerializeAsString();
      return "/dfsmr.v1.RunnerService/GetMachine";
    case Topics::kQueues:
      *request = topic.queues().SerializeAsString();
      return "/dfsmr.v1.ViewService/ListQueues";
    case Topics::kWorkers:
      *request = topic.workers().SerializeAsString();
      return "/dfsmr.v1.ViewService/ListWorkers";
    case Topics::kBulk:
      *request = topic.bulk().SerializeAsString();
      return "/dfsmr.v1.BulkService/GetBulk";
    default:
      return nullptr;
  }
}

// False: it cannot be read.
bool ReadSeen(const Topics& topic, const std::string& reply, v1::WatchResponse* out) {
  switch (topic.what_case()) {
    case Topics::kOverview:
      return out->mutable_overview()->ParseFromString(reply);
    case Topics::kMachine:
      return out->mutable_machine()->ParseFromString(reply);
    case Topics::kQueues:
      return out->mutable_queues()->ParseFromString(reply);
    case Topics::kWorkers:
      return out->mutable_workers()->ParseFromString(reply);
    case Topics::kBulk:
      return out->mutable_bulk()->ParseFromString(reply);
    default:
      return false;
  }
}

// Whether the topic is over with it, rather than that the next look may go well.
bool IsGone(grpc::StatusCode code) {
  return code == grpc::StatusCode::NOT_FOUND || code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::OUT_OF_RANGE;
}

bool IsRefused(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAUTHENTICATED ||
         code == grpc::StatusCode::PERMISSION_DENIED;
}

grpc::Status ServerStops() {
  return {grpc::StatusCode::UNAVAILABLE, "the server is stopping; watch again when it is back"};
}

}  // namespace

// One message of it is read ahead.
class Watching::Stream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                               public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Watching> watching, size_t topic)
      : watching_(std::move(watching)), topic_(topic) {}

  void Begin(Front& front, const char* method, const std::string& request) {
    self_ = shared_from_this();
    request_ = ToBuffer(request);
    own_ = front.own();
    own_->PrepareBidiStreamingCall(&context, method, grpc::StubOptions(), this);
    AddHold();
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&in_);
    StartCall();
  }
  void ReadOn() { StartRead(&in_); }
  // No read follows.
  void Close() { RemoveHold(); }

  void OnReadDone(bool ok) override {
    if (!ok) return Close();
    watching_->Take(topic_, self_, std::exchange(in_, grpc::ByteBuffer()));
  }
  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    const auto watching = std::move(watching_);
    watching->TakeEnd(topic_, self, status);
  }

  grpc::ClientContext context;
  bool waits = false;  // what it has brought is not written yet

 private:
  std::shared_ptr<Watching> watching_;
  const size_t topic_;
  StreamPtr self_;
  std::shared_ptr<grpc::GenericStub> own_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer in_;
};

bool Watching::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  return front.Parts() && context.method() == kWatch && !IsInner(context);
}

void Watching::Begin() {
  {
    const Lock lock(mutex_);
    self_ = shared_from_this();
  }
  StartRead(&request_);
}

void Watching::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  v1::WatchRequest request;
  if (!ok || !request.ParseFromString(ToBytes(request_))) {
    return End(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  if (front_.closed()) return End(ServerStops());
  auto every = CheckWatch(request);
  if (!every) return End(Refused(every.error(), context_));
  every_ = *every;
  topics_.resize(static_cast<size_t>(request.topics_size()));
  for (size_t topic = 0; topic < topics_.size(); ++topic) {
    topics_[topic].of = request.topics(static_cast<int>(topic));
  }
  for (size_t topic = 0; topic < topics_.size(); ++topic) Open(topic);
  Beat();
}

// Topics ----------------------------------------------------------------------------------------

void Watching::Open(size_t topic) {
  std::string none;
  LookOf(topics_[topic].of, &none) ? BeginLook(topic) : OpenStream(topic);
}

void Watching::OpenStream(size_t topic) {
  const Topics& of = topics_[topic].of;
  topics_[topic].stream = std::make_shared<Stream>(self_, topic);
  Stream& stream = *topics_[topic].stream;
  if (of.has_changes()) {
    v1::ChangesRequest request = of.changes();
    request.set_follow(true);
    AskInner(*context_, std::nullopt, &stream.context);
    return stream.Begin(front_, kFeed, request.SerializeAsString());
  }
  const auto& [ns, id] = of.has_instance()
                             ? std::pair(of.instance().namespace_(), of.instance().id())
                             : std::pair(of.steps().namespace_(), of.steps().instance());
  AskInner(*context_, PartitionOf(ns, id, front_.outside().partitions), &stream.context);
  v1::WatchRequest request;
  *request.add_topics() = of;
  request.mutable_every()->set_seconds(every_.count() / 1'000);
  request.mutable_every()->set_nanos(static_cast<int32_t>(every_.count() % 1'000) * 1'000'000);
  stream.Begin(front_, kWatch, request.SerializeAsString());
}

void Watching::BeginLook(size_t topic) {
  auto look = std::make_shared<Look>();
  std::string request;
  const char* const method = LookOf(topics_[topic].of, &request);
  AskInner(*context_, std::nullopt, &look->context);
  look->context.set_deadline(
      std::min(context_->deadline(), std::chrono::system_clock::now() + kOneLook));
  look->request = ToBuffer(request);
  topics_[topic].look = look;
  front_.own()->UnaryCall(&look->context, method, grpc::StubOptions(), &look->request,
                          &look->reply, [self = self_, topic, look](const grpc::Status& status) {
                            self->TakeLook(topic, look, status);
                          });
}

void Watching::Later(milliseconds time, size_t topic) {
  RunAfter(time, [self = self_, topic] {
    const Lock lock(self->mutex_);
    if (!self->ended()) self->Open(topic);
  });
}

void Watching::Beat() {
  if (front_.closed()) return End(ServerStops());
  beat_ = std::chrono::steady_clock::now() - last_ >= kSilence;
  Step();
  if (ended()) return;
  RunAfter(kWatchBeat, [self = self_] {
    const Lock lock(self->mutex_);
    if (!self->ended()) self->Beat();
  });
}

// What comes ------------------------------------------------------------------------------------

void Watching::Take(size_t topic, const StreamPtr& from, const grpc::ByteBuffer& message) {
  const Lock lock(mutex_);
  if (ended()) {
    from->context.TryCancel();
    return from->Close();
  }
  v1::WatchResponse response;
  const std::string bytes = ToBytes(message);
  Topic& of = topics_[topic];
  if (!of.of.has_changes()) {
    (void)response.ParseFromString(bytes);
    if (response.what_case() == v1::WatchResponse::WHAT_NOT_SET) return from->ReadOn();  // a beat
    if (response.has_gone()) of.over = true;
  } else {
    v1::ChangesResponse& news = *response.mutable_news();
    (void)news.ParseFromString(bytes);
    if (news.changes().empty() && of.told) return from->ReadOn();
    const int left_out = std::max(0, news.changes_size() - kNews);
    news.mutable_changes()->DeleteSubrange(0, left_out);
    response.set_left_out(static_cast<uint64_t>(left_out));
    // From here on it is opened anew.
    of.of.mutable_changes()->set_after(news.cursor());
  }
  from->waits = true;
  Show(topic, response);
}

void Watching::TakeEnd(size_t topic, const StreamPtr& from, const grpc::Status& status) {
  const Lock lock(mutex_);
  Topic& of = topics_[topic];
  if (of.stream == from) of.stream = nullptr;
  if (ended() || of.over) return;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !front_.closed()) {
    return Later(kOpensAnew, topic);  // the partition changes hands
  }
  if (!IsGone(status.error_code())) return EndAs(from->context, status);
  ShowGone(topic, from->context, status);
}

void Watching::TakeLook(size_t topic, const std::shared_ptr<Look>& look,
                        const grpc::Status& status) {
  const Lock lock(mutex_);
  Topic& of = topics_[topic];
  of.look = nullptr;
  if (ended()) return;
  if (IsRefused(status.error_code())) return EndAs(look->context, status);
  if (IsGone(status.error_code())) return ShowGone(topic, look->context, status);
  Later(every_, topic);
  v1::WatchResponse response;
  if (!status.ok() || !ReadSeen(of.of, ToBytes(look->reply), &response)) return;
  std::string bytes = ComparableBytes(response);
  if (of.told && bytes == of.bytes) return;
  of.bytes = std::move(bytes);
  Show(topic, response);
}

// Replaces what has not been written yet.
void Watching::Show(size_t topic, const v1::WatchResponse& message) {
  Topic& of = topics_[topic];
  of.told = true;
  v1::WatchResponse keyed = message;
  keyed.set_key(of.of.key());
  of.pending = keyed.SerializeAsString();
  Step();
}

void Watching::ShowGone(size_t topic, const grpc::ClientContext& context,
                        const grpc::Status& status) {
  v1::WatchResponse response;
  v1::Error& gone = *response.mutable_gone();
  gone.set_code(status.error_code());
  gone.set_reason(ValueOf(context.GetServerTrailingMetadata(), "dfsmr-reason"));
  gone.set_message(status.error_message());
  topics_[topic].over = true;
  Show(topic, response);
}

void Watching::EndAs(const grpc::ClientContext& context, const grpc::Status& status) {
  PassTrailersBack(context, context_);
  End(status.ok() ? ServerStops() : status);
}

// The client ------------------------------------------------------------------------------------

void Watching::Step() {
  if (writing_ || finished_) return;
  if (end_) {
    finished_ = true;
    return Finish(*end_);
  }
  for (size_t i = 0; i < topics_.size() && !writing_; ++i) {
    const size_t topic = (next_ + i) % topics_.size();
    Topic& of = topics_[topic];
    if (!of.pending) continue;
    reply_ = ToBuffer(*std::exchange(of.pending, std::nullopt));
    next_ = topic + 1;
    writing_ = true;
    if (of.stream && std::exchange(of.stream->waits, false)) of.stream->ReadOn();
  }
  if (!writing_ && beat_) {
    reply_ = ToBuffer("");
    writing_ = true;
  }
  if (!writing_) return;
  beat_ = false;
  last_ = std::chrono::steady_clock::now();
  StartWrite(&reply_);
}

void Watching::End(const grpc::Status& status) {
  if (end_) return;
  end_ = status;
  for (Topic& of : topics_) {
    if (of.look) of.look->context.TryCancel();
    if (!of.stream) continue;
    of.stream->context.TryCancel();
    if (std::exchange(of.stream->waits, false)) of.stream->Close();
  }
  Step();
}

void Watching::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  writing_ = false;
  if (!ok) return End(grpc::Status::CANCELLED);
  Step();
}

void Watching::OnCancel() {
  const Lock lock(mutex_);
  End(grpc::Status::CANCELLED);
}

void Watching::OnDone() {
  std::shared_ptr<Watching> self;  // perhaps the last one
  {
    const Lock lock(mutex_);
    self.swap(self_);
  }
}

}  // namespace dfsmr
