#include "dsrv/engine/polling.h"

#include <algorithm>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/intake.h"
#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/retention.h"
#include "dsrv/engine/starter.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kItemsAtOnce = 100;  // in one piece of work

// The flow of a poll's instance: the action, which is not tried again when it has failed.
std::string FlowOf(const std::string& action) {
  return "{\"plan\":" + json::Quote(action) + ",\"flow\":{\"step\":" + json::Quote(action) +
         ",\"action\":" + json::Quote(action) + ",\"input\":\"${params}\",\"rescue\":\"fail\"}}";
}

std::string InstanceIdOf(const TriggerState& state, const rows::PollRow& row) {
  return state.name + "/poll/" + std::to_string(row.running);
}

Error Unusable(std::string why) { return {Code::kInvalidArgument, Reason::kNone, std::move(why)}; }

Result<Ok> HasSucceeded(const Instance& instance) {
  if (instance.result == InstanceResult::kSuccess) return Ok{};
  return Unusable("instance " + Quoted(instance.id) + " ended with " +
                  std::string(Name(instance.result)) +
                  (instance.error.empty() ? "" : ": " + instance.error));
}

// The trigger whose poll an instance of this id would be; empty: of none.
std::string TriggerOf(const std::string& id) {
  const size_t end = id.rfind("/poll/");
  return end == std::string::npos ? "" : id.substr(0, end);
}

}  // namespace

rows::PollRow& Polling::RowOf(const Poll& poll) {
  auto& polls = poll.state->row.poll;
  auto found = std::ranges::find(polls, poll.source, &rows::PollRow::source);
  Check(found != polls.end(), "each poll of a trigger has a row");
  return *found;
}

const PollSource* Polling::SourceOf(const Poll& poll) {
  for (const ItemSource& one : poll.state->source().on) {
    if (one.name == poll.source) return one.poll();
  }
  return nullptr;
}

std::string Polling::IdOf(const Poll& poll) {
  return InstanceIdOf(*poll.state, RowOf(poll));
}

// Of a poll that is new, or of another action than before, nothing is known; the instance of the
// action before would be a second one.
void Polling::Begin(TriggerState& state) {
  std::vector<rows::PollRow> polls;
  for (const ItemSource& one : state.source().on) {
    const PollSource* source = one.poll();
    if (!source) continue;
    auto known = std::ranges::find(state.row.poll, one.name, &rows::PollRow::source);
    const bool same = known != state.row.poll.end() && known->action == source->action;
    rows::PollRow fresh;
    fresh.source = one.name;
    fresh.action = source->action;
    fresh.next = turn_.clock();
    polls.push_back(same ? *known : fresh);
    // With another `every` it does not wait as long as the last version said.
    polls.back().next = std::min(polls.back().next, After(turn_.clock(), source->every));
  }
  if (polls != state.row.poll) {
    for (const rows::PollRow& old : state.row.poll) {
      auto now = std::ranges::find(polls, old.source, &rows::PollRow::source);
      if (now == polls.end() || now->running != old.running) Cancel(state, old);
    }
    state.row.poll = std::move(polls);
    states_.MarkDirty(state);
  }
  for (const rows::PollRow& row : state.row.poll) {
    const Poll poll{&state, row.source};
    if (row.running == 0) {
      due_.insert({row.next, poll});
      continue;
    }
    if (Runs(poll)) {
      running_[ResidentKey(state.ns, IdOf(poll))] = poll;
    } else {
      ended_.push_back(poll);
    }
  }
}

// Of one elsewhere that is to begin, or has stopped, a message is on its way.
bool Polling::Runs(const Poll& poll) {
  if (!options_.Has(poll.state->ns, IdOf(poll))) return !RowOf(poll).over;
  auto instance = residents_.Load(poll.state->ns, IdOf(poll));
  return instance && !(*instance)->instance.Stopped();
}

void Polling::End(TriggerState& state) {
  std::erase_if(due_, [&state](const auto& one) { return one.second.state == &state; });
  std::erase_if(ended_, [&state](const Poll& one) { return one.state == &state; });
  for (const rows::PollRow& row : state.row.poll) {
    if (row.running != 0) running_.erase(ResidentKey(state.ns, IdOf({&state, row.source})));
  }
}

void Polling::Drop(TriggerState& state) {
  for (rows::PollRow& row : state.row.poll) {
    Cancel(state, row);
    row.running = row.taken = 0;
    row.over = false;
  }
}

// The worker that has it is told so, and its report is late.
void Polling::Cancel(const TriggerState& state, const rows::PollRow& row) {
  if (row.running == 0) return;
  const std::string id = InstanceIdOf(state, row);
  if (!options_.Has(state.ns, id)) {
    messages_.Send(PartitionOf(state.ns, id, options_.partitions),
                   {rows::Message::Yield{state.ns, id, CancelMode::kForce, ""}});
    return;
  }
  auto resident = changer_.Touch(state.ns, id);
  if (!resident || (*resident)->instance.Stopped()) return;
  (void)changer_.Apply(**resident,
                       [](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); });
  if (!(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
}

void Polling::Absorb(const Change& change) {
  if (!change.Stopped()) return;
  if (!turn_.at_home()) {
    const Instance& instance = change.instance();
    if (!TriggerOf(instance.id).empty()) stopped_.emplace_back(instance.ns, instance.id);
    return;
  }
  if (running_.empty()) return;
  auto poll = running_.find(ResidentKey(change.instance().ns, change.instance().id));
  if (poll == running_.end()) return;
  ended_.push_back(poll->second);
  running_.erase(poll);
}

bool Polling::TellHome() {
  if (stopped_.empty()) return false;
  const auto [ns, id] = std::move(stopped_.front());
  stopped_.pop_front();
  auto loaded = residents_.Load(ns, id);
  if (!loaded) return true;
  Resident& resident = **loaded;
  auto spec = residents_.SpecOf(resident);
  const std::string trigger = TriggerOf(id);
  if (!spec || (*spec)->client != CauseOf(DocumentKind::kTrigger, trigger)) return true;
  rows::Message::Polled polled{ns, trigger, id, "", false};
  auto json = rows::GetOutput(turn_.reader(), resident.instance, resident.instance.machine);
  if (!turn_.Trust(json)) return true;
  const bool ended_well = HasSucceeded(resident.instance).has_value();
  auto output = ReadOutput(json->value_or("{}"));
  if (ended_well && output && output->items.empty()) {
    polled.nothing = true;
    polled.output = json->value_or("{}");
    resident.fleeting = true;
    residents_.MarkDirty(resident);
    emptied_ = turn_.number();
  }
  /*mutant message-poll-not-told*/ messages_.Send(kHome, {std::move(polled)}); /*end*/
  return true;
}

std::optional<Polling::Poll> Polling::RunningAs(const std::string& ns, const std::string& name,
                                                const std::string& instance) {
  TriggerState* const state = states_.Find(ns, name);
  if (!state) return std::nullopt;
  for (const rows::PollRow& row : state->row.poll) {
    if (row.running == 0 || InstanceIdOf(*state, row) != instance || row.over) continue;
    running_.erase(ResidentKey(ns, instance));
    return Poll{state, row.source};
  }
  return std::nullopt;
}

void Polling::Hear(const rows::Message::Polled& polled) {
  const auto poll = RunningAs(polled.ns, polled.trigger, polled.instance);
  if (!poll) return;
  RowOf(*poll).over = true;
  states_.MarkDirty(*poll->state);
  if (polled.nothing) nothing_[ResidentKey(polled.ns, polled.instance)] = polled.output;
  // One that is paused takes it when it goes on.
  if (!poll->state->Paused()) ended_.push_back(*poll);
}

void Polling::Decided(const std::string& ns, const std::string& name, const Launched& launched) {
  const auto poll = RunningAs(ns, name, launched.instance);
  if (!poll) return;
  Failed(*poll, launched.outcome == OccurrenceOutcome::kExists
                    ? "instance " + Quoted(launched.instance) + " exists already"
                    : launched.error);
}

// Their rows are there when the turn has ended.
void Polling::BeginPass() {
  if (emptied_ == 0 || emptied_ == turn_.number()) return;
  emptied_ = 0;
  retention_.Hurry();
}

Timestamp Polling::Due() const {
  if (!ended_.empty() || emptied_ != 0) return turn_.clock();
  return due_.empty() ? kNever : due_.begin()->first;
}

bool Polling::Work() {
  if (!ended_.empty()) {
    const Poll poll = ended_.front();
    ended_.pop_front();
    Take(poll);
    return true;
  }
  if (due_.empty() || due_.begin()->first > turn_.clock()) return false;
  const Poll poll = due_.begin()->second;
  due_.erase(due_.begin());
  Start(poll);
  return true;
}

void Polling::Schedule(const Poll& poll, Timestamp at) {
  RowOf(poll).next = at;
  states_.MarkDirty(*poll.state);
  if (!poll.state->Paused()) due_.insert({at, poll});
}

// Starting ----------------------------------------------------------------------------------------

void Polling::Start(const Poll& poll) {
  rows::PollRow& row = RowOf(poll);
  row.running = ++poll.state->row.polls;
  row.taken = 0;
  states_.MarkDirty(*poll.state);
  auto started = StartInstance(poll);
  if (started) {
    running_[ResidentKey(poll.state->ns, IdOf(poll))] = poll;
    return;
  }
  Failed(poll, started.error().message);
}

Result<Ok> Polling::StartInstance(const Poll& poll) {
  const PollSource& source = *SourceOf(poll);
  const rows::PollRow& row = RowOf(poll);
  StartArgs args;
  args.ns = poll.state->ns;
  args.machine = source.action;
  args.id = IdOf(poll);
  if (args.id.size() > limits::kInstanceId) {
    return Unusable("its id " + Quoted(args.id) + " would be longer than " +
                    std::to_string(limits::kInstanceId) + " characters");
  }
  args.spec.params =
      json::Merge(source.input, "{\"cursor\":" + (row.cursor.empty() ? "null" : row.cursor) + "}");
  args.spec.client = CauseOf(DocumentKind::kTrigger, poll.state->name);
  args.spec.flow = FlowOf(source.action);
  auto flow = options_.parse_flow(args.spec.flow, TextOrigin::kGiven);
  if (!flow) return flow.error();
  args.flow = *std::move(flow);
  const std::string id = args.id;
  if (!options_.Has(args.ns, id)) {
    starter_.StartElsewhere(args, {args.ns, args.spec.client, 0, ""});
    return Ok{};
  }
  auto started = starter_.Start(std::move(args));
  if (!started) return started.error();
  if (!started->created) return Unusable("instance " + Quoted(id) + " exists already");
  return Ok{};
}

void Polling::Failed(const Poll& poll, const std::string& why) {
  rows::PollRow& row = RowOf(poll);
  nothing_.erase(ResidentKey(poll.state->ns, IdOf(poll)));
  row.running = 0;
  row.taken = 0;
  row.over = false;
  ++row.failures;
  row.error = Head(why, limits::kErrorText);
  Schedule(poll, After(turn_.clock(), SourceOf(poll)->every));
}

// What it brings ----------------------------------------------------------------------------------

Result<Polling::Output> Polling::OutputElsewhere(const Poll& poll) {
  const std::string& ns = poll.state->ns;
  const std::string id = IdOf(poll);
  const auto nothing = nothing_.find(ResidentKey(ns, id));
  if (nothing != nothing_.end()) return ReadOutput(nothing->second);
  auto there = residents_.ReadElsewhere(ns, id);
  if (!there && there.error().code != Code::kNotFound) turn_.Trust(there);
  if (!there) return Unusable("instance " + Quoted(id) + " is gone");
  if (auto succeeded = HasSucceeded(*there); !succeeded) return succeeded.error();
  const rows::Reader rows{turn_.reader().view, PartitionOf(ns, id, options_.partitions)};
  auto json = rows::GetOutput(rows, *there, SourceOf(poll)->action);
  if (!turn_.Trust(json)) return json.error();
  return ReadOutput(json->value_or("{}"));
}

Result<Polling::Output> Polling::OutputOf(const Poll& poll, Resident** resident) {
  if (!options_.Has(poll.state->ns, IdOf(poll))) return OutputElsewhere(poll);
  auto loaded = residents_.Load(poll.state->ns, IdOf(poll));
  if (!loaded) return Unusable("instance " + Quoted(IdOf(poll)) + " is gone");
  *resident = *loaded;
  const Instance& instance = (*loaded)->instance;
  if (auto succeeded = HasSucceeded(instance); !succeeded) return succeeded.error();
  auto json = rows::GetOutput(turn_.reader(), instance, SourceOf(poll)->action);
  if (!turn_.Trust(json)) return json.error();
  return ReadOutput(json->value_or("{}"));
}

Result<Polling::Output> Polling::ReadOutput(std::string_view json) {
  Output output;
  std::string wrong;
  json::ForEachMember(json, [&](std::string_view name, std::string_view value) {
    if (name == "items" && json::KindOf(value) == json::Kind::kArray) {
      json::ForEachItem(value, [&output](std::string_view item) {
        output.items.emplace_back(json::Trim(item));
        return output.items.size() <= limits::kBatchItems;
      });
    } else if (name == "more" && json::KindOf(value) == json::Kind::kBoolean) {
      output.more = json::Trim(value) == "true";
    } else if (name == "cursor") {
      output.cursor = json::Trim(value);
    } else {
      wrong = name;
    }
    return wrong.empty();
  });
  if (!wrong.empty()) {
    return Unusable(
        "its output is to be {items: [LIST], cursor: ANYTHING, more: true or false}, "
        "each of them optional; " +
        Quoted(wrong) + " is not");
  }
  if (output.items.size() > limits::kBatchItems) {
    return Unusable("its output has more than " + std::to_string(limits::kBatchItems) + " items");
  }
  return output;
}

void Polling::Take(const Poll& poll) {
  Resident* resident = nullptr;
  auto output = OutputOf(poll, &resident);
  if (turn_.broken()) return;
  if (!output) return Failed(poll, output.error().message);
  if (!TakeItems(poll, *output)) return;
  rows::PollRow& row = RowOf(poll);
  nothing_.erase(ResidentKey(poll.state->ns, IdOf(poll)));
  if (output->items.empty() && resident) {
    resident->fleeting = true;
    residents_.MarkDirty(*resident);
    emptied_ = turn_.number();
  }
  if (!output->cursor.empty())   /*mutant poll-cursor-lost*/
    row.cursor = output->cursor; /*end*/
  row.running = 0;
  row.taken = 0;
  row.over = false;
  row.failures = 0;
  row.error.clear();
  row.last = turn_.clock();
  Schedule(poll, output->more ? turn_.clock() : After(turn_.clock(), SourceOf(poll)->every));
}

// False: not all of them were taken: the rest follows, when the trigger goes on.
bool Polling::TakeItems(const Poll& poll, const Output& output) {
  TriggerState& state = *poll.state;
  const ItemSource& source = *state.source().SourceNamed(poll.source);
  rows::PollRow& row = RowOf(poll);
  for (size_t n = 0; row.taken < output.items.size(); ++n) {
    if (n == kItemsAtOnce) {
      ended_.push_back(poll);
      return false;
    }
    if (!intake_.Take(state, {source, output.items[row.taken]})) {
      ended_.push_back(poll);
      return false;
    }
    ++row.taken;
    states_.MarkDirty(state);
    if (state.Paused()) return row.taken == output.items.size();
  }
  return true;
}

}  // namespace dfsmr
