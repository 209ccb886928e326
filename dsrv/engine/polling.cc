#include "dsrv/engine/polling.h"

#include <algorithm>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/intake.h"
#include "dsrv/engine/limits.h"
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
    auto instance = residents_.Load(state.ns, IdOf(poll));
    if (instance && !(*instance)->instance.Stopped()) {
      running_[ResidentKey(state.ns, IdOf(poll))] = poll;
    } else {
      ended_.push_back(poll);
    }
  }
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
  }
}

// The worker that has it is told so, and its report is late.
void Polling::Cancel(const TriggerState& state, const rows::PollRow& row) {
  if (row.running == 0) return;
  auto resident = changer_.Touch(state.ns, InstanceIdOf(state, row));
  if (!resident || (*resident)->instance.Stopped()) return;
  (void)changer_.Apply(**resident,
                       [](Scene& scene) { return rules::Cancel(scene, CancelMode::kForce); });
  if (!(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
}

void Polling::Absorb(const Change& change) {
  if (running_.empty() || !change.Stopped()) return;
  auto poll = running_.find(ResidentKey(change.instance().ns, change.instance().id));
  if (poll == running_.end()) return;
  ended_.push_back(poll->second);
  running_.erase(poll);
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
  auto started = starter_.Start(std::move(args));
  if (!started) return started.error();
  if (!started->created) return Unusable("instance " + Quoted(id) + " exists already");
  return Ok{};
}

void Polling::Failed(const Poll& poll, const std::string& why) {
  rows::PollRow& row = RowOf(poll);
  row.running = 0;
  row.taken = 0;
  ++row.failures;
  row.error = why.substr(0, limits::kErrorText);
  Schedule(poll, After(turn_.clock(), SourceOf(poll)->every));
}

// What it brings ----------------------------------------------------------------------------------

Result<Polling::Output> Polling::OutputOf(const Poll& poll, Resident** resident) {
  auto loaded = residents_.Load(poll.state->ns, IdOf(poll));
  if (!loaded) return Unusable("instance " + Quoted(IdOf(poll)) + " is gone");
  *resident = *loaded;
  const Instance& instance = (*loaded)->instance;
  if (instance.result != InstanceResult::kSuccess) {
    return Unusable("instance " + Quoted(instance.id) + " ended with " +
                    std::string(Name(instance.result)) +
                    (instance.error.empty() ? "" : ": " + instance.error));
  }
  auto json = rows::GetOutput(turn_.reader(), instance, SourceOf(poll)->action);
  if (!turn_.Trust(json)) return json.error();
  Output output;
  std::string wrong;
  json::ForEachMember(json->value_or("{}"), [&](std::string_view name, std::string_view value) {
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
  if (output->items.empty()) {
    resident->fleeting = true;
    residents_.MarkDirty(*resident);
    emptied_ = turn_.number();
  }
  if (!output->cursor.empty())   /*mutant poll-cursor-lost*/
    row.cursor = output->cursor; /*end*/
  row.running = 0;
  row.taken = 0;
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
