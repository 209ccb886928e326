#include "dsrv/cluster/scatter.h"

#include <algorithm>
#include <chrono>

#include "dsrv/cluster/give_back.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/part_batch.h"

namespace dfsmr {
namespace {

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
  if (context_->IsCancelled()) AskGiveBack(front_, origin_, tasks_.tasks(), /*perhaps=*/true);
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
  const auto self = self_;  // the last answer may come before the last question
  Prepare(questions);
  std::vector<std::shared_ptr<PartCall>> calls;
  {
    const Lock lock(mutex_);
    for (const Asked& asked : asked_) calls.push_back(asked.call);
    left_ = calls.size();
  }
  BeginAll(front_, calls);
}

std::vector<PartitionId> Scatter::Deal(const std::vector<Question>& questions) {
  const v1::ReadyRequest* const wanted = call_->Wanted();
  if (!wanted || front_.looks().AsksAllNext()) return {};
  std::vector<PartitionId> asked;
  for (const Question& question : questions) asked.push_back(question.partition);
  return front_.looks()
      .Take(NameOfLook(*wanted, *origin_), TasksWanted(*wanted), front_.ServedHere(asked),
            std::chrono::steady_clock::now())
      .value_or(std::vector<PartitionId>());
}

void Scatter::Prepare(const std::vector<Question>& questions) {
  const auto soon = std::min(context_->deadline(), std::chrono::system_clock::now() + kSoon);
  auto dealt = Deal(questions);
  const Lock lock(mutex_);
  dealt_ = std::move(dealt);
  questions_ = questions.size();
  asked_.clear();
  for (size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    const auto deadline = question.dispensable ? soon : context_->deadline();
    const std::string& method = question.method.empty() ? method_ : question.method;
    asked_.push_back(ToAsked(question.partition, method, question.request, deadline, i));
  }
  if (!dealt_.empty()) {
    for (const auto& [partition, take] : TakesOf(*call_->Wanted(), dealt_)) {
      asked_.push_back(
          ToAsked(partition, kReadyMethod, take, context_->deadline(), asked_.size()));
    }
    return;
  }
  if (!cancelled_) return;
  for (const Asked& asked : asked_) asked.call->Cancel();
}

Scatter::Asked Scatter::ToAsked(PartitionId partition, const std::string& method,
                                const std::string& request, PartCall::Deadline deadline,
                                size_t number) {
  return {.partition = partition,
          .call = std::make_shared<PartCall>(
              front_, origin_,
              PartCall::Ask{.partition = partition,
                            .method = method,
                            .request = request,
                            .deadline = deadline},
              [self = self_, number](DirectServices::Reply reply) {
                self->Answered(number, std::move(reply));
              })};
}

void Scatter::OnCancel() {
  std::shared_ptr<Taking> next;
  {
    const Lock lock(mutex_);
    cancelled_ = true;
    if (dealt_.empty()) {
      for (const Asked& asked : asked_) asked.call->Cancel();
    }
    next = next_;
  }
  if (next) next->Cancel();
}

void Scatter::Answered(size_t question, DirectServices::Reply reply) {
  PartitionId partition = 0;
  bool takes = false;
  {
    const Lock lock(mutex_);
    Asked& asked = asked_[question];
    asked.reply = {.status = reply.status, .trailers = reply.trailers};
    partition = asked.partition;
    takes = question >= questions_;
    if (takes) asked.reply.bytes = std::move(reply.bytes);
  }
  if (!takes) {
    call_->Take(question, {.status = reply.status,
                           .reason = ValueOf(reply.trailers, "dfsmr-reason"),
                           .reply = std::move(reply.bytes),
                           .server = reply.status.ok() ? "" : OwnerOf(partition)});
  }
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

// What was taken beside, in the order in which it was dealt.
v1::ReadyResponse Scatter::Taken() {
  std::map<PartitionId, v1::ReadyResponse> taken;
  for (size_t i = questions_; i < asked_.size(); ++i) {
    const Asked& asked = asked_[i];
    if (asked.reply.status.ok()) (void)taken[asked.partition].ParseFromString(asked.reply.bytes);
  }
  return TakenInOrder(dealt_, &taken);
}

void Scatter::End() {
  CallEnd end = call_->End();
  DirectServices::Reply failed;
  v1::ReportResponse whole;
  {
    const Lock lock(mutex_);
    if (end.as_question) failed = asked_[*end.as_question].reply;
    tasks_ = Taken();
    const bool lost = cancelled_ || end.as_question || end.refused;
    if (lost) AskGiveBack(front_, origin_, std::exchange(tasks_, {}).tasks(), /*perhaps=*/false);
    *whole.mutable_tasks() = tasks_.tasks();
  }
  if (end.refused) return Refuse(*end.refused);
  if (end.as_question) return EndAs(failed);
  const v1::ReadyRequest* const wanted = call_->Wanted();
  if (wanted && whole.tasks().empty()) return AskNext(std::move(end.reply), *wanted);
  whole.AppendToString(&end.reply);  // a message is the sum of its parts
  reply_ = ToBuffer(end.reply);
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void Scatter::AskNext(std::string reply, const v1::ReadyRequest& wanted) {
  auto until = context_->deadline();
  const auto now = std::chrono::system_clock::now();
  if (until != decltype(now)::max()) {
    const auto left = until - now;
    until -= std::min<decltype(left)>(kForAnswer, left / 4);
  }
  const auto next = std::make_shared<Taking>(
      front_, origin_, wanted, until,
      [self = self_, reply = std::move(reply)](const Taking::Reply& told,
                                               v1::ReadyResponse taken) {
        self->TakeNext(told, std::move(taken), reply);
      });
  bool gone = false;
  {
    const Lock lock(mutex_);
    asked_.clear();
    next_ = next;
    gone = cancelled_;
  }
  if (gone) next->Cancel();
  next->Begin();
}

// What was reported is decided: that nobody could be asked for tasks is no reason to hide it.
void Scatter::TakeNext(const Taking::Reply& next, v1::ReadyResponse taken,
                       const std::string& reply) {
  const auto code = next.status.error_code();
  const bool nobody = code == grpc::StatusCode::UNAVAILABLE ||
                      code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!next.status.ok() && !nobody) {
    PassTrailersBack(next.trailers, context_);
    return Finish(next.status);
  }
  v1::ReportResponse tasks;
  *tasks.mutable_tasks() = taken.tasks();
  {
    const Lock lock(mutex_);
    tasks_ = std::move(taken);
  }
  reply_ = ToBuffer(reply + tasks.SerializeAsString());  // a message is the sum of its parts
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void Scatter::Refuse(const Error& error) { Finish(Refused(error, context_)); }

void Scatter::EndAs(const DirectServices::Reply& reply) {
  PassTrailersBack(reply.trailers, context_);
  Finish(reply.status.ok()
             ? grpc::Status(grpc::StatusCode::INTERNAL, "an owner's answer could not be read")
             : reply.status);
}

}  // namespace dfsmr
