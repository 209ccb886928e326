#include "dsrv/cluster/feeds.h"

#include <algorithm>
#include <utility>

#include "dfsmr/peer.pb.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/reach.h"
#include "dsrv/cluster/run_after.h"
#include "dsrv/wire/original_line.h"
#include "fsm/base/names.h"
#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr const char* kMethod = "/dfsmr.v1.RunnerService/Changes";
constexpr const char* kOriginal = "/DistributedFSMRunner/Changes";
constexpr const char* kReadFeed = "/dfsmr.peer.PeerService/ReadFeed";
constexpr auto kAnew = std::chrono::milliseconds(50);
constexpr auto kBeat = std::chrono::milliseconds(2'500);  // promised: a message every 5 s
constexpr const char* kOldest = "0";

// The cursor of a message, in place of its own: of a field that is there twice the last counts.
void AppendCursor(const std::string& cursor, std::string* message) {
  v1::ChangesResponse more;
  more.set_cursor(cursor);
  more.AppendToString(message);
}

}  // namespace

// The stream of one partition, of which one message is read ahead; or one message of it, as the
// store has it.
class Feeds::Source final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<Source> {
 public:
  Source(std::shared_ptr<Feeds> feeds, PartitionId of) : partition(of), feeds_(std::move(feeds)) {}

  void Begin(Front& front, const grpc::GenericCallbackServerContext& outer,
             const v1::ChangesRequest& request) {
    self_ = shared_from_this();
    AskInner(outer, partition, &context);
    request_ = ToBuffer(request.SerializeAsString());
    own_ = front.own();
    own_->PrepareBidiStreamingCall(&context, kMethod, grpc::StubOptions(), this);
    AddHold();
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&in_);
    StartCall();
  }
  // `by`: a partition of this process, which reads it.
  void BeginStored(Front& front, const grpc::GenericCallbackServerContext& outer, PartitionId by,
                   const peer::ReadFeedRequest& request) {
    stored = true;
    AskInner(outer, by, &context);
    request_ = ToBuffer(request.SerializeAsString());
    own_ = front.own();
    own_->UnaryCall(&context, kReadFeed, grpc::StubOptions(), &request_, &in_,
                    [self = shared_from_this()](const grpc::Status& status) {
                      const auto feeds = std::move(self->feeds_);
                      feeds->TakeStored(self, status, ToBytes(self->in_));
                    });
  }
  void ReadOn() { StartRead(&in_); }
  // No read follows.
  void Close() {
    if (!stored) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Close();
    feeds_->Take(self_, std::exchange(in_, grpc::ByteBuffer()));
  }
  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    const auto feeds = std::move(feeds_);
    feeds->TakeEnd(self, status);
  }

  const PartitionId partition;
  grpc::ClientContext context;
  std::string message;  // that was taken, and is not told yet
  bool stored = false;
  bool whole = false;  // the store has no more

 private:
  std::shared_ptr<Feeds> feeds_;
  SourcePtr self_;
  std::shared_ptr<grpc::GenericStub> own_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer in_;
};

bool Feeds::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  if (!front.Parts() || IsInner(context)) return false;
  return context.method() == kMethod || IsOriginal(context);
}

bool Feeds::IsOriginal(const grpc::GenericCallbackServerContext& context) {
  return context.method() == kOriginal;
}

// The original's tells of one namespace, from now on.
Result<Ok> Feeds::ReadRequest() {
  asked_.Clear();
  if (original_) {
    asked_.set_namespace_("default");
    asked_.set_follow(true);
    return Ok{};
  }
  if (asked_.ParseFromString(ToBytes(request_))) return Ok{};
  return Error{Code::kInternal, Reason::kNone, "the call came without a request"};
}

void Feeds::Begin() {
  {
    const Lock lock(mutex_);
    self_ = shared_from_this();
  }
  StartRead(&request_);
}

void Feeds::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  if (!ok || !ReadRequest()) {
    return End(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  if (auto found = FindPlace(); !found) {
    return End(Refused(found.error(), context_));
  }
  const auto partitions = front_.outside().partitions;
  sources_.resize(partitions);
  if (!asked_.instance().empty()) {
    std::fill(known_.begin(), known_.end(), true);
    left_ = 1;
    const PartitionId of = PartitionOf(asked_.namespace_(), asked_.instance(), partitions);
    // What befell it before the store was migrated into several partitions is in home's feed.
    const bool earlier = of != kHome && !asked_.after().empty() && at_.seqs[of] == 0;
    if (earlier) then_ = of;
    return Open(earlier ? kHome : of);
  }
  left_ = partitions;
  for (PartitionId partition = 0; partition < partitions; ++partition) Open(partition);
}

Result<Ok> Feeds::FindPlace() {
  const auto partitions = front_.outside().partitions;
  at_.seqs.assign(partitions, 0);
  known_.assign(partitions, false);
  if (asked_.after().empty() || asked_.after() == kOldest) return Ok{};
  auto cursor = ParseCursor(asked_.after());
  if (!cursor) return cursor.error();
  if (cursor->seqs.size() != partitions) {
    return Error{Code::kOutOfRange, Reason::kCursorExpired,
                 "the cursor is of a store of " + std::to_string(cursor->seqs.size()) +
                     " partitions, and this one has " + std::to_string(partitions) +
                     ": read on from '0'"};
  }
  at_ = *std::move(cursor);
  known_.assign(partitions, true);
  return Ok{};
}

void Feeds::Open(PartitionId partition) {
  v1::ChangesRequest request = asked_;
  if (then_) request.set_follow(false);
  const bool begins = asked_.after() == kOldest && at_.seqs[partition] == 0;
  if (known_[partition] && at_.life != 0 && !begins) {
    request.set_after(CursorText({at_.life, {at_.seqs[partition]}}));
  }
  sources_[partition] = std::make_shared<Source>(self_, partition);
  sources_[partition]->Begin(front_, *context_, request);
}

void Feeds::OpenLater(PartitionId partition) {
  RunAfter(kAnew, [self = self_, partition] {
    const Lock later(self->mutex_);
    if (!self->end_ && !self->finished_) self->Open(partition);
  });
}

void Feeds::ReadStored(PartitionId partition) {
  const PartitionId by = front_.AnyPartition();
  if (front_.route(by)->kind != Route::Kind::kHere) return OpenLater(partition);
  peer::ReadFeedRequest request;
  request.set_namespace_(asked_.namespace_());
  *request.mutable_changes() = asked_;
  request.set_partition(partition);
  request.set_after(at_.seqs[partition]);
  sources_[partition] = std::make_shared<Source>(self_, partition);
  sources_[partition]->BeginStored(front_, *context_, by, request);
}

// Sources ---------------------------------------------------------------------------------------

void Feeds::Take(const SourcePtr& from, grpc::ByteBuffer message) {
  const Lock lock(mutex_);
  if (end_ || finished_) {
    from->context.TryCancel();
    return from->Close();
  }
  from->message = ToBytes(message);
  ready_.push_back(from);
  Step();
}

void Feeds::TakeEnd(const SourcePtr& from, const grpc::Status& status) {
  const Lock lock(mutex_);
  if (sources_[from->partition] == from) sources_[from->partition] = nullptr;
  if (end_ || finished_) return;
  if (status.ok()) {
    if (then_) return Open(*std::exchange(then_, std::nullopt));
    if (--left_ == 0) End(status);
    return;
  }
  const bool goes_on = status.error_code() == grpc::StatusCode::UNAVAILABLE && !cancelled_ &&
                       !front_.closed() && !front_.ending();
  if (!goes_on) {
    PassTrailersBack(from->context, context_);
    return End(status);
  }
  const std::string reason =
      ValueOf(from->context.GetServerTrailingMetadata(), "dfsmr-reason");
  const bool cut_off = reason == Name(Reason::kPeerUnreachable);
  const bool placed = known_[from->partition] && at_.life != 0;
  cut_off && placed ? ReadStored(from->partition) : OpenLater(from->partition);
}

void Feeds::TakeStored(const SourcePtr& from, const grpc::Status& status,
                       const std::string& reply) {
  const Lock lock(mutex_);
  if (end_ || finished_) return;
  peer::ReadFeedResponse stored;
  if (status.ok() && stored.ParseFromString(reply)) {
    from->message = stored.changes().SerializeAsString();
    from->whole = stored.whole();
    ready_.push_back(from);
    return Step();
  }
  sources_[from->partition] = nullptr;
  if (status.error_code() != grpc::StatusCode::OUT_OF_RANGE) return OpenLater(from->partition);
  PassTrailersBack(from->context, context_);
  End(status);
}

// What came from it is told.
void Feeds::GoOn(const SourcePtr& from) {
  if (!from->stored) return from->ReadOn();
  sources_[from->partition] = nullptr;
  if (!from->whole) return ReadStored(from->partition);
  if (asked_.follow()) return OpenLater(from->partition);
  if (--left_ == 0) End(grpc::Status::OK);
}

// The client ------------------------------------------------------------------------------------

bool Feeds::Placed() const { return std::ranges::find(known_, false) == known_.end(); }

void Feeds::TakePlace(const Source& from) {
  const auto cursor = ParseCursor(TextOfField(from.message, 2).value_or(""));
  if (!cursor) return;
  at_.life = cursor->life;
  known_[from.partition] = true;
  // It begins where its first message does.
  v1::ChangesResponse first;
  (void)first.ParseFromString(from.message);
  at_.seqs[from.partition] =
      first.changes().empty() ? cursor->seqs.front() : first.changes(0).seq() - 1;
}

void Feeds::Tell(std::string message) {
  if (!original_) {
    const auto now = std::chrono::steady_clock::now();
    const bool nothing = TextOfField(message, 1).value_or("").empty();
    if (nothing && told_ && asked_.follow() && now - last_told_ < kBeat) return;
    AppendCursor(CursorText(at_), &message);
    last_told_ = now;
    return out_.push_back(std::move(message));
  }
  v1::ChangesResponse changes;
  (void)changes.ParseFromString(message);
  for (const v1::Change& change : changes.changes()) {
    ::ChangesReply line;
    line.set_command(OriginalLine(change));
    line.set_client(change.client());
    out_.push_back(line.SerializeAsString());
  }
}

// Tells what is there, one message after the other. Before all have said where they begin there is
// no cursor for all, and nothing is told.
void Feeds::Step() {
  for (const SourcePtr& from : ready_) {
    if (!known_[from->partition] || at_.life == 0) TakePlace(*from);
  }
  if (!Placed()) return;
  while (!writing_ && !end_ && (!out_.empty() || !ready_.empty())) {
    if (out_.empty()) {
      const SourcePtr from = ready_.front();
      ready_.pop_front();
      const auto cursor = ParseCursor(TextOfField(from->message, 2).value_or(""));
      if (cursor) at_.seqs[from->partition] = cursor->seqs.front();
      Tell(std::exchange(from->message, {}));
      GoOn(from);
      continue;
    }
    reply_ = ToBuffer(out_.front());
    out_.pop_front();
    writing_ = told_ = true;
    StartWrite(&reply_);
  }
  if (end_ && !writing_ && !finished_) {
    finished_ = true;
    Finish(*end_);
  }
}

void Feeds::End(const grpc::Status& status) {
  if (end_) return;
  // What came before it is told before it.
  if (status.ok() && (writing_ || !out_.empty() || !ready_.empty())) {
    left_ = 0;
    return;
  }
  end_ = status;
  for (const SourcePtr& source : sources_) {
    if (source) source->context.TryCancel();
  }
  for (const SourcePtr& source : std::exchange(ready_, {})) source->Close();
  if (!writing_ && !finished_) {
    finished_ = true;
    Finish(*end_);
  }
}

void Feeds::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  writing_ = false;
  if (!ok) return End(grpc::Status::CANCELLED);
  Step();
  if (left_ == 0 && !writing_ && out_.empty() && ready_.empty()) End(grpc::Status::OK);
}

void Feeds::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  End(grpc::Status::CANCELLED);
}

void Feeds::OnDone() {
  std::shared_ptr<Feeds> self;  // perhaps the last one
  {
    const Lock lock(mutex_);
    self.swap(self_);
  }
}

}  // namespace dfsmr
