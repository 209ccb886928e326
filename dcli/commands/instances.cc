#include <algorithm>

#include "dcli/call/pages.h"
#include "dcli/commands/clock.h"
#include "dcli/commands/commands.h"
#include "dcli/commands/views.h"
#include "dcli/view/describe.h"
#include "dcli/view/show.h"

namespace dfsmr::cli {
namespace {

constexpr int kPage = 1'000;

Result<v1::ListInstancesRequest> RequestOf(const Context& context,
                                           const InstancesOptions& options) {
  v1::ListInstancesRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(options.machine);
  request.set_node(options.node);
  request.set_parent(options.parent);
  request.set_group(options.group);
  request.set_package(options.package);
  request.set_dry_run(options.dry_run);
  request.set_filter(FilterOf(options.terms));
  request.set_order_by(options.order);
  if (!options.state.empty()) {
    const auto state = ParseEnum(v1::Instance::State_descriptor(), options.state, "state");
    if (!state) return state.error();
    request.set_state(static_cast<v1::Instance::State>(*state));
  }
  if (!options.result.empty()) {
    const auto result = ParseEnum(v1::Instance::Result_descriptor(), options.result, "result");
    if (!result) return result.error();
    request.set_result(static_cast<v1::Instance::Result>(*result));
  }
  const auto labels = ParseLabels(options.labels, request.mutable_labels());
  if (!labels) return labels.error();
  if (options.limit < 0)
    return Error{Code::kInvalidArgument, Reason::kNone, "--limit must not be negative"};
  return request;
}

// Pages until `limit` instances are there or there are no more; 0 is no limit.
Result<v1::ListInstancesResponse> ListUpTo(Context& context, v1::ListInstancesRequest request,
                                           int limit) {
  v1::ListInstancesResponse all;
  do {
    const int left = limit - all.instances_size();
    request.set_page_size(limit == 0 ? kPage : std::min(kPage, left));
    auto page = context.client->ListInstances(request);
    if (!page) return page;
    request.set_page_token(page->next_page_token());
    for (v1::Instance& instance : *page->mutable_instances()) {
      *all.add_instances() = std::move(instance);
    }
  } while (!request.page_token().empty() && (limit == 0 || all.instances_size() < limit));
  all.set_next_page_token(request.page_token());
  return all;
}

void PrintTable(Context& context, const v1::ListInstancesResponse& list) {
  std::vector<std::string> header = {"INSTANCE", "MACHINE", "STATE", "RESULT", "STARTED"};
  if (context.wide()) {
    header.insert(header.end(), {"ENDED", "PRIORITY", "LABELS", "PARENT", "PARAMS", "ERROR"});
  }
  header.push_back("AT");
  Table table(header);
  for (const v1::Instance& instance : list.instances()) {
    const bool scheduled = instance.state() == v1::Instance::SCHEDULED;
    const auto& start = scheduled ? instance.start_at() : instance.start_time();
    std::vector<std::string> row = {
        instance.id(), MachineText(instance.machine(), instance.version()),
        NameOf(instance.state()), NameOf(instance.result()), When(start, context.look)};
    if (context.wide()) {
      row.insert(row.end(), {When(instance.end_time(), context.look),
                             std::to_string(instance.priority()), LabelsText(instance.labels()),
                             instance.parent(), instance.params(), instance.error()});
    }
    row.push_back(StandingText(instance));
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
}

}  // namespace

int Instances(Context& context, const InstancesOptions& options) {
  const auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  const auto list = ListUpTo(context, *request, options.limit);
  if (!list) return context.Fail(list.error());
  if (context.Print(*list)) return kSucceeded;
  if (context.names()) {
    for (const v1::Instance& instance : list->instances()) context.out << instance.id() << '\n';
  } else if (list->instances_size() > 0) {
    PrintTable(context, *list);
  } else {
    context.Note("no instance matches");
  }
  if (!list->next_page_token().empty()) {
    context.Note("there are more; --limit N shows up to N, --limit 0 all");
  }
  return kSucceeded;
}

int Show(Context& context, const InstanceOptions& options) {
  v1::GetInstanceRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(options.instance);
  const bool for_people = context.format == OutputFormat::kTable || context.wide();
  request.set_with_nodes(for_people || options.steps);
  auto instance = context.client->GetInstance(request);
  if (!instance) return context.Fail(instance.error());
  if (context.Print(*instance)) return kSucceeded;
  if (context.names()) {
    context.out << instance->id() << '\n';
    return kSucceeded;
  }
  LookByServerTime(context);
  if (instance->nodes_size() == 0 && instance->steps_size() == 0) {
    v1::GetMachineRequest definition;
    definition.set_namespace_(context.name_space);
    definition.set_id(instance->machine());
    definition.set_version(instance->version());
    const auto machine = context.client->GetMachine(definition);
    if (machine) *instance->mutable_nodes() = machine->nodes();
  }
  PrintWhole(context, *instance);
  return kSucceeded;
}

int History(Context& context, const InstanceOptions& options) {
  v1::GetHistoryRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(options.instance);
  const auto all =
      AllPages(request, [&context](const auto& one) { return context.client->GetHistory(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Change& change : all->changes()) context.out << change.seq() << '\n';
  } else {
    PrintHistory(context, *all);
  }
  return kSucceeded;
}

}  // namespace dfsmr::cli
