// Start and StartBatch; GetInstance and GetHistory; Pause, Resume, Skip and Cancel.
#pragma once

#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

Result<StartArgs> ParseStart(const v1::StartRequest& request, const Call& call);
Result<Started> RunStart(Engine& engine, const Caller&, StartArgs& args);
void ReplyStart(const Started& started, const StartArgs&, v1::StartResponse* reply);

struct OfStarts {  // the namespaces
  static constexpr bool kOfItems = true;
  template <typename Enter>
  void operator()(const v1::StartBatchRequest& request, Enter enter) const {
    if (request.starts().empty()) enter("");
    for (const v1::StartRequest& start : request.starts()) enter(start.namespace_());
  }
};
using Starts = std::vector<Result<StartArgs>>;
using StartRequests = google::protobuf::RepeatedPtrField<v1::StartRequest>;
// Each alone: those that the caller may not start, and malformed ones, are errors.
Result<Starts> ToAllowedStarts(const StartRequests& requests, const Call& call);
// Shows no more than what the instances are once the whole has more than `bytes`.
void ToProto(const std::vector<Result<Started>>& results, size_t bytes,
             google::protobuf::RepeatedPtrField<v1::StartResult>* out);
Result<Starts> ParseStartBatch(const v1::StartBatchRequest& request, const Call& call);
Result<std::vector<Result<Started>>> RunStartBatch(Engine& engine, const Caller&, Starts& starts);
void ReplyStartBatch(const std::vector<Result<Started>>& results, const Starts&,
                     v1::StartBatchResponse* reply);

// What an instance waits for, which only the engine knows; filled in there.
using WaitsSlot = std::shared_ptr<std::shared_ptr<const InstanceWaits>>;

struct GetInstanceCommand {
  std::string ns;
  std::string instance;
  bool with_nodes = false;
  WaitsSlot waits = std::make_shared<std::shared_ptr<const InstanceWaits>>();
};
Result<GetInstanceCommand> ParseGetInstance(const v1::GetInstanceRequest& request, const Call&);
Result<Ok> SettleGetInstance(Engine& engine, const Caller& caller,
                             const GetInstanceCommand& command);
Result<Ok> ReadGetInstance(const Reader& reader, const GetInstanceCommand& command,
                           v1::Instance* reply);

struct HistoryCommand {
  HistoryQuery query;
  std::string filters;  // the filters that the page token is valid for
};
Result<HistoryCommand> ParseGetHistory(const v1::GetHistoryRequest& request, const Call&);
Result<Ok> SettleGetHistory(Engine& engine, const Caller&, const HistoryCommand& command);
Result<Ok> ReadGetHistory(const Reader& reader, const HistoryCommand& command,
                          v1::GetHistoryResponse* reply);

// Pause, Resume, Skip and Cancel reply with the instance as it is afterwards.
struct ControlCommand {
  std::string ns;
  std::string instance;
  std::string node;                                           // Resume, Skip
  bool force = false;                                         // Resume
  v1::CancelRequest::Mode mode = v1::CancelRequest::MODE_UNSPECIFIED;  // Cancel
  std::string reason;                                                  // why, for people
  WaitsSlot waits = std::make_shared<std::shared_ptr<const InstanceWaits>>();
};
Result<ControlCommand> ParsePause(const v1::PauseRequest& request, const Call& call);
Result<ControlCommand> ParseResume(const v1::ResumeRequest& request, const Call& call);
Result<ControlCommand> ParseSkip(const v1::SkipRequest& request, const Call& call);
Result<ControlCommand> ParseCancel(const v1::CancelRequest& request, const Call& call);
Result<Ok> SettlePause(Engine& engine, const Caller&, const ControlCommand& command);
Result<Ok> SettleResume(Engine& engine, const Caller&, const ControlCommand& command);
Result<Ok> SettleSkip(Engine& engine, const Caller&, const ControlCommand& command);
Result<Ok> SettleCancel(Engine& engine, const Caller&, const ControlCommand& command);
Result<Ok> ReadControlled(const Reader& reader, const ControlCommand& command,
                          v1::Instance* reply);

}  // namespace dfsmr
