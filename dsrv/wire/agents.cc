#include "dsrv/wire/agents.h"

#include <algorithm>

#include "dsrv/engine/agent_views.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

static_assert(static_cast<int>(AgentState::kActive) == v1::Agent::ACTIVE);
static_assert(static_cast<int>(AgentState::kOffline) == v1::Agent::OFFLINE);
static_assert(static_cast<int>(CancelMode::kKill) == v1::CancelRequest::KILL);

rows::HostRow ToHost(const v1::Host& in) {
  return {in.hostname(), in.os(),     in.kernel(),  in.arch(),
          in.cpus(),     in.memory(), in.cgroups(), in.boot_id()};
}

void ToProto(const rows::HostRow& host, v1::Host* out) {
  out->set_hostname(host.hostname);
  out->set_os(host.os);
  out->set_kernel(host.kernel);
  out->set_arch(host.arch);
  out->set_cpus(host.cpus);
  out->set_memory(host.memory);
  out->set_cgroups(host.cgroups);
  out->set_boot_id(host.boot_id);
}

Result<Ok> CheckHost(const v1::Host& host) {
  Result<Ok> checked = Ok{};
  for (const std::string* text :
       {&host.hostname(), &host.os(), &host.kernel(), &host.arch(), &host.boot_id()}) {
    if (checked) checked = CheckText("host", *text, limits::kLabelValue);
  }
  return checked;
}

}  // namespace

Result<rows::AgentRow> ToAgent(const v1::Register& in, const v1::ReadyRequest& open,
                               const std::string& address) {
  auto checked =
      All([&] { return CheckName("register.name", in.name()); },
          [&] { return CheckSession(in.session()); },
          [&] { return CheckText("register.version", in.version(), limits::kLabelValue); },
          [&] { return CheckHost(in.host()); }, [&] { return CheckLabels(in.labels()); });
  if (!checked) return checked.error();
  if (in.session().empty()) {
    return Bad("register.session must be given: 1 to " + std::to_string(limits::kSessionName) +
               " printable characters, new in each process");
  }
  if (static_cast<size_t>(in.cached_size()) > limits::kCachedPackages) {
    return TooLarge("register.cached", static_cast<size_t>(in.cached_size()),
                    limits::kCachedPackages);
  }
  rows::AgentRow row;
  row.session = in.session();
  row.version = in.version();
  row.address = address;
  row.host = ToHost(in.host());
  for (const auto& [key, value] : in.labels()) row.labels[key] = value;
  for (const std::string& digest : in.cached()) {
    auto fits = CheckText("register.cached", digest, limits::kName);
    if (!fits) return fits.error();
    row.cached.push_back(digest);
  }
  row.capabilities.assign(open.capabilities().begin(), open.capabilities().end());
  std::ranges::sort(row.capabilities);
  row.packages.assign(open.packages().begin(), open.packages().end());
  row.queues.assign(open.queues().begin(), open.queues().end());
  if (!open.queue().empty()) row.queues.push_back(open.queue());
  row.actions.assign(open.actions().begin(), open.actions().end());
  if (!open.action().empty()) row.actions.push_back(open.action());
  return row;
}

std::string FiltersOf(const v1::ListAgentsRequest& request) {
  std::string filters = "agents\n" + request.namespace_() + '\n' + std::to_string(request.state());
  for (const std::string& word : request.capabilities()) filters += '\n' + word;
  std::map<std::string, std::string> labels(request.labels().begin(), request.labels().end());
  for (const auto& [key, value] : labels) filters += '\n' + key + '=' + value;
  return filters;
}

std::string FiltersOf(const v1::ListOperationsRequest& request) {
  return "operations\n" + request.namespace_() + '\n' + request.agent() + '\n' + request.instance();
}

void ToProto(const OperationView& view, v1::Operation* out) {
  const rows::LeftoverRow& row = view.row;
  out->set_agent(row.agent);
  out->set_instance(row.instance);
  out->set_machine(row.machine);
  out->set_version(row.version);
  out->set_node(row.node);
  out->set_visit(row.visit);
  out->set_attempt(row.attempt);
  ToProto(row.claim_time, out->mutable_claim_time());
  if (row.begin_time != Timestamp()) ToProto(row.begin_time, out->mutable_begin_time());
  if (row.deadline != kNever) ToProto(row.deadline, out->mutable_deadline());
  out->set_progress(row.progress);
  out->set_note(row.note);
  out->set_order(static_cast<v1::CancelRequest::Mode>(view.order));
  if (row.order_time != Timestamp()) ToProto(row.order_time, out->mutable_order_time());
  if (row.signal_time != Timestamp()) ToProto(row.signal_time, out->mutable_signal_time());
  out->set_leftover(view.leftover);
  out->set_lost(view.lost);
  out->set_dry_run(row.dry_run);
}

void ToProto(const AgentView& view, v1::Agent* out) {
  const rows::AgentRow& row = view.row;
  out->set_namespace_(view.ns);
  out->set_name(view.name);
  out->set_state(static_cast<v1::Agent::State>(view.state));
  out->set_slots(row.slots);
  out->set_in_hand(static_cast<uint32_t>(view.in_hand));
  for (const std::string& word : row.capabilities) out->add_capabilities(word);
  for (const std::string& package : row.packages) out->add_packages(package);
  for (const std::string& queue : row.queues) out->add_queues(queue);
  for (const std::string& action : row.actions) out->add_actions(action);
  for (const auto& [key, value] : row.labels) (*out->mutable_labels())[key] = value;
  out->set_version(row.version);
  ToProto(row.host, out->mutable_host());
  out->set_session(row.session);
  out->set_address(row.address);
  ToProto(row.connect_time, out->mutable_connect_time());
  ToProto(row.last_seen, out->mutable_last_seen());
  out->set_drain_requested(row.drained);
  out->set_drain_reason(row.drain_reason);
  out->set_done(row.done);
  out->set_failed(row.failed);
  out->set_abandoned(row.abandoned);
  for (const OperationView& operation : view.operations) {
    ToProto(operation, out->add_operations());
  }
  for (const RefusedWork& refused : view.refuses) ToProto(refused, out->add_refuses());
}

void ToProto(const RefusedWork& refused, v1::RefusedWork* out) {
  out->set_machine(refused.machine);
  out->set_version(refused.version);
  out->set_node(refused.node);
  out->set_reason(refused.reason);
  ToProto(refused.until, out->mutable_until());
}

RefusedWork ToRefused(const v1::RefusedWork& in) {
  const auto until = ToTimestamp("until", in.until());
  return {in.machine(), in.version(), in.node(), in.reason(), until ? *until : Timestamp()};
}

}  // namespace dfsmr
