#include "dsrv/cluster/working.h"

#include <string>
#include <utility>

#include "dsrv/cluster/give_back.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/run_after.h"
#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr const char* kWorkMethod = "/dfsmr.v1.RunnerService/Work";
constexpr const char* kAttachMethod = "/dfsmr.v1.AgentService/Attach";
constexpr const char* kPartMethod = "/dfsmr.peer.PeerService/Work";
// From one try to open a stream to the next.
constexpr milliseconds kOpenAnew{100};

// Of agents: a message at least every 5 s, with time to spare.
constexpr std::chrono::seconds kSignOfLife{4};
constexpr std::chrono::seconds kPartSilent{15};

// Whether it says that nobody could be asked, after a patience.
bool NobodyThere(const std::string& reason) {
  return reason == Name(Reason::kNoOwner) || reason == Name(Reason::kPeerUnreachable) ||
         reason == Name(Reason::kStoreUnreachable);
}

}  // namespace

bool Working::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  if (!front.Parts()) return false;
  const bool worker = context.method() == kWorkMethod || context.method() == kAttachMethod;
  return worker && !IsInner(context);
}

Working::Working(Front& front, grpc::GenericCallbackServerContext* context)
    : front_(front),
      context_(context),
      of_agent_(context->method() == kAttachMethod),
      sharing_(front.outside().partitions) {}

void Working::Begin() {
  const Lock lock(mutex_);
  self_ = shared_from_this();
  if (front_.closed()) {
    return End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"),
               peer::WorkPart::GOES_ON);
  }
  front_.TellOfStop(weak_from_this());
  ReadOn();
}

bool Working::MayEnd() const { return !of_agent_ && sharing_.opened() && sharing_.Idle(); }

void Working::Stop() {
  const Lock lock(mutex_);
  if (!end_ && MayEnd()) End(grpc::Status::OK, peer::WorkPart::HALF_CLOSED);
}

// From the worker -------------------------------------------------------------------------------

void Working::ReadOn() {
  if (reading_ || read_all_ || end_ || sharing_.Full()) return;
  reading_ = true;
  StartRead(&in_);
}

void Working::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  reading_ = false;
  if (end_) return;
  if (!ok) {
    read_all_ = true;
    if (!sharing_.opened()) return End(grpc::Status::OK, peer::WorkPart::GOES_ON);
    // Half-closed or broken: the end of the call tells.
    sharing_.Keeps() ? sharing_.Close() : sharing_.HalfClose();
    return TellAll();
  }
  const bool opens = !sharing_.opened();
  if (auto taken = Take(); !taken) return Refuse(taken.error());
  if (opens) {
    StartSendInitialMetadata();
    parts_.resize(front_.outside().partitions);
    left_ = parts_.size();
    OpenSome();
    if (of_agent_) RunAfter(kSignOfLife, [self = self_] { self->Tick(); });
  }
  TellAll();
}

Result<Ok> Working::Take() {
  heard_ = std::chrono::steady_clock::now();
  const std::string bytes = ToBytes(in_);
  in_.Clear();
  const Error unreadable{Code::kInvalidArgument, Reason::kBadRequest, "the message cannot be read"};
  if (!of_agent_) {
    v1::WorkRequest message;
    return message.ParseFromString(bytes) ? sharing_.Take(std::move(message)) : unreadable;
  }
  v1::AgentMessage message;
  return message.ParseFromString(bytes) ? sharing_.Take(std::move(message), heard_) : unreadable;
}

void Working::Tick() {
  const Lock lock(mutex_);
  if (end_) return;
  if (std::chrono::steady_clock::now() - heard_ > kPartSilent) {
    return Refuse({Code::kUnavailable, Reason::kPeerUnreachable,
                   "nothing has come from agent '" + sharing_.agent() + "' for 15 s"});
  }
  touched_ = true;
  RunAfter(kSignOfLife, [self = self_] { self->Tick(); });
  TellAll();
}

// The partitions' streams -----------------------------------------------------------------------

// All of them; but home alone before it knows the agent.
void Working::OpenSome() {
  if (opened_) return;
  opened_ = !sharing_.Unwelcomed();
  if (!parts_[kHome]) Open(kHome);
  for (PartitionId partition = 1; opened_ && partition < parts_.size(); ++partition) {
    Open(partition);
  }
}

void Working::Open(PartitionId partition) {
  const auto part = std::make_shared<PartStream>(self_, partition);
  parts_[partition] = part;
  part->Begin(front_, *context_, kPartMethod);
  const auto now = std::chrono::steady_clock::now();
  for (const peer::WorkPart& message : sharing_.Open(partition, now)) Say(*part, message);
}

void Working::OpenLater(PartitionId partition) {
  RunAfter(kOpenAnew, [self = self_, partition] {
    const Lock lock(self->mutex_);
    if (self->end_) return;
    self->Open(partition);
    self->TellAll();
  });
}

void Working::Say(PartStream& part, const peer::WorkPart& message) {
  part.Say(message.SerializeAsString());
  if (message.end() != peer::WorkPart::GOES_ON) part.SayEnd();
}

void Working::TakeReply(const PartPtr& from, const std::string& bytes) {
  peer::WorkPartReply reply;
  if (!reply.ParseFromString(bytes)) return;
  const Lock lock(mutex_);
  if (parts_[from->partition] != from) return;
  if (!end_) {
    sharing_.TakeReply(from->partition, std::move(reply), std::chrono::steady_clock::now());
    OpenSome();
    return TellAll();
  }
  // It was told too late that the worker is gone.
  peer::WorkPart last;
  for (const v1::Task& task : reply.work().tasks()) {
    peer::Claim& claim = *last.add_unsent();
    claim.set_instance(task.instance());
    claim.set_claim(task.claim());
  }
  if (!done_) GiveBack(from->partition, last);
}

void Working::TakeEnd(const PartPtr& from, const grpc::Status& status) {
  const Lock lock(mutex_);
  if (parts_[from->partition] != from) return;
  parts_[from->partition] = nullptr;
  if (end_) return;
  const bool ends = status.ok() && sharing_.ends();
  if (ends) {
    sharing_.End(from->partition);
    --left_;
  } else if (!status.ok() &&
             (status.error_code() != grpc::StatusCode::UNAVAILABLE || sharing_.Unwelcomed())) {
    return Fail(status, *from);
  } else if (front_.stops() && MayEnd()) {
    return End(grpc::Status::OK, peer::WorkPart::HALF_CLOSED);
  } else if (front_.closed() || front_.ending()) {  // it reports through another server
    return End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"),
               peer::WorkPart::GOES_ON);
  } else {
    GoOn(from, status);
  }
  TellAll();
  if (left_ == 0) End(grpc::Status::OK, peer::WorkPart::GOES_ON);
}

// The partition changes hands, or cannot be reached. What the worker has of it stays its.
void Working::GoOn(const PartPtr& from, const grpc::Status& status) {
  const PartitionId partition = from->partition;
  sharing_.Lose(partition);
  const std::string reason =
      ValueOf(from->context.GetServerTrailingMetadata(), "dfsmr-reason");
  if (NobodyThere(reason)) {
    v1::Error why;
    why.set_code(status.error_code());
    why.set_reason(reason);
    why.set_message(status.error_message());
    sharing_.Refuse(partition, why);
  }
  const bool at_once = std::chrono::steady_clock::now() - from->began > kOpenAnew;
  at_once ? Open(partition) : OpenLater(partition);
}

// What is told ----------------------------------------------------------------------------------

void Working::TellAll() {
  if (end_) return;
  if (const auto again = sharing_.Deal(std::chrono::steady_clock::now())) DealAt(*again);
  for (const auto& [partition, message] : sharing_.TakeParts()) {
    if (parts_[partition]) Say(*parts_[partition], message);
  }
  if (sharing_.Overflows()) context_->TryCancel();
  WriteOn();
  ReadOn();
  if (read_all_ && sharing_.Keeps() && sharing_.Answered()) {
    End(grpc::Status::OK, peer::WorkPart::HALF_CLOSED);
  }
}

void Working::DealAt(Time time) {
  if (deals_at_ && *deals_at_ <= time) return;
  deals_at_ = time;
  const auto left = std::chrono::ceil<milliseconds>(time - std::chrono::steady_clock::now());
  RunAfter(std::max(left, milliseconds(1)), [self = self_, time] {
    const Lock lock(self->mutex_);
    if (self->deals_at_ == time) self->deals_at_.reset();
    self->TellAll();
  });
}

void Working::WriteOn() {
  if (busy_ || finished_) return;
  if (const auto bytes = gone_ ? std::nullopt : NextMessage()) {
    out_ = ToBuffer(*bytes);
    busy_ = true;
    return StartWrite(&out_);
  }
  if (!end_) return;
  finished_ = true;
  Finish(*end_);
}

std::optional<std::string> Working::NextMessage() {
  if (!of_agent_) {
    auto told = sharing_.TakeResponse();
    if (!told) return std::nullopt;
    writing_ = *std::move(told);
    return writing_.SerializeAsString();
  }
  auto order = sharing_.TakeOrder(std::chrono::steady_clock::now(), std::exchange(touched_, false));
  if (!order) return std::nullopt;
  const std::string bytes = order->SerializeAsString();
  writing_ = std::move(*order->mutable_work());
  return bytes;
}

void Working::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  busy_ = false;
  if (!ok) {
    gone_ = true;
    End(grpc::Status::CANCELLED, peer::WorkPart::BROKEN);
  }
  writing_.Clear();
  WriteOn();
}

// The end ---------------------------------------------------------------------------------------

void Working::OnCancel() {
  const Lock lock(mutex_);
  gone_ = true;
  End(grpc::Status::CANCELLED, peer::WorkPart::BROKEN);
}

void Working::Refuse(const Error& error) {
  End(Refused(error, context_), peer::WorkPart::BROKEN);
}

void Working::Fail(const grpc::Status& status, const PartStream& of) {
  PassTrailersBack(of.context, context_);
  // Of a worker whose credential has ended no session keeps anything.
  const bool for_good = status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
  End(status, for_good ? peer::WorkPart::HALF_CLOSED : peer::WorkPart::BROKEN);
}

void Working::End(const grpc::Status& status, peer::WorkPart::End of) {
  if (end_) return;
  end_ = status;
  if (!status.ok()) {
    for (const auto& [partition, last] : sharing_.Farewell(of, writing_)) {
      parts_[partition] ? Say(*parts_[partition], last) : GiveBack(partition, last);
    }
  }
  for (const PartPtr& part : parts_) {
    if (part && of == peer::WorkPart::GOES_ON) part->Cancel();
  }
  WriteOn();
}

// Tasks that did not reach the worker, of a partition that has no stream.
void Working::GiveBack(PartitionId partition, const peer::WorkPart& last) {
  for (const bool perhaps : {false, true}) {
    peer::GiveBackRequest request;
    request.set_namespace_(sharing_.space());
    request.set_perhaps(perhaps);
    *request.mutable_tasks() = perhaps ? last.doubtful() : last.unsent();
    if (!request.tasks().empty()) AskGiveBack(front_, OriginOf(*context_), partition, request);
  }
}

void Working::OnDone() {
  std::shared_ptr<Working> self;  // perhaps the last one
  {
    const Lock lock(mutex_);
    gone_ = true;
    End(grpc::Status::CANCELLED, peer::WorkPart::BROKEN);
    peer::WorkPart last;  // for those that do not know how it has ended
    last.set_end(context_->IsCancelled() ? peer::WorkPart::BROKEN : peer::WorkPart::HALF_CLOSED);
    for (const PartPtr& part : parts_) {
      if (part) Say(*part, last);
    }
    done_ = true;
    self.swap(self_);
  }
}

}  // namespace dfsmr
