// ViewService: GetOverview, ListSteps, GetStep, GetDurations, ListQueues, ListWorkers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/histogram.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/workers.h"
#include "dsrv/wire/one_step.h"

namespace dfsmr {

// "*": all namespaces that the caller may enter. Run looks which those are.
struct ItsOrAll {
  template <typename Request, typename Enter>
  void operator()(const Request& request, Enter enter) const {
    if (request.namespace_() != "*") enter(request.namespace_());
  }
};

// The namespaces of what is watched.
struct OfTopics {
  template <typename Enter>
  void operator()(const v1::WatchRequest& request, Enter enter) const {
    for (const auto& topic : request.topics()) {
      const std::string ns = NamespaceOf(topic);
      if (ns != "*") enter(ns);
    }
  }
  static std::string NamespaceOf(const v1::WatchRequest::Topic& topic);
};

struct ListStepsCommand {
  std::string ns;
  std::string instance;
  std::string under;
  v1::Step::State state = v1::Step::STATE_UNSPECIFIED;
  std::string filters;
  size_t first = 0;  // row of the page
  size_t limit = 0;
};
Result<ListStepsCommand> ParseListSteps(const v1::ListStepsRequest& request, const Call&);
Result<Ok> SettleListSteps(Engine& engine, const Caller&, const ListStepsCommand& command);
Result<Ok> ReadListSteps(const Reader& reader, const ListStepsCommand& command,
                         v1::ListStepsResponse* reply);

struct GetStepCommand : StepCommand {
  std::shared_ptr<StepNow> now = std::make_shared<StepNow>();  // filled in by the engine
};
Result<GetStepCommand> ParseGetStep(const v1::GetStepRequest& request, const Call&);
Result<Ok> SettleGetStep(Engine& engine, const Caller&, const GetStepCommand& command);
Result<Ok> ReadGetStep(const Reader& reader, const GetStepCommand& command,
                       v1::GetStepResponse* reply);

struct DurationsCommand {
  std::string ns;
  std::string machine;
  uint32_t version = 0;
  std::string node;
};
Result<DurationsCommand> ParseGetDurations(const v1::GetDurationsRequest& request, const Call&);
Result<Histogram> RunGetDurations(Engine& engine, const Caller&, DurationsCommand& command);
void ReplyGetDurations(const Histogram& histogram, const DurationsCommand&,
                       v1::GetDurationsResponse* reply);

struct ListQueuesCommand {
  QueueQuery query;
  std::string filters;
  std::string after;
  size_t limit = 0;
};
Result<ListQueuesCommand> ParseListQueues(const v1::ListQueuesRequest& request, const Call&);
Result<std::vector<QueueView>> RunListQueues(Engine& engine, const Caller&,
                                             ListQueuesCommand& command);
void ReplyListQueues(const std::vector<QueueView>& views, const ListQueuesCommand& command,
                     v1::ListQueuesResponse* reply);

struct ListWorkersCommand {
  std::string ns;
  std::string machine;
  std::string queue;
  std::string filters;
  std::string after;
  size_t limit = 0;
};
Result<ListWorkersCommand> ParseListWorkers(const v1::ListWorkersRequest& request, const Call&);
Result<std::vector<WorkerView>> RunListWorkers(Engine& engine, const Caller&,
                                               ListWorkersCommand& command);
void ReplyListWorkers(const std::vector<WorkerView>& views, const ListWorkersCommand& command,
                      v1::ListWorkersResponse* reply);

}  // namespace dfsmr
