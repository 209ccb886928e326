#include "dsrv/cluster/part_stream.h"

#include <utility>

#include "dsrv/cluster/inner.h"

namespace dfsmr {

void PartStream::Begin(Front& front, const grpc::GenericCallbackServerContext& outer,
                       const char* method) {
  self_ = shared_from_this();
  AskInner(outer, partition, &context);
  own_ = front.own();
  own_->PrepareBidiStreamingCall(&context, method, grpc::StubOptions(), this);
  AddMultipleHolds(2);  // of reads and of writes
  StartRead(&in_);
  StartCall();
}

void PartStream::Say(std::string bytes) {
  if (ends_) return;
  unsent_.push_back(std::move(bytes));
  WriteOn();
}

void PartStream::SayEnd() {
  ends_ = true;
  WriteOn();
}

void PartStream::Close() {
  unsent_.clear();
  SayEnd();
}

void PartStream::Cancel() {
  context.TryCancel();
  Close();
}

void PartStream::WriteOn() {
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

void PartStream::OnReadDone(bool ok) {
  if (!ok) {
    {
      const Lock lock(whole_->mutex());
      Close();
    }
    return RemoveHold();
  }
  whole_->TakeReply(self_, ToBytes(in_));
  in_.Clear();
  StartRead(&in_);
}

void PartStream::OnWriteDone(bool ok) {
  const Lock lock(whole_->mutex());
  writing_ = false;
  ok ? WriteOn() : Close();
}

void PartStream::OnDone(const grpc::Status& status) {
  const auto self = std::move(self_);
  const auto whole = std::move(whole_);
  whole->TakeEnd(self, status);
}

}  // namespace dfsmr
