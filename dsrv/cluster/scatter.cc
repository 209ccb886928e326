#include "dsrv/cluster/scatter.h"

#include <algorithm>
#include <chrono>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"

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
  namespaces_ = TextOfNamespaces(call_->Namespaces());
  Ask();
}

void Scatter::Ask() {
  const std::vector<Question> questions = call_->Next();
  if (questions.empty()) return End();
  left_ = questions.size();
  const auto own = front_.own();
  const auto self = self_;  // the last answer may come before the last question
  const std::vector<Asked*> all = Prepare(questions);
  for (size_t i = 0; i < all.size(); ++i) {
    Asked* const asked = all[i];
    own->UnaryCall(&asked->context, method_, grpc::StubOptions(), &asked->request, &asked->reply,
                   [self, i, asked](const grpc::Status& status) {
                     self->Answered(i, asked, status);
                   });
  }
}

std::vector<Scatter::Asked*> Scatter::Prepare(const std::vector<Question>& questions) {
  std::vector<std::unique_ptr<Asked>> round;
  std::vector<Asked*> all;
  for (const Question& question : questions) {
    Asked* const asked = round.emplace_back(std::make_unique<Asked>()).get();
    asked->partition = question.partition;
    asked->request = ToBuffer(question.request);
    Describe(question, &asked->context);
    all.push_back(asked);
  }
  const Lock lock(mutex_);
  asked_.swap(round);
  if (cancelled_) {
    for (Asked* const asked : all) asked->context.TryCancel();
  }
  return all;
}

void Scatter::Describe(const Question& question, grpc::ClientContext* context) const {
  AskInner(*context_, question.partition, context);
  if (!namespaces_.empty()) context->AddMetadata(std::string(door::kNamespaces), namespaces_);
  if (!question.dispensable) return;
  context->set_deadline(std::min(context_->deadline(), std::chrono::system_clock::now() + kSoon));
}

void Scatter::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  for (const auto& asked : asked_) asked->context.TryCancel();
}

void Scatter::Answered(size_t question, Asked* asked, const grpc::Status& status) {
  asked->status = status;
  const Metadata& trailers = asked->context.GetServerTrailingMetadata();
  call_->Take(question, {.status = status,
                         .reason = ValueOf(trailers, "dfsmr-reason"),
                         .reply = ToBytes(asked->reply),
                         .server = status.ok() ? "" : OwnerOf(asked->partition)});
  asked->reply.Clear();
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
    const Asked* asked = nullptr;
    {
      const Lock lock(mutex_);
      asked = asked_[*end.as_question].get();
    }
    return EndAs(*asked);
  }
  if (end.next) return AskNext(end.reply, *end.next);
  reply_ = ToBuffer(end.reply);
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void Scatter::AskNext(std::string reply, const std::string& next) {
  auto one = std::make_unique<Asked>();
  Asked* const asked = one.get();
  AskInner(*context_, std::nullopt, &asked->context);
  const auto now = std::chrono::system_clock::now();
  if (const auto until = context_->deadline(); until != decltype(now)::max()) {
    const auto left = until - now;
    asked->context.set_deadline(until - std::min<decltype(left)>(kForAnswer, left / 4));
  }
  asked->request = ToBuffer(next);
  {
    const Lock lock(mutex_);
    asked_.clear();
    asked_.push_back(std::move(one));
    if (cancelled_) asked->context.TryCancel();
  }
  front_.own()->UnaryCall(&asked->context, kReadyNext, grpc::StubOptions(), &asked->request,
                          &asked->reply,
                          [self = self_, asked, reply = std::move(reply)](
                              const grpc::Status& status) {
                            asked->status = status;
                            self->TakeNext(*asked, reply);
                          });
}

// What was reported is decided: that nobody could be asked for tasks is no reason to hide it.
void Scatter::TakeNext(const Asked& asked, const std::string& reply) {
  const auto code = asked.status.error_code();
  const bool nobody = code == grpc::StatusCode::UNAVAILABLE ||
                      code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!asked.status.ok() && !nobody) return EndAs(asked);
  v1::ReportResponse whole;
  (void)whole.ParseFromString(reply);
  {
    const Lock lock(mutex_);
    if (asked.status.ok()) (void)tasks_.ParseFromString(ToBytes(asked.reply));
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

void Scatter::EndAs(const Asked& asked) {
  PassTrailersBack(asked.context, context_);
  Finish(asked.status.ok()
             ? grpc::Status(grpc::StatusCode::INTERNAL, "an owner's answer could not be read")
             : asked.status);
}

}  // namespace dfsmr
