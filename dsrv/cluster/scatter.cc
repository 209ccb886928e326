#include "dsrv/cluster/scatter.h"

#include <algorithm>
#include <chrono>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/part_batch.h"

namespace dfsmr {
namespace {

constexpr const char* kReadyNext = "/dfsmr.v1.RunnerService/Ready";
// The answers that can be done without are waited for so long.
constexpr auto kSoon = std::chrono::milliseconds(500);
// What was reported is answered before the caller gives up, whatever becomes of its `next`.
constexpr auto kForAnswer = std::chrono::milliseconds(500);
// Metadata takes 8 KiB, and not only these. What does not fit is admitted with its part alone.
constexpr size_t kNamespacesTold = 4'000;  // bytes

std::string TextOfNamespaces(const std::vector<std::string>& namespaces) {
  std::string text;
  for (const std::string& one : namespaces) {
    if (text.size() + one.size() >= kNamespacesTold) break;
    text += (text.empty() ? "" : std::string(1, '\0')) + one;
  }
  return text;
}

}  // namespace

bool Scatter::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  if (front.outside().partitions == 1) return false;
  return IsParted(context.method()) && !IsInner(context);
}

void Scatter::Begin() {
  self_ = shared_from_this();
  if (front_.closed()) {
    return Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"));
  }
  StartRead(&request_);
}

void Scatter::OnDone() {
  const auto self = std::move(self_);  // perhaps the last one
  const Lock lock(mutex_);
  if (context_->IsCancelled()) AskGiveBack(front_, *context_, tasks_.tasks(), /*perhaps=*/true);
}

void Scatter::OnReadDone(bool ok) {
  if (!ok) {
    return Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  call_ = MakeParted(method_, ToBytes(request_),
                     {front_.outside().partitions, front_.AnyPartition()});
  if (!call_) {
    return Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the request could not be read"));
  }
  request_.Clear();
  origin_ = OriginOf(*context_, TextOfNamespaces(call_->Namespaces()));
  Ask();
}

void Scatter::Ask() {
  const std::vector<Question> questions = call_->Next();
  if (questions.empty()) return End();
  left_ = questions.size();
  const auto self = self_;  // the last answer may come before the last question
  Prepare(questions);
  std::vector<std::shared_ptr<PartCall>> calls;
  {
    const Lock lock(mutex_);
    for (const Asked& asked : asked_) calls.push_back(asked.call);
  }
  BeginAll(front_, calls);
}

void Scatter::Prepare(const std::vector<Question>& questions) {
  const auto soon = std::min(context_->deadline(), std::chrono::system_clock::now() + kSoon);
  std::vector<Asked> round;
  for (size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    round.push_back({.partition = question.partition,
                     .call = std::make_shared<PartCall>(
                         front_, origin_,
                         PartCall::Ask{.partition = question.partition,
                                       .method = method_,
                                       .request = question.request,
                                       .deadline = question.dispensable ? soon
                                                                        : context_->deadline()},
                         [self = self_, i](DirectServices::Reply reply) {
                           self->Answered(i, std::move(reply));
                         })});
  }
  const Lock lock(mutex_);
  asked_.swap(round);
  if (!cancelled_) return;
  for (const Asked& asked : asked_) asked.call->Cancel();
}

void Scatter::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  for (const Asked& asked : asked_) asked.call->Cancel();
  if (next_) next_->context.TryCancel();
}

void Scatter::Answered(size_t question, DirectServices::Reply reply) {
  PartitionId partition = 0;
  {
    const Lock lock(mutex_);
    asked_[question].reply = {.status = reply.status, .trailers = reply.trailers};
    partition = asked_[question].partition;
  }
  call_->Take(question, {.status = reply.status,
                         .reason = ValueOf(reply.trailers, "dfsmr-reason"),
                         .reply = std::move(reply.bytes),
                         .server = reply.status.ok() ? "" : OwnerOf(partition)});
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Ask();
}

std::string Scatter::OwnerOf(PartitionId partition) const {
  const auto route = front_.route(partition);
  switch (route->kind) {
    case Route::Kind::kHere:
      return front_.outside().self;
    case Route::Kind::kThere:
      return route->peer->id;
    case Route::Kind::kNobody:
      break;
  }
  return "the owner of partition " + std::to_string(partition);
}

void Scatter::End() {
  const CallEnd end = call_->End();
  if (end.refused) return Refuse(*end.refused);
  if (end.as_question) {
    DirectServices::Reply reply;
    {
      const Lock lock(mutex_);
      reply = asked_[*end.as_question].reply;
    }
    return EndAs(reply);
  }
  if (end.next) return AskNext(end.reply, *end.next);
  reply_ = ToBuffer(end.reply);
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void Scatter::AskNext(std::string reply, const std::string& next) {
  auto one = std::make_shared<Next>();
  AskInner(*context_, std::nullopt, &one->context);
  const auto now = std::chrono::system_clock::now();
  if (const auto until = context_->deadline(); until != decltype(now)::max()) {
    const auto left = until - now;
    one->context.set_deadline(until - std::min<decltype(left)>(kForAnswer, left / 4));
  }
  one->request = ToBuffer(next);
  {
    const Lock lock(mutex_);
    asked_.clear();
    next_ = one;
    if (cancelled_) one->context.TryCancel();
  }
  front_.own()->UnaryCall(&one->context, kReadyNext, grpc::StubOptions(), &one->request,
                          &one->reply,
                          [self = self_, one, reply = std::move(reply)](
                              const grpc::Status& status) {
                            one->status = status;
                            self->TakeNext(*one, reply);
                          });
}

// What was reported is decided: that nobody could be asked for tasks is no reason to hide it.
void Scatter::TakeNext(const Next& next, const std::string& reply) {
  const auto code = next.status.error_code();
  const bool nobody = code == grpc::StatusCode::UNAVAILABLE ||
                      code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!next.status.ok() && !nobody) {
    PassTrailersBack(next.context, context_);
    return Finish(next.status);
  }
  v1::ReportResponse whole;
  (void)whole.ParseFromString(reply);
  {
    const Lock lock(mutex_);
    if (next.status.ok()) (void)tasks_.ParseFromString(ToBytes(next.reply));
    *whole.mutable_tasks() = tasks_.tasks();
  }
  reply_ = ToBuffer(whole.SerializeAsString());
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void Scatter::Refuse(const Error& error) {
  if (error.reason != Reason::kNone) {
    context_->AddTrailingMetadata("dfsmr-reason", std::string(Name(error.reason)));
  }
  Finish(grpc::Status(static_cast<grpc::StatusCode>(error.code), error.message));
}

void Scatter::EndAs(const DirectServices::Reply& reply) {
  PassTrailersBack(reply.trailers, context_);
  Finish(reply.status.ok()
             ? grpc::Status(grpc::StatusCode::INTERNAL, "an owner's answer could not be read")
             : reply.status);
}

}  // namespace dfsmr
