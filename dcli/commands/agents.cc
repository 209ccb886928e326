#include "dcli/commands/agents.h"

#include <algorithm>
#include <map>

#include "dcli/call/agents.h"
#include "dcli/call/pages.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAgain{200};
constexpr std::chrono::seconds kLeftoverPatience{30};

std::string StateText(v1::Agent::State state) {
  return state == v1::Agent::STATE_UNSPECIFIED || !v1::Agent::State_IsValid(state)
             ? ""
             : v1::Agent::State_Name(state);
}

std::string OrderText(const v1::Operation& operation) {
  if (operation.order() == v1::CancelRequest::MODE_UNSPECIFIED) return "";
  const std::string name = Lower(v1::CancelRequest::Mode_Name(operation.order()));
  return operation.has_signal_time() ? name : name + " (not told yet)";
}

template <typename List>
std::string Listed(const List& list) {
  return Join({list.begin(), list.end()}, ",");
}

Table AgentTable(const Context& context) {
  std::vector<std::string> header = {"AGENT",    "STATE",   "SLOTS", "CAPABILITIES",
                                     "PACKAGES", "VERSION", "SEEN"};
  if (context.wide()) header.insert(header.end(), {"QUEUES", "ACTIONS", "LABELS", "ADDRESS"});
  return Table(header);
}

void AddAgent(Table* table, const Context& context, const v1::Agent& agent) {
  std::vector<std::string> row = {
      agent.name(),
      StateText(agent.state()),
      std::to_string(agent.in_hand()) + "/" + std::to_string(agent.slots()),
      Listed(agent.capabilities()),
      Listed(agent.packages()),
      agent.version(),
      When(agent.last_seen(), context.look)};
  if (context.wide()) {
    row.insert(row.end(), {Listed(agent.queues()), Listed(agent.actions()),
                           LabelsText(agent.labels()), agent.address()});
  }
  table->Add(std::move(row));
}

int ListAgents(Context& context, const AgentsOptions& options) {
  v1::ListAgentsRequest request;
  request.set_namespace_(context.name_space);
  if (!options.state.empty()) {
    const auto state = ParseEnum(v1::Agent::State_descriptor(), options.state, "state");
    if (!state) return context.FailUsage(state.error());
    request.set_state(static_cast<v1::Agent::State>(*state));
  }
  for (const std::string& word : options.capabilities) request.add_capabilities(word);
  const auto labels = ParseLabels(options.labels, request.mutable_labels());
  if (!labels) return context.FailUsage(labels.error());
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->agents().ListAgents(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Agent& agent : all->agents()) context.out << agent.name() << '\n';
  } else if (all->agents_size() == 0) {
    const bool chosen =
        !options.state.empty() || !options.capabilities.empty() || !options.labels.empty();
    context.Note(chosen ? "there is no such agent here; dcli agents lists them all"
                        : "there are no agents here; dcli agent --workers FILE starts one");
  } else {
    Table table = AgentTable(context);
    for (const v1::Agent& agent : all->agents()) AddAgent(&table, context, agent);
    table.Print(context.out, context.look);
  }
  return kSucceeded;
}

Table OperationTable(const Context& context) {
  std::vector<std::string> header = {"INSTANCE", "STEP",     "ATTEMPT", "AGENT",
                                     "SINCE",    "PROGRESS", "NOTE",    "ORDER"};
  if (context.wide()) header.insert(header.end(), {"MACHINE", "VISIT", "DEADLINE", "LEFTOVER"});
  return Table(header);
}

void AddOperation(Table* table, const Context& context, const v1::Operation& operation) {
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  const bool begun = operation.has_begin_time();
  const Timestamp since = FromProto(begun ? operation.begin_time() : operation.claim_time());
  const std::string lasted = DurationText(std::max(now - since, Duration::zero()));
  std::string order = OrderText(operation);
  if (operation.leftover()) order += order.empty() ? "leftover" : ", leftover";
  std::vector<std::string> row = {operation.instance(),
                                  operation.node(),
                                  std::to_string(operation.attempt()),
                                  operation.agent() + (operation.lost() ? " (lost)" : ""),
                                  begun ? lasted : "not begun",
                                  operation.progress() > 0 ? PercentText(operation.progress()) : "",
                                  operation.note(),
                                  order};
  if (context.wide()) {
    row.insert(
        row.end(),
        {MachineText(operation.machine(), operation.version()), std::to_string(operation.visit()),
         When(operation.deadline(), context.look), operation.leftover() ? "yes" : ""});
  }
  table->Add(std::move(row));
}

void PrintAgent(Context& context, const v1::Agent& agent) {
  Description about;
  about.Add("Agent", agent.name());
  about.Add("State", StateText(agent.state()));
  about.Add("Drained",
            agent.drain_requested()
                ? "yes" + (agent.drain_reason().empty() ? "" : ": " + agent.drain_reason())
                : "");
  about.Add("Slots", std::to_string(agent.in_hand()) + "/" + std::to_string(agent.slots()));
  about.Add("Capabilities", Join({agent.capabilities().begin(), agent.capabilities().end()}, ", "));
  about.Add("Packages", Join({agent.packages().begin(), agent.packages().end()}, ", "));
  about.Add("Queues", Join({agent.queues().begin(), agent.queues().end()}, ", "));
  about.Add("Actions", Join({agent.actions().begin(), agent.actions().end()}, ", "));
  about.Add("Labels", LabelsText(agent.labels()));
  const v1::Host& host = agent.host();
  about.Add("Host", host.hostname());
  about.Add("System", host.os() + (host.kernel().empty() ? "" : ", kernel " + host.kernel()) +
                          (host.arch().empty() ? "" : ", " + host.arch()));
  about.Add("CPUs", host.cpus() > 0 ? std::to_string(host.cpus()) : "");
  about.Add("Memory", host.memory() > 0 ? std::to_string(host.memory() >> 20) + " MiB" : "");
  about.Add("Limits", host.cgroups() ? "enforced" : "not enforced");
  about.Add("Version", agent.version());
  about.Add("Address", agent.address());
  about.Add("Session", agent.session());
  about.Add("Cached", agent.cached_size() == 0
                          ? ""
                          : std::to_string(agent.cached_size()) + " packages when it connected");
  about.Add("Connected", When(agent.connect_time(), context.look));
  about.Add("Seen", When(agent.last_seen(), context.look));
  about.Add("Done", std::to_string(agent.done()) + ", of them failed " +
                        std::to_string(agent.failed()) + "; abandoned " +
                        std::to_string(agent.abandoned()));
  about.Print(context.out, context.look);
  if (agent.operations_size() > 0) {
    Table table = OperationTable(context);
    for (const auto& operation : agent.operations()) AddOperation(&table, context, operation);
    context.out << '\n';
    table.Print(context.out, context.look);
  }
  if (agent.refuses_size() == 0) return;
  Table table({"NOT OFFERED", "UNTIL", "WHY"});
  for (const v1::RefusedWork& refused : agent.refuses()) {
    table.Add({MachineText(refused.machine(), refused.version()) + "/" + refused.node(),
               When(refused.until(), context.look), refused.reason()});
  }
  context.out << '\n';
  table.Print(context.out, context.look);
}

int AnswerAgent(Context& context, const Result<v1::Agent>& agent, bool whole) {
  if (!agent) return context.Fail(agent.error());
  if (context.Print(*agent)) return kSucceeded;
  if (context.names()) {
    context.out << agent->name() << '\n';
  } else if (whole) {
    PrintAgent(context, *agent);
  } else {
    Table table = AgentTable(context);
    AddAgent(&table, context, *agent);
    table.Print(context.out, context.look);
  }
  return kSucceeded;
}

v1::GetAgentRequest AgentRequestOf(const Context& context, const std::string& name) {
  v1::GetAgentRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(name);
  return request;
}

int Drain(Context& context, const AgentsOptions& options) {
  v1::DrainAgentRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  request.set_undo(options.action == "undrain");
  request.set_reason(options.reason);
  auto agent = context.client->agents().DrainAgent(request);
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  while (options.wait && agent && agent->in_hand() > 0 && agent->drain_requested()) {
    if (canceller.SleepFor(kLookAgain)) {
      context.Note("it still has " + std::to_string(agent->in_hand()) +
                   " in hand; it stays drained: dcli agents show " + options.name);
      return kInterrupted;
    }
    agent = context.client->agents().GetAgent(AgentRequestOf(context, options.name));
  }
  return AnswerAgent(context, agent, false);
}

int Evict(Context& context, const AgentsOptions& options) {
  v1::EvictAgentRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  const auto reply = context.client->agents().EvictAgent(request);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply)) return kSucceeded;
  context.out << Escaped(options.name);
  if (!context.names()) {
    context.out << "  evicted  given back " << reply->given_back() << "  kept " << reply->kept();
    if (reply->kept() > 0) context.out << " (at most once, begun)";
  }
  context.out << '\n';
  return kSucceeded;
}

// Flags that belong to one action only.
Result<Ok> CheckAgentsUsage(const AgentsOptions& options) {
  const auto only = [&](bool given, const char* flag, bool may) -> Result<Ok> {
    if (!given || may) return Ok{};
    return BadUsage(std::string(flag) + " does not go with agents " + options.action);
  };
  const bool list = options.action == "list";
  for (const auto& checked : {only(!options.state.empty(), "--state", list),
                              only(!options.capabilities.empty(), "--capability", list),
                              only(!options.labels.empty(), "--label", list),
                              only(!options.reason.empty(), "--reason", options.action == "drain"),
                              only(options.wait, "--wait", options.action == "drain")}) {
    if (!checked) return checked;
  }
  return Ok{};
}

Result<v1::ListOperationsResponse> Operations(Context& context, const std::string& instance,
                                              const std::string& agent) {
  v1::ListOperationsRequest request;
  request.set_namespace_(context.name_space);
  request.set_instance(instance);
  request.set_agent(agent);
  return AllPages(request, [&context](const auto& one) {
    return context.client->agents().ListOperations(one);
  });
}

}  // namespace

int Agents(Context& context, const AgentsOptions& given) {
  static const std::vector<std::string> kActions = {"list", "show", "drain", "undrain", "evict"};
  AgentsOptions options = given;
  const bool acts = std::ranges::find(kActions, options.action) != kActions.end();
  if (!acts && !options.name.empty()) {
    return context.Fail(kBadUsage, "agents does not know \"" + options.action + "\"" +
                                       DidYouMean(options.action, kActions));
  }
  if (options.action.empty()) options.action = "list";
  if (!acts && options.action != "list") {
    options.name = options.action;
    options.action = "show";
  }
  if (options.action != "list" && options.name.empty()) {
    return context.Fail(kBadUsage, "agents " + options.action + " needs the NAME of the agent");
  }
  if (options.action == "list" && !options.name.empty()) {
    return context.Fail(
        kBadUsage, "agents list takes no name; agents show " + options.name + " shows that agent");
  }
  if (const auto usable = CheckAgentsUsage(options); !usable) {
    return context.FailUsage(usable.error());
  }
  if (options.action == "list") return ListAgents(context, options);
  if (options.action == "evict") return Evict(context, options);
  if (options.action != "show") return Drain(context, options);
  return AnswerAgent(
      context, context.client->agents().GetAgent(AgentRequestOf(context, options.name)), true);
}

int Ps(Context& context, const PsOptions& options) {
  const auto all = Operations(context, options.instance, options.agent);
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const auto& operation : all->operations()) context.out << operation.instance() << '\n';
  } else if (all->operations_size() == 0) {
    context.Note("no agent has anything in hand here");
  } else {
    Table table = OperationTable(context);
    for (const auto& operation : all->operations()) AddOperation(&table, context, operation);
    table.Print(context.out, context.look);
  }
  return kSucceeded;
}

// Leftovers -------------------------------------------------------------------------------------

Leftovers::Leftovers(Context& context, std::string instance)
    : context_(context), instance_(std::move(instance)) {
  (void)Look();  // what is wrong the call will say
}

Result<bool> Leftovers::Look() {
  const auto now = Operations(context_, "", "");
  if (!now && now.error().code == Code::kUnimplemented) return false;
  if (!now) return now.error();
  const auto before = std::exchange(left_, {});
  for (const auto& operation : now->operations()) {
    const bool own = operation.instance() == instance_;
    if (!own && !operation.instance().starts_with(instance_ + "/")) continue;  // a child's
    left_[(own ? "" : operation.instance() + " ") + operation.node() + " on " + operation.agent() +
          " (attempt " + std::to_string(operation.attempt()) + ")"] = operation;
  }
  for (const auto& [what, operation] : before) {
    if (!left_.contains(what)) context_.Note(what + ": no process of it is left");
  }
  return true;
}

int Leftovers::Await() {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  const auto until = std::chrono::steady_clock::now() + kLeftoverPatience;
  while (true) {
    const auto looked = Look();
    if (!looked && !Passing(looked.error())) return context_.Fail(looked.error());
    if (looked && (!*looked || left_.empty())) return kSucceeded;
    if (std::chrono::steady_clock::now() >= until) break;
    if (canceller.SleepFor(kLookAgain)) return kInterrupted;
  }
  for (const auto& [what, operation] : left_) {
    context_.Note(what + ": " + (operation.lost() ? "its agent is lost" : "still there"));
  }
  return context_.Fail(kRefused, "processes of " + instance_ + " may be left",
                       "dcli ps " + instance_ + " lists them");
}

}  // namespace dfsmr::cli
