#include "dsrv/calls/exchange.h"

#include <utility>

#include "fsm/base/result.h"

namespace dfsmr {

bool Exchange::BeginRead() {
  if (reading_ != Reading::kPaused || stage_ != Stage::kServing) return false;
  if (unanswered_ >= kUnanswered || outbox_.answers() >= kUnwritten) return false;
  reading_ = Reading::kActive;
  return true;
}

void Exchange::ReadDone() { reading_ = Reading::kPaused; }

void Exchange::ReadEnded() { reading_ = Reading::kEnded; }

void Exchange::Answer(v1::WorkResponse* answers) {
  Check(unanswered_ > 0, "each message of a stream is answered once");
  --unanswered_;
  if (answers->extended_size() > 0) --late_extends_;
  outbox_.Add(answers);
}

bool Exchange::TakeExtends(bool early) {
  if (early && /*mutant early-out-of-order*/ late_extends_ == 0 /*end*/) return true;
  ++late_extends_;
  return false;
}

void Exchange::AnswerEarly(v1::WorkResponse* extended, bool all) {
  if (all) --unanswered_;
  outbox_.Add(extended);
}

bool Exchange::Add(SessionUpdate update) {
  if (stage_ != Stage::kServing) {
    outbox_.Return(std::move(update.tasks));
    return false;
  }
  const bool drained = update.drained;
  outbox_.Add(std::move(update));
  if (drained) End(grpc::Status::OK);
  return true;
}

const v1::WorkResponse* Exchange::BeginWrite() {
  if (stage_ >= Stage::kFinished || !outbox_.Ready()) return nullptr;
  return outbox_.Write();
}

void Exchange::WriteDone(bool ok) {
  if (ok) return outbox_.Written();
  outbox_.Broke();
  Break({grpc::StatusCode::CANCELLED, "the stream broke"});
}

void Exchange::End(grpc::Status status) {
  if (stage_ != Stage::kServing) return;
  stage_ = Stage::kEnding;
  end_ = std::move(status);
}

void Exchange::Break(grpc::Status status) {
  End(std::move(status));
  awaits_answers_ = false;
}

void Exchange::Cancel(grpc::Status status) {
  Break(std::move(status));
  outbox_.Drop();
}

std::optional<grpc::Status> Exchange::TakeEnd() {
  if (stage_ != Stage::kEnding || outbox_.writing() || outbox_.Ready()) return std::nullopt;
  if (awaits_answers_ && unanswered_ > 0) return std::nullopt;
  stage_ = Stage::kFinished;
  return end_;
}

}  // namespace dfsmr
