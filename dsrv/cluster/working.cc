#include "dsrv/cluster/working.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <utility>

#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/levels.h"
#include "dsrv/cluster/metadata.h"
#include "fsm/base/limits.h"
#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr const char* kWork = "/dfsmr.v1.RunnerService/Work";
constexpr const char* kPart = "/dfsmr.peer.PeerService/Work";
constexpr const char* kGiveBack = "/dfsmr.peer.PeerService/GiveBack";
constexpr milliseconds kAnew{100};
constexpr milliseconds kPatience{5'000};
// What is asked and not answered, before the worker's next message is read.
constexpr size_t kUnanswered = 10'000;

v1::Error Unknown() {
  v1::Error error;
  error.set_code(grpc::StatusCode::UNAVAILABLE);
  error.set_reason(std::string(Name(Reason::kOutcomeUnknown)));
  error.set_message("the server that owned the partition was lost meanwhile: it may be done");
  return error;
}

// Whether the claim that was reported is in nobody's hand any more.
bool IsOver(const v1::TransitionResult& result) {
  if (result.has_accepted()) return true;
  const Reason reason = ReasonNamed(result.error().reason());
  return reason == Reason::kStaleClaim || reason == Reason::kNoSuchInstance ||
         reason == Reason::kInstanceStopped;
}

}  // namespace

// The stream of one partition. All that it decides the stream as a whole decides.
class Working::Part final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<Part> {
 public:
  Part(std::shared_ptr<Working> work, PartitionId of) : partition(of), work_(std::move(work)) {}

  void Begin(Front& front, const grpc::GenericCallbackServerContext& outer) {
    self_ = shared_from_this();
    AskInner(outer, partition, &context);
    own_ = front.own();
    own_->PrepareBidiStreamingCall(&context, kPart, grpc::StubOptions(), this);
    AddHold();  // of reads
    AddHold();  // of writes
    StartRead(&in_);
    StartCall();
  }
  void Send(const peer::WorkPart& message) {
    if (said_all_) return;
    unsent_.push_back(message.SerializeAsString());
    WriteOn();
  }
  void SayAll() {
    ends_ = true;
    WriteOn();
  }
  // Nothing is begun any more.
  void Close() {
    context.TryCancel();
    unsent_.clear();
    ends_ = true;
    WriteOn();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // it has ended: nothing is written any more
      {
        const Lock lock(work_->mutex_);
        unsent_.clear();
        ends_ = true;
        WriteOn();
      }
      return RemoveHold();
    }
    peer::WorkPartReply reply;
    const bool read = reply.ParseFromString(ToBytes(in_));
    in_.Clear();
    if (read) work_->TakeReply(self_, std::move(reply));
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    const Lock lock(work_->mutex_);
    writing_ = false;
    if (!ok) unsent_.clear();
    WriteOn();
  }
  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    const auto work = std::move(work_);
    work->TakeEnd(self, status);
  }

  const PartitionId partition;
  grpc::ClientContext context;
  // What it was asked, in order.
  std::deque<InOrder<v1::TransitionResult>::Ticket> results;
  std::deque<std::string> reported;  // claims, beside results
  std::deque<InOrder<v1::ExtendResponse::Item>::Ticket> extended;
  peer::PeekResponse levels;  // as last told, since nothing was allowed
  size_t in_hand = 0;
  size_t allowed = 0;  // and not answered yet
  bool looks = false;  // it was asked what there is, and has not said it yet

 private:
  void WriteOn() {
    if (writing_ || said_all_) return;
    if (!unsent_.empty()) {
      out_ = ToBuffer(unsent_.front());
      unsent_.pop_front();
      writing_ = true;
      return StartWrite(&out_);
    }
    if (!ends_) return;
    said_all_ = true;
    StartWritesDone();
    RemoveHold();
  }

  std::shared_ptr<Working> work_;
  PartPtr self_;
  std::shared_ptr<grpc::GenericStub> own_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  std::deque<std::string> unsent_;
  bool writing_ = false;
  bool ends_ = false;
  bool said_all_ = false;
};

bool Working::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  return front.outside().partitions > 1 && context.method() == kWork && !IsInner(context);
}

void Working::Begin() {
  const Lock lock(mutex_);
  self_ = shared_from_this();
  ReadOn();
}

// The worker's messages --------------------------------------------------------------------------

void Working::ReadOn() {
  if (reading_ || read_all_ || end_) return;
  if (results_.open() + extended_.open() >= kUnanswered) return;
  reading_ = true;
  StartRead(&in_);
}

void Working::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  reading_ = false;
  if (end_) return;
  if (!ok) {
    read_all_ = true;
    for (const PartPtr& part : parts_) {
      if (part) part->SayAll();
    }
    if (!open_) End(grpc::Status::OK);
    return;
  }
  v1::WorkRequest message;
  if (!message.ParseFromString(ToBytes(in_))) {
    return End(grpc::Status(grpc::StatusCode::INTERNAL, "the message could not be read"));
  }
  in_.Clear();
  Take(std::move(message));
  ReadOn();
}

void Working::Take(v1::WorkRequest message) {
  if (!open_ && !message.has_open()) {
    context_->AddTrailingMetadata("dfsmr-reason", std::string(Name(Reason::kBadRequest)));
    return End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                            "the first message of a Work stream must hold 'open'"));
  }
  if (open_ && message.has_open()) {
    context_->AddTrailingMetadata("dfsmr-reason", std::string(Name(Reason::kBadRequest)));
    return End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                            "'open' belongs in the first message of a Work stream only"));
  }
  if (!open_) Open(message.open());
  Share(std::move(message));
}

void Working::Open(const v1::ReadyRequest& open) {
  open_ = open;
  most_ = static_cast<size_t>(std::clamp(open.max_tasks(), 1, limits::kCapacity));
  const auto partitions = front_.outside().partitions;
  parts_.resize(partitions);
  given_.resize(partitions);
  open_parts_ = partitions;
  for (PartitionId partition = 0; partition < partitions; ++partition) OpenPart(partition);
}

void Working::OpenPart(PartitionId partition) {
  const auto part = std::make_shared<Part>(self_, partition);
  parts_[partition] = part;
  peer::WorkPart first;
  *first.mutable_work()->mutable_open() = *open_;
  first.mutable_work()->set_drain(drains_);
  part->Begin(front_, *context_);
  part->Send(first);
  if (read_all_) part->SayAll();
}

PartitionId Working::PlaceOf(const std::string& ns, const std::string& instance) const {
  return PartitionOf(ns.empty() ? open_->namespace_() : ns, instance, front_.outside().partitions);
}

// Each partition gets what is about its instances.
void Working::Share(v1::WorkRequest message) {
  std::map<PartitionId, v1::WorkRequest> shares;
  for (auto& one : *message.mutable_transitions()) {
    const PartitionId of = PlaceOf(one.namespace_(), one.instance());
    const auto ticket = results_.Expect();
    if (const PartPtr& part = parts_[of]) {
      part->results.push_back(ticket);
      part->reported.push_back(one.claim());
      shares[of].add_transitions()->Swap(&one);
    } else {
      v1::TransitionResult result;
      *result.mutable_error() = Unknown();
      results_.Put(ticket, std::move(result));
    }
  }
  for (auto& one : *message.mutable_extends()) {
    const PartitionId of = PlaceOf("", one.instance());
    const auto ticket = extended_.Expect();
    if (const PartPtr& part = parts_[of]) {
      part->extended.push_back(ticket);
      shares[of].add_extends()->Swap(&one);
    } else {
      v1::ExtendResponse::Item item;
      *item.mutable_error() = Unknown();
      extended_.Put(ticket, std::move(item));
    }
  }
  for (auto& one : *message.mutable_relinquishes()) {
    const PartitionId of = PlaceOf(one.namespace_(), one.instance());
    given_[of].erase(one.claim());
    if (parts_[of]) shares[of].add_relinquishes()->Swap(&one);
  }
  if (message.drain() && !std::exchange(drains_, true)) {
    for (const PartPtr& part : parts_) {
      if (part) shares[part->partition].set_drain(true);
    }
  }
  for (auto& [of, share] : shares) {
    peer::WorkPart part;
    part.mutable_work()->Swap(&share);
    parts_[of]->Send(part);
  }
  WriteOn();
}

// Parts ------------------------------------------------------------------------------------------

void Working::TakeReply(const PartPtr& from, peer::WorkPartReply reply) {
  const Lock lock(mutex_);
  if (end_ || parts_[from->partition] != from) return;
  v1::WorkResponse& work = *reply.mutable_work();
  for (auto& result : *work.mutable_results()) {
    if (from->results.empty()) break;
    if (IsOver(result)) given_[from->partition].erase(from->reported.front());
    results_.Put(from->results.front(), std::move(result));
    from->results.pop_front();
    from->reported.pop_front();
  }
  for (auto& item : *work.mutable_extended()) {
    if (from->extended.empty()) break;
    extended_.Put(from->extended.front(), std::move(item));
    from->extended.pop_front();
  }
  const size_t tasks = static_cast<size_t>(work.tasks_size());
  from->allowed -= std::min(from->allowed, tasks + reply.spare());
  if (reply.has_in_hand()) from->in_hand = reply.in_hand();
  if (reply.looked()) {
    from->looks = false;
    from->levels.mutable_levels()->Swap(reply.mutable_levels());
  }
  for (const v1::Task& task : work.tasks()) given_[from->partition].insert(task.claim());
  for (const std::string& claim : work.cancelled_claims()) {
    if (std::ranges::count(work.finishable_claims(), claim) == 0) {
      given_[from->partition].erase(claim);
    }
  }
  work.clear_results();
  work.clear_extended();
  next_.MergeFrom(work);
  Deal();
  WriteOn();
  ReadOn();
}

void Working::TakeEnd(const PartPtr& from, const grpc::Status& status) {
  const Lock lock(mutex_);
  const PartitionId partition = from->partition;
  if (parts_.empty() || parts_[partition] != from) return;
  LosePart(*from);
  parts_[partition] = nullptr;
  if (end_) return;
  if (status.ok()) {
    given_[partition].clear();
    if (--open_parts_ == 0) return End(status);
    Deal();
    return WriteOn();
  }
  const bool goes_on = status.error_code() == grpc::StatusCode::UNAVAILABLE && !front_.closed() &&
                       !front_.ending();
  if (!goes_on) return Fail(status, from.get());
  // The partition changes hands. What the worker has of it stays its, until it reports.
  auto alarm = std::make_shared<grpc::Alarm>();
  grpc::Alarm& set = *alarm;
  set.Set(std::chrono::system_clock::now() + kAnew,
          [alarm = std::move(alarm), self = self_, partition](bool) mutable {
            const auto ends_with_this = std::move(alarm);
            const Lock later(self->mutex_);
            if (!self->end_) self->OpenPart(partition);
          });
  Deal();
  WriteOn();
}

void Working::LosePart(Part& part) {
  for (const auto ticket : std::exchange(part.results, {})) {
    v1::TransitionResult result;
    *result.mutable_error() = Unknown();
    results_.Put(ticket, std::move(result));
  }
  for (const auto ticket : std::exchange(part.extended, {})) {
    v1::ExtendResponse::Item item;
    *item.mutable_error() = Unknown();
    extended_.Put(ticket, std::move(item));
  }
  part.reported.clear();
}

// What is in hand counts by the word of its partition; where that has none now, by what was given.
size_t Working::Room() const {
  size_t used = 0;
  for (size_t partition = 0; partition < parts_.size(); ++partition) {
    const PartPtr& part = parts_[partition];
    const size_t given = given_[partition].size();
    used += part ? std::max(part->in_hand, given) + part->allowed : given;
  }
  return used < most_ ? most_ - used : 0;
}

void Working::Deal() {
  if (drains_ || read_all_) return;
  const size_t room = Room();
  if (room == 0) {
    full_ = true;
    return;
  }
  const bool stale = std::exchange(full_, false);
  bool waits = false;
  bool any = false;
  for (const PartPtr& part : parts_) {
    if (!part) continue;
    if (stale && !part->looks) {
      part->looks = true;
      part->levels.Clear();
      peer::WorkPart look;
      look.set_look(true);
      part->Send(look);
    }
    waits = waits || part->looks;
    any = any || !part->levels.levels().empty();
  }
  if (waits || !any) return;
  std::vector<peer::PeekResponse> found(parts_.size());
  for (const PartPtr& part : parts_) {
    if (part) found[part->partition] = part->levels;
  }
  std::map<PartitionId, uint32_t> shares;
  for (const PartitionId of : dfsmr::Deal(found, room)) ++shares[of];
  for (const auto& [of, tasks] : shares) {
    peer::WorkPart allow;
    allow.set_allow(tasks);
    parts_[of]->allowed += tasks;
    parts_[of]->levels.Clear();  // what is left it tells
    parts_[of]->Send(allow);
  }
}

// The worker -------------------------------------------------------------------------------------

void Working::WriteOn() {
  if (busy_ || finished_) return;
  if (!end_ || end_->ok()) {
    while (auto result = results_.Next()) next_.add_results()->Swap(&*result);
    while (auto item = extended_.Next()) next_.add_extended()->Swap(&*item);
    if (next_.ByteSizeLong() > 0) {
      writing_.Swap(&next_);
      next_.Clear();
      out_ = ToBuffer(writing_.SerializeAsString());
      busy_ = true;
      return StartWrite(&out_);
    }
  }
  if (!end_) return;
  finished_ = true;
  Finish(*end_);
}

void Working::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  busy_ = false;
  if (!ok) {
    GiveBack(writing_, /*perhaps=*/true);
    End(grpc::Status::CANCELLED);
  }
  writing_.Clear();
  WriteOn();
}

void Working::OnCancel() {
  const Lock lock(mutex_);
  End(grpc::Status::CANCELLED);
}

void Working::Fail(const grpc::Status& status, const Part* of) {
  if (of) {
    for (const auto& [key, value] : of->context.GetServerTrailingMetadata()) {
      const std::string name = Text(key);
      if (IsPassedBack(name)) context_->AddTrailingMetadata(name, Text(value));
    }
  }
  End(status);
}

void Working::End(const grpc::Status& status) {
  if (end_) return;
  end_ = status;
  if (!status.ok()) GiveBack(std::exchange(next_, {}), /*perhaps=*/false);
  for (const PartPtr& part : parts_) {
    if (part) part->Close();
  }
  WriteOn();
}

// Tasks that were not told to the worker.
void Working::GiveBack(const v1::WorkResponse& unsent, bool perhaps) {
  struct Asked {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };
  std::map<PartitionId, peer::GiveBackRequest> requests;
  for (const v1::Task& task : unsent.tasks()) {
    peer::GiveBackRequest& request = requests[PlaceOf(task.namespace_(), task.instance())];
    request.set_namespace_(task.namespace_());
    request.set_perhaps(perhaps);
    auto& one = *request.add_tasks();
    one.set_instance(task.instance());
    one.set_claim(task.claim());
  }
  for (const auto& [partition, request] : requests) {
    auto asked = std::make_shared<Asked>();
    AskInner(*context_, partition, &asked->context);
    asked->context.set_deadline(std::chrono::system_clock::now() + kPatience);
    asked->request = ToBuffer(request.SerializeAsString());
    front_.own()->UnaryCall(&asked->context, kGiveBack, grpc::StubOptions(), &asked->request,
                            &asked->reply, [asked](const grpc::Status&) {});
  }
}

void Working::OnDone() {
  std::shared_ptr<Working> self;  // perhaps the last one
  {
    const Lock lock(mutex_);
    if (!end_) End(grpc::Status::CANCELLED);
    self.swap(self_);
  }
}

}  // namespace dfsmr
