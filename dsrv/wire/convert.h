// The wire's messages and our values, into each other. What comes from outside is checked here,
// against limits.h, before anything is done with it.
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/engine/engine.h"
#include "dsrv/feed/changes.h"
#include "fsm/base/diagnostic.h"
#include "storage/rows/plan.h"

namespace dfsmr {

grpc::Status ToStatus(const Error& error);
void ToProto(const Error& error, v1::Error* out);
void ToProto(const Diagnostic& diagnostic, v1::Diagnostic* out);
void ToProto(const Defined& defined, v1::Defined* out);
void ToProto(const MachineView& view, v1::Machine* out);
void ToProto(const Node& node, const Machine& machine, v1::Node* out);
void ToProto(const InstanceView& view, v1::Instance* out);
void ToProto(const Task& task, v1::Task* out);
void ToProto(const std::string& instance, const Answer& answer, v1::TransitionResponse* out);
void ToProto(const std::string& instance, const Result<Answer>& answer, v1::TransitionResult* out);
void ToProto(const Engine::Extended& extended, v1::ExtendResponse::Item* out);
void ToProto(const Event& event, PartitionId partition, v1::Change* out);

// Requests. `peer` is the caller's address, which names a worker that names itself not.
Result<std::string> ToNamespace(const std::string& given);
Result<StartArgs> ToStart(const v1::StartRequest& request);
struct ReportCommand {
  std::string ns;
  std::string instance;
  ReportArgs args;
  std::vector<rows::ChildStart> children;
};
Result<ReportCommand> ToReport(const v1::TransitionRequest& request);
Result<PollArgs> ToPoll(const v1::ReadyRequest& request, const std::string& peer, Timestamp now);
struct ExtendCommand {
  std::string instance;
  std::string claim;
  std::optional<Duration> by;
  double progress = 0;
};
Result<ExtendCommand> ToExtend(const v1::ExtendRequest::Item& item);
Result<Ok> CheckInstanceId(const std::string& id);
Result<Ok> CheckBatch(int items, std::string_view what);
Result<CancelMode> ToCancelMode(v1::CancelRequest::Mode mode);
Result<ChangeFilter> ToChangeFilter(const v1::ChangesRequest& request);

struct InstanceQuery {
  std::string ns;
  std::string machine;
  std::string node;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  std::map<std::string, std::string> labels;
  std::string parent;
  size_t limit = 0;
  std::string after;
};
Result<InstanceQuery> ToQuery(const v1::ListInstancesRequest& request);

// Page tokens name the last item of a page, and hold for the same filters only.
std::string PageToken(const std::string& filters, const std::string& last);
Result<std::string> ParsePageToken(const std::string& filters, const std::string& token);
std::string FiltersOf(const v1::ListInstancesRequest& request);
Result<size_t> ToPageSize(int32_t given);

}  // namespace dfsmr
