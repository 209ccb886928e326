#include "dsrv/cluster/appending.h"

#include <chrono>
#include <utility>

#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/run_after.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr const char* kAppendLogs = "/dfsmr.v1.AgentService/AppendLogs";
constexpr size_t kRequestsAhead = 16;  // requests; with more no further one is read
// From one try to open a stream to the next.
constexpr std::chrono::milliseconds kSayAnew{100};

}  // namespace

bool Appending::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  return front.outside().partitions > 1 && context.method() == kAppendLogs && !IsInner(context);
}

Appending::Appending(Front& front, grpc::GenericCallbackServerContext* context)
    : front_(front),
      context_(context),
      shares_(front.outside().partitions),
      parts_(front.outside().partitions),
      rests_(front.outside().partitions) {}

void Appending::Begin() {
  const Lock lock(mutex_);
  self_ = shared_from_this();
  if (front_.closed()) {
    return End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"));
  }
  StartSendInitialMetadata();
  Open(kHome);  // it says at once who may not come in
  GoOn();
}

void Appending::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  reading_ = false;
  if (!ok) {
    read_all_ = true;
  } else if (!end_) {
    shares_.Take(ToBytes(in_));
    in_.Clear();
  }
  GoOn();
}

void Appending::GoOn() {
  if (finished_) return;
  for (PartitionId partition = 0; !end_ && partition < parts_.size(); ++partition) {
    SayTo(partition);
  }
  if (!writing_) {
    if (const auto response = shares_.TakeResponse(); response && !end_) {
      out_ = ToBuffer(response->SerializeAsString());
      writing_ = true;
      StartWrite(&out_);
    }
  }
  if (!writing_ && read_all_ && shares_.unanswered() == 0) End(grpc::Status::OK);
  if (!writing_ && end_ && !finished_) {
    finished_ = true;
    return Finish(*end_);
  }
  if (reading_ || read_all_ || end_ || shares_.unanswered() > kRequestsAhead) return;
  reading_ = true;
  StartRead(&in_);
}

void Appending::SayTo(PartitionId partition) {
  if (!shares_.HasNextFor(partition) || rests_[partition]) return;
  if (!parts_[partition]) Open(partition);
  while (auto message = shares_.NextFor(partition)) parts_[partition]->Say(*std::move(message));
}

void Appending::Open(PartitionId partition) {
  parts_[partition] = std::make_shared<PartStream>(self_, partition);
  parts_[partition]->Begin(front_, *context_, kAppendLogs);
}

void Appending::SayLater(PartitionId partition) {
  rests_[partition] = true;
  RunAfter(kSayAnew, [self = self_, partition] {
    const Lock lock(self->mutex_);
    self->rests_[partition] = false;
    self->GoOn();
  });
}

void Appending::TakeReply(const PartStream::Ptr& from, const std::string& bytes) {
  v1::AppendLogsResponse answer;
  if (!answer.ParseFromString(bytes)) return;
  const Lock lock(mutex_);
  if (parts_[from->partition] != from) return;
  shares_.TakeAnswer(from->partition, answer);
  GoOn();
}

void Appending::TakeEnd(const PartStream::Ptr& from, const grpc::Status& status) {
  const Lock lock(mutex_);
  if (parts_[from->partition] != from) return;
  parts_[from->partition] = nullptr;
  if (end_) return;
  shares_.Lose(from->partition);
  if (!status.ok() && status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    PassTrailersBack(from->context, context_);
    End(status);
  } else if (front_.closed() || front_.ending()) {
    End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"));
  } else {
    SayLater(from->partition);
  }
  GoOn();
}

void Appending::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  writing_ = false;
  if (!ok) End(grpc::Status::CANCELLED);
  GoOn();
}

void Appending::OnCancel() {
  const Lock lock(mutex_);
  End(grpc::Status::CANCELLED);
  GoOn();
}

void Appending::End(const grpc::Status& status) {
  if (end_) return;
  end_ = status;
  for (const PartStream::Ptr& part : parts_) {
    if (part) part->Cancel();
  }
  GoOn();
}

void Appending::OnDone() {
  std::shared_ptr<Appending> self;  // perhaps the last one
  const Lock lock(mutex_);
  End(grpc::Status::CANCELLED);
  self.swap(self_);
}

}  // namespace dfsmr
