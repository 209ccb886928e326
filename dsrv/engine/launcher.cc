#include "dsrv/engine/launcher.h"

#include <utility>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/kept_starts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/reports.h"
#include "dsrv/engine/starter.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/values.h"
#include "fsm/base/duration.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

Error Unusable(const std::string& what, std::string why) {
  return {Code::kInvalidArgument, Reason::kBadRequest, what + ": " + std::move(why)};
}

// A template's text, filled in; "" of an empty one.
Result<std::string> Text(const std::string& what, const std::string& text,
                         const Resolver& resolve) {
  if (text.empty()) return text;
  auto filled = TextOf(Evaluate(json::Quote(text), resolve));
  if (!filled) return Unusable(what, filled.error().message);
  return filled;
}

Result<std::string> ResolvedObject(const std::string& text, const Resolver& resolve) {
  auto filled = Evaluate(text, resolve);
  if (!filled) return Unusable("params", filled.error().message);
  if (json::KindOf(*filled) != json::Kind::kObject) {
    return Unusable("params", "they are to be an object such as {a: 1}, not " +
                                  std::string(Head(*filled, 100)));
  }
  if (filled->size() > limits::kJson) {
    return Unusable("params", "they take " + std::to_string(filled->size()) +
                                  " bytes; the limit is " + std::to_string(limits::kJson));
  }
  return filled;
}

Result<Ok> FillLabels(const LaunchStart& start, const Resolver& resolve, StartArgs* args) {
  for (const auto& [key, value] : start.labels) {
    auto filled = Text("label " + Quoted(key), value, resolve);
    if (!filled) return filled.error();
    if (InvalidUtf8(*filled) || Characters(*filled) > limits::kLabelValue) {
      return Unusable("label " + Quoted(key),
                      "its value is longer than " + std::to_string(limits::kLabelValue) +
                          " characters: " + Quoted(*filled));
    }
    args->spec.labels[key] = *std::move(filled);
  }
  return Ok{};
}

Result<std::string> FillId(const LaunchOrder& order, const LaunchStart& start) {
  auto id = start.id.empty() ? Result<std::string>(order.default_id + order.id_suffix)
                             : Text("id", start.id, order.resolve);
  if (!id || ValidInstanceId(*id)) return id;
  return Unusable("id", Quoted(*id) + " cannot be an instance's id: that is 1 to " +
                            std::to_string(limits::kInstanceId) +
                            " printable characters without space");
}

Result<std::string> FillGroup(const LaunchOrder& order, const LaunchStart& start) {
  auto group = order.group ? Result<std::string>(*order.group)
                           : Text("group", start.group, order.resolve);
  if (!group || group->empty()) return group;
  if (ValidInstanceId(*group)) return group;
  return Unusable("group", Quoted(*group) + " cannot be a group's name: that is 1 to " +
                               std::to_string(limits::kInstanceId) +
                               " printable characters without space");
}

// What an instance of `cause` asks for, so that it overlaps with no other; one that may, asks for
// nothing.
LimitAsks AsksFor(const std::string& cause, Overlap overlap) {
  LimitAsk ask{.key = cause};
  switch (overlap) {
    case Overlap::kAllow:
      return {};
    case Overlap::kWait:
      ask.waiting = kOverlapWaiting;
      break;
    case Overlap::kLatest:
      ask.on_conflict = OnConflict::kLatest;
      break;
    case Overlap::kSkip:
      ask.on_conflict = OnConflict::kSkip;
      break;
    case Overlap::kCancel:
      ask.on_conflict = OnConflict::kCancel;
      break;
    case Overlap::kReplace:
      ask.on_conflict = OnConflict::kReplace;
      break;
  }
  return {std::move(ask)};
}

Launched NotLaunched(const Error& error) {
  const bool left_out = error.reason == Reason::kLimitReached;
  return {left_out ? OccurrenceOutcome::kSkipped : OccurrenceOutcome::kFailed, error.message, ""};
}

bool Failed(InstanceResult result) {
  return result == InstanceResult::kError || result == InstanceResult::kAborted;
}

}  // namespace

std::optional<CauseName> ReadCause(std::string_view cause) {
  for (DocumentKind kind : {DocumentKind::kSchedule, DocumentKind::kTrigger}) {
    const std::string_view word = Name(kind);
    if (!cause.starts_with(word) || !cause.substr(word.size()).starts_with(':')) continue;
    return CauseName{kind, cause.substr(word.size() + 1)};
  }
  return std::nullopt;
}

Result<std::string> Launcher::IdOf(const LaunchSource& source, const Resolver& resolve) {
  return Text("id", source.start()->id, resolve);
}

Result<StartArgs> Launcher::Fill(const LaunchOrder& order) {
  const LaunchStart& start = *order.source.start();
  StartArgs args;
  auto id = FillId(order, start);
  if (!id) return id.error();
  auto params = ResolvedObject(start.params, order.resolve);
  if (!params) return params.error();
  auto group = FillGroup(order, start);
  if (!group) return group.error();
  if (auto labels = FillLabels(start, order.resolve, &args); !labels) return labels.error();
  args.ns = order.ns;
  args.machine = start.machine;
  args.version = start.version;
  args.id = *std::move(id);
  args.spec.params = order.params.empty() ? *std::move(params) : json::Merge(*params, order.params);
  args.spec.client = order.cause;
  if (order.trace) args.spec.trace = *order.trace;
  args.priority = order.priority.value_or(start.priority);
  // In a backfill each time has long passed.
  if (start.before && !order.backfill) args.start_before = After(order.time, *start.before);
  args.provenance = Provenance{*std::move(group), order.cause, order.depth, order.backfill,
                               order.time};
  return args;
}

Result<Launched> Launcher::Launch(const LaunchOrder& order) {
  if (order.depth > kLaunchDepthMax) {
    return Launched{OccurrenceOutcome::kFailed,
                    "it is the " + std::to_string(order.depth) +
                        "th in a chain of change triggers, which may be " +
                        std::to_string(kLaunchDepthMax) +
                        " deep: do these triggers start one another in a loop?",
                    ""};
  }
  return order.source.start() ? Start(order) : Send(order);
}

Result<Launched> Launcher::Start(const LaunchOrder& order) {
  if (auto full = turn_.NeedsRoom(Room::kAmple)) return *std::move(full);
  auto args = Fill(order);
  if (!args) return Launched{OccurrenceOutcome::kFailed, args.error().message, ""};
  if (args->start_before <= turn_.now()) {
    return Launched{OccurrenceOutcome::kFailed,
                    "it is too late: 'before' lets it begin within " +
                        FormatDuration(*order.source.start()->before) + " of its time",
                    ""};
  }
  if (!order.backfill) {
    args->asks = AsksFor(order.cause, order.overlap.value_or(order.source.overlap));
  }
  if (!options_.Has(args->ns, args->id)) {
    if (auto may = starter_.MayBeginElsewhere(*args); !may) return NotLaunched(may.error());
    starter_.StartElsewhere(*args, {order.ns, order.cause, order.occurrence, ""});
    return Launched{OccurrenceOutcome::kStarted, "", args->id, true};
  }
  return Start(*std::move(args));
}

Result<Launched> Launcher::Start(StartArgs args) {
  auto started = starter_.Start(std::move(args));
  if (started) {
    return Launched{started->created ? OccurrenceOutcome::kStarted : OccurrenceOutcome::kExists, "",
                    started->view.instance.id};
  }
  const Error& error = started.error();
  if (error.reason == Reason::kDiskFull) return error;
  return NotLaunched(error);
}

Result<Launched> Launcher::Send(const LaunchOrder& order) {
  if (auto full = turn_.NeedsRoom(Room::kAmple)) return *std::move(full);
  const LaunchSend& send = *order.source.send();
  auto instance = Text("instance", send.instance, order.resolve);
  if (!instance) return Launched{OccurrenceOutcome::kFailed, instance.error().message, ""};
  auto transition = Text("transition", send.transition, order.resolve);
  auto node = Text("node", send.node, order.resolve);
  auto params = ResolvedObject(send.params, order.resolve);
  for (const Result<std::string>* one : {&transition, &node, &params}) {
    if (!*one) return Launched{OccurrenceOutcome::kFailed, one->error().message, ""};
  }
  rows::Message::Move move{{order.ns, order.cause, order.occurrence, ""},
                           order.ns,
                           *std::move(instance),
                           *std::move(transition),
                           *std::move(node),
                           *std::move(params),
                           order.depth};
  if (!order.params.empty()) move.params = json::Merge(move.params, order.params);
  if (options_.Has(move.ns, move.instance)) return Move(move);
  Launched sent{OccurrenceOutcome::kSent, "", move.instance, true};
  const PartitionId there = PartitionOf(move.ns, move.instance, options_.partitions);
  messages_.Send(there, {std::move(move)});
  return sent;
}

Result<Launched> Launcher::Move(const rows::Message::Move& move) {
  ReportArgs args;
  args.transition = move.transition;
  args.node = move.node;
  args.params = move.params;
  args.client = move.asker.cause;
  Result<Answer> answer = Answer();
  {
    const Changer::Because because(changer_, {.cause = move.asker.cause, .depth = move.depth});
    answer = reports_.Report(move.ns, move.instance, std::move(args), {}, {});
  }
  if (answer) return Launched{OccurrenceOutcome::kSent, "", move.instance};
  if (answer.error().reason == Reason::kDiskFull) return answer.error();
  return Launched{OccurrenceOutcome::kFailed, answer.error().message, ""};
}

Result<Launched> Launcher::Begin(const rows::Message::Begin& begin) {
  auto args = ReadBegin(begin, options_);
  if (!args) return Launched{OccurrenceOutcome::kFailed, args.error().message, ""};
  if (/*mutant message-before-adoption*/ starter_.ToBeAdopted(*args) /*end*/) {
    return Error{Code::kUnavailable, Reason::kNone,
                 "machine '" + args->machine + "' is still to be adopted from home"};
  }
  return Start(*std::move(args));
}

// What others tell -------------------------------------------------------------------------------

LaunchKeeper* Launcher::KeeperOf(std::string_view cause, std::string* name) const {
  const auto read = ReadCause(cause);
  const auto keeper = read ? keepers_.find(read->kind) : keepers_.end();
  if (keeper == keepers_.end()) return nullptr;
  *name = read->name;
  return keeper->second;
}

void Launcher::Decided(const rows::Message::Decided& decided) {
  const auto& [ns, cause, number, none] = decided.asker;
  std::string name;
  LaunchKeeper* const keeper = KeeperOf(cause, &name);
  if (!keeper) return;
  keeper->LaunchDecided(ns, name, number, {decided.outcome, decided.error, decided.instance});
}

void Launcher::Finished(const rows::Message::Finished& finished) { ended_.push_back(finished); }

// What goes on ----------------------------------------------------------------------------------

LaunchCounts Launcher::CountsOf(const std::string& ns, const std::string& cause) const {
  const std::string key = ResidentKey(ns, cause);
  const auto found = counts_.find(key);
  LaunchCounts counts = found == counts_.end() ? LaunchCounts{} : found->second;
  if (const auto other = elsewhere_.find(key); other != elsewhere_.end()) {
    counts.running += other->second.running;
    counts.waiting += other->second.waiting;
  }
  return counts;
}

void Launcher::AddElsewhere(const std::string& ns, const std::string& cause,
                            const LaunchCounts& counts) {
  LaunchCounts& all = elsewhere_[ResidentKey(ns, cause)];
  all.running += counts.running;
  all.waiting += counts.waiting;
}

std::map<std::string, LaunchCounts> Launcher::CountsIn(const std::string& ns) const {
  std::map<std::string, LaunchCounts> counts;
  const auto add = [&](const auto& from) {
    for (const auto& [key, one] : from) {
      auto [of, cause] = SplitKey(key);
      if (of != ns) continue;
      LaunchCounts& all = counts[std::move(cause)];
      all.running += one.running;
      all.waiting += one.waiting;
    }
  };
  add(counts_);
  add(elsewhere_);
  return counts;
}

void Launcher::Count(const Instance& instance, InstanceState state, int64_t by) {
  const bool waits = state == InstanceState::kScheduled;
  const bool runs = state == InstanceState::kPlanning || state == InstanceState::kRunning;
  if (!waits && !runs) return;
  const std::string key = ResidentKey(instance.ns, instance.provenance->cause);
  LaunchCounts& counts = counts_[key];
  (waits ? counts.waiting : counts.running) += static_cast<uint64_t>(by);
  if (counts.waiting == 0 && counts.running == 0) counts_.erase(key);
}

void Launcher::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  if (!instance.provenance || instance.provenance->cause.empty()) return;
  if (!instance.provenance->backfill) Count(instance, instance.state, +1);
}

void Launcher::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.provenance || instance.provenance->cause.empty()) return;
  if (instance.provenance->backfill || change.before.state == instance.state) return;
  Count(instance, instance.state, +1);
  Count(instance, change.before.state, -1);
  const bool was_stuck = change.before.waits.Has(Wait::kStuck);
  const bool stuck = !was_stuck && !instance.Stopped() && instance.waits.Has(Wait::kStuck);
  const bool failed = change.Stopped() && Failed(instance.result) && !was_stuck;
  const bool succeeded = change.Stopped() && EndedWell(instance.result);
  if (!stuck && !failed && !succeeded) return;
  ended_.push_back({instance.ns, instance.provenance->cause, instance.id, stuck || failed,
                    instance.provenance->time});
}

bool Launcher::TellEnd() {
  if (ended_.empty()) return false;
  const Ended one = std::move(ended_.front());
  ended_.pop_front();
  if (!turn_.at_home()) {
    /*mutant message-end-not-told*/ messages_.Send(kHome, {one}); /*end*/
    return true;
  }
  std::string name;
  LaunchKeeper* const keeper = KeeperOf(one.cause, &name);
  if (keeper) keeper->LaunchEnded(one.ns, name, one.instance, one.failed, one.time);
  return true;
}

}  // namespace dfsmr
