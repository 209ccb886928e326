#include "storage/rows/graph.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <memory>

#include "fsm/base/json.h"
#include "fsm/condition/condition.h"
#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

// Not hidden by those below.
using rows::Decode;
using rows::Encode;

void Encode(const StepAction& action, record::Work* out) {
  out->set_action(action.name);
  out->set_queue(action.queue);
  out->set_priority(action.priority);
  out->set_timeout_strategy(static_cast<uint32_t>(action.timeout.strategy));
  out->set_timeout(action.timeout.value);
  out->set_timeout_initial(action.timeout.initial.count());
  out->set_timeout_min(action.timeout.min.count());
  out->set_timeout_max(action.timeout.max.count());
  out->set_retry_limit(action.retry.limit);
  out->set_retry_initial(action.retry.delay.initial.count());
  out->set_retry_factor(action.retry.delay.factor);
  out->set_retry_max(action.retry.delay.max.count());
  out->set_retry_jitter(action.retry.delay.jitter);
  for (const std::string& entry : action.retry.on) out->add_retry_on(entry);
  out->set_run_timeout(action.bounds.run_timeout.count());
  out->set_ready_timeout(action.bounds.ready_timeout.count());
  if (action.bounds.abandon_after != AttemptBounds().abandon_after) {
    out->set_abandon_after(action.bounds.abandon_after + 1);
  }
  if (action.poll) {
    out->set_polls(true);
    for (Duration interval : action.poll->intervals) out->add_poll_intervals(interval.count());
    out->set_poll_per_interval(action.poll->per_interval);
    out->set_poll_max_failures(action.poll->max_failures);
  }
  out->set_rescue(static_cast<uint32_t>(action.rescue));
  out->set_weight_run(action.weight.run);
  out->set_weight_finalize(action.weight.finalize);
  for (const std::string& name : action.middleware) out->add_middleware(name);
  out->set_input(action.input.text);
  out->set_output(action.output.text);
  if (!action.runs_on.empty()) Encode(action.runs_on, out->mutable_runs_on());
  if (action.dry_run != DryRunRule()) {
    out->mutable_dry_run()->set_worker(action.dry_run.worker);
    out->mutable_dry_run()->set_transition(action.dry_run.transition);
    out->mutable_dry_run()->set_output(action.dry_run.output);
  }
}

StepAction Decode(const record::Work& in) {
  StepAction action;
  action.name = in.action();
  action.queue = in.queue();
  action.priority = in.priority();
  action.timeout.strategy = static_cast<TimeoutPolicy::Strategy>(in.timeout_strategy());
  action.timeout.value = in.timeout();
  action.timeout.initial = Duration(in.timeout_initial());
  action.timeout.min = Duration(in.timeout_min());
  action.timeout.max = Duration(in.timeout_max());
  action.retry.limit = in.retry_limit();
  action.retry.delay.initial = Duration(in.retry_initial());
  action.retry.delay.factor = in.retry_factor();
  action.retry.delay.max = Duration(in.retry_max());
  action.retry.delay.jitter = in.retry_jitter();
  action.retry.on.assign(in.retry_on().begin(), in.retry_on().end());
  action.bounds.run_timeout = Duration(in.run_timeout());
  action.bounds.ready_timeout = Duration(in.ready_timeout());
  if (in.abandon_after() > 0) action.bounds.abandon_after = in.abandon_after() - 1;
  if (in.polls()) {
    PollPolicy poll;
    for (int64_t interval : in.poll_intervals()) poll.intervals.push_back(Duration(interval));
    poll.per_interval = in.poll_per_interval();
    poll.max_failures = in.poll_max_failures();
    action.poll = std::move(poll);
  }
  action.rescue = static_cast<Rescue>(in.rescue());
  action.weight = {in.weight_run(), in.weight_finalize()};
  action.middleware.assign(in.middleware().begin(), in.middleware().end());
  action.input.text = in.input();
  action.output.text = in.output();
  if (in.has_runs_on()) action.runs_on = Decode(in.runs_on());
  if (in.has_dry_run()) {
    action.dry_run = {in.dry_run().worker(), in.dry_run().transition(), in.dry_run().output()};
  }
  return action;
}

void Encode(const Step& step, record::GraphStep* out) {
  out->set_path(step.path);
  if (step.of != step.path) out->set_of(step.of);
  out->set_kind(static_cast<uint32_t>(step.kind));
  out->set_finalize(step.finalize);
  out->set_left_out(step.left_out);
  out->set_planner(step.planner);
  out->set_tells_worker(step.tells_worker);
  out->set_work(step.action);
  out->set_input(step.input);
  for (uint32_t reader : step.readers) out->add_readers(reader);
  for (uint32_t group : step.groups) out->add_groups(group);
}

Step Decode(const record::GraphStep& in) {
  Step step;
  step.path = in.path();
  step.of = in.of().empty() ? in.path() : in.of();
  step.kind = static_cast<Step::Kind>(in.kind());
  step.finalize = in.finalize();
  step.left_out = in.left_out();
  step.planner = in.planner();
  step.tells_worker = in.tells_worker();
  step.action = in.work();
  step.input = in.input();
  step.readers.assign(in.readers().begin(), in.readers().end());
  step.groups.assign(in.groups().begin(), in.groups().end());
  return step;
}

void Encode(const Spawn& spawn, record::Spawn* out) {
  out->set_machine(spawn.machine);
  out->set_listed(spawn.items.has_value());
  out->set_items(spawn.items.value_or(""));
  out->set_as(spawn.as);
  out->set_input(spawn.input);
  out->set_concurrency(spawn.concurrency);
}

Spawn Decode(const record::Spawn& in) {
  Spawn spawn;
  spawn.machine = in.machine();
  if (in.listed()) spawn.items = in.items();
  spawn.as = in.as();
  spawn.input = in.input();
  spawn.concurrency = in.concurrency();
  return spawn;
}

void DecodeLimits(const record::Graph& in, PlanGraph* graph) {
  for (const auto& [step, asks] : in.limits()) {
    for (const auto& ask : asks.asks()) graph->limits[step].push_back(Decode(ask));
  }
  for (const auto& [step, key] : in.singletons()) {
    const uint32_t action = step < graph->steps.size() ? graph->steps[step].action : UINT32_MAX;
    LimitAsk ask{.key = json::Unquote(key), .singleton = true};
    const bool waits = static_cast<int>(action) < in.works_size() &&
                       in.works(static_cast<int>(action)).on_conflict() == 1;
    ask.on_conflict = waits ? OnConflict::kWait : OnConflict::kFail;
    graph->limits[step] = {std::move(ask)};
  }
}

void Encode(const StepIf& decision, record::If* out) {
  out->set_condition(ToJson(*decision.condition));
  out->set_text(decision.text);
  for (uint32_t member : decision.members) out->add_members(member);
}

// With no condition when it is damaged.
StepIf Decode(const record::If& in) {
  StepIf decision;
  if (auto condition = ParseCondition(in.condition())) {
    decision.condition = std::make_shared<const Condition>(*std::move(condition));
  }
  decision.text = in.text();
  decision.members.assign(in.members().begin(), in.members().end());
  return decision;
}

void Encode(const Section& section, record::GraphSection* out) {
  out->set_entry(section.entry);
  out->set_end(section.end);
  out->set_outer(section.outer + 1);  // kNoSection becomes 0
  out->set_compensation(section.compensation + 1);
  out->set_compensates(section.compensates);
  out->set_rescue(section.rescue);
  out->set_retry_limit(section.retry.limit);
  out->set_retry_initial(section.retry.delay.initial.count());
  out->set_retry_factor(section.retry.delay.factor);
  out->set_retry_max(section.retry.delay.max.count());
  out->set_retry_jitter(section.retry.delay.jitter);
  for (const std::string& entry : section.retry.on) out->add_retry_on(entry);
}

Section Decode(const record::GraphSection& in) {
  Section section;
  section.entry = in.entry();
  section.end = in.end();
  section.outer = in.outer() - 1;
  section.compensation = in.compensation() - 1;
  section.compensates = in.compensates();
  section.rescue = in.rescue();
  section.retry.limit = in.retry_limit();
  section.retry.delay.initial = Duration(in.retry_initial());
  section.retry.delay.factor = in.retry_factor();
  section.retry.delay.max = Duration(in.retry_max());
  section.retry.delay.jitter = in.retry_jitter();
  section.retry.on.assign(in.retry_on().begin(), in.retry_on().end());
  return section;
}

// Sections lie in each other, or apart, and have a step in front of and one behind the others.
bool SoundSections(const PlanGraph& graph) {
  const std::vector<Section>& sections = graph.sections;
  for (uint32_t i = 0; i < sections.size(); ++i) {
    const Section& at = sections[i];
    if (at.end > graph.steps.size() || at.end < at.entry + 2) return false;
    if (i > 0 && at.entry <= sections[i - 1].entry) return false;
    const bool apart = at.outer == kNoSection && !at.compensates;
    if (!apart && (at.outer >= i || at.end > sections[at.outer].end)) return false;
    if (at.compensates && sections[at.outer].compensation != i) return false;
    const uint32_t own = at.compensation;
    if (own != kNoSection && (own <= i || own >= sections.size() || !sections[own].compensates ||
                              sections[own].outer != i)) {
      return false;
    }
  }
  return true;
}

bool SoundAction(const StepAction& action) {
  return action.timeout.strategy <= TimeoutPolicy::Strategy::kFixed &&
         action.rescue <= Rescue::kFail && (!action.poll || !action.poll->intervals.empty());
}

// Whether everything that the graph refers to exists. A damaged graph must be refused, since the
// engine follows its indexes unchecked.
bool SoundGraph(const PlanGraph& graph) {
  const auto within = [](const std::vector<uint32_t>& indexes, size_t size) {
    return std::ranges::all_of(indexes, [size](uint32_t index) { return index < size; });
  };
  const auto step_is = [&](const Step& step) {
    const bool runs = graph.planning || step.finalize || step.kind == Step::Kind::kWork;
    return step.kind <= Step::Kind::kPass &&
           (step.action < graph.actions.size() || (!runs && step.action == 0)) &&
           within(step.readers, graph.steps.size()) && within(step.groups, graph.groups.size());
  };
  const auto group_is = [&](const Group& group) {
    const auto member_is = [&](const Group::Member& member) {
      return member.index < (member.group ? graph.groups.size() : graph.steps.size());
    };
    return std::ranges::all_of(group.members, member_is) &&
           within(group.readers, graph.steps.size()) && within(group.groups, graph.groups.size());
  };
  const auto place_is = [&](const Place& place) {
    return (place.step == UINT32_MAX || place.step < graph.steps.size()) &&
           within(place.next, graph.places.size());
  };
  const auto spawn_is = [&graph](const auto& spawn) {
    return spawn.first < graph.steps.size() && graph.steps[spawn.first].kind == Step::Kind::kSpawn;
  };
  const auto if_is = [&](const auto& decision) {
    return decision.first < graph.steps.size() && decision.second.condition &&
           within(decision.second.members, graph.steps.size());
  };
  const auto spawning = std::ranges::count(graph.steps, Step::Kind::kSpawn, &Step::kind);
  return static_cast<size_t>(spawning) == graph.spawns.size() && SoundSections(graph) &&
         std::ranges::all_of(graph.spawns, spawn_is) && std::ranges::all_of(graph.ifs, if_is) &&
         std::ranges::all_of(graph.actions,
                             [](const StepAction& action) { return SoundAction(action); }) &&
         std::ranges::all_of(graph.steps, step_is) && std::ranges::all_of(graph.groups, group_is) &&
         std::ranges::all_of(graph.places, place_is);
}

// The same bytes each time, maps included.
std::string Serialized(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

std::string GraphKey(PartitionId partition, const Instance& instance) {
  if (instance.plan->OwnsGraph()) return Key(partition, kGraph).Of(instance);
  return Key(partition, kSharedGraph).Text(instance.ns).Text(instance.plan->graph);
}

}  // namespace

std::string GraphRow(const PlanGraph& graph) {
  google::protobuf::Arena arena;  // it may have a hundred thousand parts
  record::Graph& out = *google::protobuf::Arena::CreateMessage<record::Graph>(&arena);
  out.set_planning(graph.planning);
  for (const StepAction& action : graph.actions) Encode(action, out.add_works());
  for (const Step& step : graph.steps) Encode(step, out.add_steps());
  for (const Group& group : graph.groups) {
    record::Group* to = out.add_groups();
    to->set_list(group.list);
    for (uint32_t reader : group.readers) to->add_readers(reader);
    for (uint32_t outer : group.groups) to->add_groups(outer);
    for (const Group::Member& member : group.members) {
      record::Member* at = to->add_members();
      at->set_name(member.name);
      at->set_group(member.group);
      at->set_index(member.index);
    }
  }
  for (const Place& place : graph.places) {
    record::Place* to = out.add_places();
    to->set_step(place.step + 1);  // UINT32_MAX, a gate, becomes 0
    to->set_gate(place.gate);
    for (uint32_t next : place.next) to->add_next(next);
  }
  for (const auto& [step, spawn] : graph.spawns) Encode(spawn, &(*out.mutable_spawns())[step]);
  for (const auto& [step, asks] : graph.limits) {
    record::LimitAsks& to = (*out.mutable_limits())[step];
    for (const LimitAsk& ask : asks) Encode(ask, to.add_asks());
  }
  for (const auto& [step, decision] : graph.ifs) Encode(decision, &(*out.mutable_ifs())[step]);
  for (const auto& [step, agent] : graph.agents) (*out.mutable_agents())[step] = agent;
  for (const Section& section : graph.sections) Encode(section, out.add_sections());
  return Serialized(out);
}

void PutGraph(const Writer& writer, const Instance& instance, std::string row) {
  writer.batch.Put(GraphKey(writer.partition, instance), std::move(row));
}

Result<std::optional<std::string>> GetGraphRow(const Reader& reader, const Instance& instance) {
  return reader.view.Get(GraphKey(reader.partition, instance));
}

Result<PlanGraph> GetGraph(const Reader& reader, const Instance& instance) {
  auto value = GetGraphRow(reader, instance);
  if (!value) return value.error();
  auto graph = *value ? GraphIn(**value) : std::nullopt;
  if (!graph) return Corrupt("plan's graph", GraphKey(reader.partition, instance));
  return *std::move(graph);
}

std::optional<PlanGraph> GraphIn(std::string_view row) {
  google::protobuf::Arena arena;
  record::Graph& in = *google::protobuf::Arena::CreateMessage<record::Graph>(&arena);
  if (!in.ParseFromArray(row.data(), static_cast<int>(row.size()))) return std::nullopt;
  PlanGraph graph;
  graph.planning = in.planning();
  for (const auto& action : in.works()) graph.actions.push_back(Decode(action));
  graph.steps.reserve(static_cast<size_t>(in.steps_size()));
  for (const auto& step : in.steps()) graph.steps.push_back(Decode(step));
  for (const auto& group : in.groups()) {
    Group& to = graph.groups.emplace_back();
    to.list = group.list();
    to.readers.assign(group.readers().begin(), group.readers().end());
    to.groups.assign(group.groups().begin(), group.groups().end());
    for (const auto& member : group.members()) {
      to.members.push_back({member.name(), member.group(), member.index()});
    }
  }
  graph.places.reserve(static_cast<size_t>(in.places_size()));
  for (const auto& place : in.places()) {
    graph.places.push_back(
        {place.step() - 1, place.gate(), {place.next().begin(), place.next().end()}});
  }
  for (const auto& [step, spawn] : in.spawns()) graph.spawns[step] = Decode(spawn);
  DecodeLimits(in, &graph);
  for (const auto& [step, decision] : in.ifs()) graph.ifs[step] = Decode(decision);
  graph.agents.insert(in.agents().begin(), in.agents().end());
  for (const auto& section : in.sections()) graph.sections.push_back(Decode(section));
  if (!SoundGraph(graph)) return std::nullopt;
  return graph;
}

}  // namespace dfsmr::rows
