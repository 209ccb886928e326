#include "dsrv/calls/views.h"

#include <algorithm>
#include <charconv>

#include "dsrv/engine/histogram.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/instance_views.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/plan_view.h"
#include "dsrv/wire/step_levels.h"
#include "dsrv/wire/views.h"
#include "storage/rows/bare.h"

namespace dfsmr {
namespace {

constexpr size_t kPageBytes = limits::kMessage * 3 / 4;

}  // namespace

std::string OfTopics::NamespaceOf(const v1::WatchRequest::Topic& topic) {
  using Topic = v1::WatchRequest::Topic;
  switch (topic.what_case()) {
    case Topic::kOverview:
      return topic.overview().namespace_();
    case Topic::kMachine:
      return topic.machine().namespace_();
    case Topic::kInstance:
      return topic.instance().namespace_();
    case Topic::kSteps:
      return topic.steps().namespace_();
    case Topic::kQueues:
      return topic.queues().namespace_();
    case Topic::kWorkers:
      return topic.workers().namespace_();
    case Topic::kBulk:
      return topic.bulk().namespace_();
    case Topic::kChanges:
      return topic.changes().namespace_();
    default:
      return "";
  }
}

// Steps ------------------------------------------------------------------------------------------

Result<ListStepsCommand> ParseListSteps(const v1::ListStepsRequest& request, const Call&) {
  ListStepsCommand command;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckInstanceId(request.instance()); },
                     [&] { return CheckNode("under", request.under()); });
  if (!checked) return checked.error();
  if (!v1::Step::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of Step");
  }
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  command.ns = *std::move(ns);
  command.instance = request.instance();
  command.under = request.under();
  command.state = request.state();
  command.limit = *limit;
  command.filters = command.ns + '\n' + command.instance + '\n' + command.under + '\n' +
                    std::to_string(request.state());
  auto last = ParsePageToken(command.filters, request.page_token());
  if (!last) return last.error();
  std::from_chars(last->data(), last->data() + last->size(), command.first);
  return command;
}

Result<Ok> SettleListSteps(Engine& engine, const Caller&, const ListStepsCommand& command) {
  return engine.Settle(command.ns, command.instance);
}

Result<Ok> ReadListSteps(const Reader& reader, const ListStepsCommand& command,
                         v1::ListStepsResponse* reply) {
  const Moment moment(reader);
  auto instance = rows::GetBareInstance(moment.rows, {command.ns, command.instance}, moment.resolve);
  if (!instance) return instance.error();
  auto steps = OpenSteps(moment, *instance, command.under);
  if (!steps) return steps.error();
  if (!*steps) return Ok{};
  StepLevel level(**steps, command.under, command.state);
  size_t bytes = 0;
  size_t at = command.first;
  const auto more = level.Take(command.first, [&](v1::StepRow* row) {
    if (at - command.first >= command.limit || bytes >= kPageBytes) return false;
    bytes += row->ByteSizeLong();
    reply->add_rows()->Swap(row);
    ++at;
    return true;
  });
  if (!more) return more.error();
  if (*more) reply->set_next_page_token(PageToken(command.filters, std::to_string(at)));
  return Ok{};
}

Result<GetStepCommand> ParseGetStep(const v1::GetStepRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckInstanceId(request.instance()); },
                     [&] { return Required("path", request.path()); },
                     [&] { return CheckNode("path", request.path()); });
  if (!checked) return checked.error();
  GetStepCommand command;
  command.ns = *std::move(ns);
  command.instance = request.instance();
  command.path = request.path();
  return command;
}

Result<Ok> SettleGetStep(Engine& engine, const Caller&, const GetStepCommand& command) {
  auto settled = engine.Settle(command.ns, command.instance);
  if (settled) {
    command.now->filled = engine.survey().InputOf(command.ns, command.instance, command.path);
    command.now->time = engine.clock();
  }
  return settled;
}

Result<Ok> ReadGetStep(const Reader& reader, const GetStepCommand& command,
                       v1::GetStepResponse* reply) {
  return ReadStep(Moment(reader), command, *command.now, reply);
}

Result<DurationsCommand> ParseGetDurations(const v1::GetDurationsRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return Required("machine", request.machine()); },
                     [&] { return CheckFilter("machine", request.machine()); },
                     [&] { return Required("node", request.node()); },
                     [&] { return CheckNode("node", request.node()); });
  if (!checked) return checked.error();
  return DurationsCommand{*std::move(ns), request.machine(), request.version(), request.node()};
}

Result<Histogram> RunGetDurations(Engine& engine, const Caller&, DurationsCommand& command) {
  return engine.survey().Durations(command.ns, command.machine, command.version, command.node);
}

void ReplyGetDurations(const Histogram& histogram, const DurationsCommand&,
                       v1::GetDurationsResponse* reply) {
  ToProto(histogram, reply);
}

// Queues -----------------------------------------------------------------------------------------

Result<ListQueuesCommand> ParseListQueues(const v1::ListQueuesRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckFilter("machine", request.machine()); },
                     [&] { return CheckFilter("queue", request.queue()); });
  if (!checked) return checked.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  ListQueuesCommand command;
  command.query = {*std::move(ns), request.machine(), {}};
  if (!request.queue().empty()) command.query.queue = request.queue();
  command.filters = FiltersOf(request);
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.after = *std::move(after);
  command.limit = *limit;
  return command;
}

Result<std::vector<QueueView>> RunListQueues(Engine& engine, const Caller&,
                                             ListQueuesCommand& command) {
  return engine.survey().Queues(command.query);
}

void ReplyListQueues(const std::vector<QueueView>& views, const ListQueuesCommand& command,
                     v1::ListQueuesResponse* reply) {
  size_t shown = 0;
  std::string last;
  for (const QueueView& view : views) {
    v1::QueueRow row;
    ToProto(view, &row);
    std::string place = PlaceOf(row);
    if (!command.after.empty() && place <= command.after) continue;
    if (shown++ == command.limit) {
      reply->set_next_page_token(PageToken(command.filters, last));
      return;
    }
    *reply->add_queues() = std::move(row);
    last = std::move(place);
  }
}

// Workers ----------------------------------------------------------------------------------------

Result<ListWorkersCommand> ParseListWorkers(const v1::ListWorkersRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = All([&] { return CheckFilter("machine", request.machine()); },
                     [&] { return CheckFilter("queue", request.queue()); });
  if (!checked) return checked.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  ListWorkersCommand command{*std::move(ns), request.machine(), request.queue(), "", "", *limit};
  command.filters = FiltersOf(request);
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.after = *std::move(after);
  return command;
}

Result<std::vector<WorkerView>> RunListWorkers(Engine& engine, const Caller&,
                                               ListWorkersCommand& command) {
  return engine.survey().workers().List(command.ns, command.machine, command.queue);
}

void ReplyListWorkers(const std::vector<WorkerView>& views, const ListWorkersCommand& command,
                      v1::ListWorkersResponse* reply) {
  size_t shown = 0;
  std::string last;
  for (const WorkerView& view : views) {
    if (!command.after.empty() && view.worker <= command.after) continue;
    if (shown++ == command.limit) {
      reply->set_next_page_token(PageToken(command.filters, last));
      return;
    }
    ToProto(view, reply->add_workers());
    last = view.worker;
  }
}

}  // namespace dfsmr
