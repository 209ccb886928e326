#include "dsrv/cluster/scatter.h"

#include <type_traits>
#include <utility>

#include "dsrv/cluster/batches.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/reach.h"

namespace dfsmr {
namespace {

template <typename Request, typename Reply>
class BatchOf final : public PartedBatch {
 public:
  explicit BatchOf(BatchParts<Request> parts) : parts_(std::move(parts)), replies_(parts_.size()) {}

  size_t parts() const override { return parts_.size(); }
  PartitionId PartitionAt(size_t part) const override { return parts_[part].partition; }
  std::string RequestAt(size_t part) const override {
    return parts_[part].request.SerializeAsString();
  }
  void Take(size_t part, const grpc::Status& status, const std::string& reason,
            const std::string& bytes) override {
    Reply reply;
    PartReply<Reply>& to = replies_[part];
    if (status.ok() && reply.ParseFromString(bytes)) {
      to.reply = std::move(reply);
      return;
    }
    to.error.set_code(status.ok() ? grpc::StatusCode::INTERNAL : status.error_code());
    to.error.set_reason(reason);
    to.error.set_message(status.ok() ? "the owner's answer could not be read"
                                     : status.error_message());
  }
  bool Join(std::string* bytes) override {
    Reply reply;
    if (dfsmr::Join(parts_, std::move(replies_), &reply)) return false;
    *bytes = reply.SerializeAsString();
    return true;
  }

 private:
  const BatchParts<Request> parts_;
  std::vector<PartReply<Reply>> replies_;
};

template <typename Request, typename Reply>
std::unique_ptr<PartedBatch> Make(const std::string& bytes, uint16_t partitions, PartitionId any) {
  Request request;
  if (!request.ParseFromString(bytes)) return nullptr;
  BatchParts<Request> parts;
  if constexpr (std::is_same_v<Request, v1::ExtendRequest>) {
    parts = Split(std::move(request), partitions);
  } else {
    parts = Split(std::move(request), partitions, any);
  }
  return std::make_unique<BatchOf<Request, Reply>>(std::move(parts));
}

constexpr const char* kStartBatch = "/dfsmr.v1.RunnerService/StartBatch";
constexpr const char* kReport = "/dfsmr.v1.RunnerService/Report";
constexpr const char* kExtend = "/dfsmr.v1.RunnerService/Extend";

}  // namespace

std::unique_ptr<PartedBatch> MakeBatch(const std::string& method, const std::string& request,
                                 uint16_t partitions, PartitionId any) {
  if (method == kStartBatch) {
    return Make<v1::StartBatchRequest, v1::StartBatchResponse>(request, partitions, any);
  }
  if (method == kReport) {
    return Make<v1::ReportRequest, v1::ReportResponse>(request, partitions, any);
  }
  if (method == kExtend) {
    return Make<v1::ExtendRequest, v1::ExtendResponse>(request, partitions, any);
  }
  return nullptr;
}

bool Scatter::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  if (front.outside().partitions == 1) return false;
  if (ReachOf(context.method()).reach != Reach::kItems) return false;
  return !IsInner(context);
}

void Scatter::Begin() {
  self_ = shared_from_this();
  StartRead(&request_);
}

void Scatter::OnReadDone(bool ok) {
  if (!ok) {
    return Finish(
        grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  batch_ = MakeBatch(method_, ToBytes(request_), front_.outside().partitions,
                     front_.AnyPartition());
  if (!batch_) {
    return Finish(
        grpc::Status(grpc::StatusCode::INTERNAL, "the request could not be read"));
  }
  AskAll();
}

void Scatter::AskAll() {
  const size_t parts = batch_->parts();
  left_ = parts;
  const auto own = front_.own();
  const auto self = self_;  // the last answer may come before the last question
  for (size_t part = 0; part < parts; ++part) {
    Asked* asked = nullptr;
    {
      const Lock lock(mutex_);
      asked = asked_.emplace_back(std::make_unique<Asked>()).get();
      if (cancelled_) asked->context.TryCancel();
    }
    AskInner(*context_, batch_->PartitionAt(part), &asked->context);
    asked->request = ToBuffer(batch_->RequestAt(part));
    own->UnaryCall(&asked->context, method_, grpc::StubOptions(), &asked->request, &asked->reply,
                   [self, part, asked](const grpc::Status& status) {
                     self->Answered(part, asked, status);
                   });
  }
}

void Scatter::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  for (const auto& asked : asked_) asked->context.TryCancel();
}

void Scatter::Answered(size_t part, Asked* asked, const grpc::Status& status) {
  const Metadata& trailers = asked->context.GetServerTrailingMetadata();
  batch_->Take(part, status, ValueOf(trailers, "dfsmr-reason"), ToBytes(asked->reply));
  if (part == 0) first_ = {status, asked};
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

void Scatter::End() {
  std::string reply;
  if (batch_->Join(&reply)) {
    reply_ = ToBuffer(reply);
    return StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  const auto& [status, asked] = first_;
  for (const auto& [key, value] : asked->context.GetServerTrailingMetadata()) {
    const std::string name = Text(key);
    if (IsPassedBack(name)) context_->AddTrailingMetadata(name, Text(value));
  }
  Finish(
      status.ok() ? grpc::Status(grpc::StatusCode::INTERNAL, "an owner's answer could not be read")
                  : status);
}

}  // namespace dfsmr
