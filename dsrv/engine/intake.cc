#include "dsrv/engine/intake.h"

#include <algorithm>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/items.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/values.h"
#include "fsm/base/duration.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/when/calendar.h"

namespace dfsmr {
namespace {

constexpr size_t kSeenDropped = 4;  // for each that is added

Occurrence Unlisted(OccurrenceOutcome outcome, const TriggerState& state, const Item& item,
                    Timestamp now) {
  Occurrence one;
  one.outcome = outcome;
  one.version = state.version;
  one.kind = item.kind;
  one.time = one.decide_time = now;
  one.item = item.json;
  return one;
}

Result<std::string> FillText(const std::string& text, const std::string& what,
                             const Resolver& resolve) {
  auto filled = TextOf(Evaluate(json::Quote(text), resolve));
  if (filled) return filled;
  return Error{Code::kInvalidArgument, Reason::kNone, what + ": " + filled.error().message};
}

// When a gathering ends by itself; kNever: only with another item.
Timestamp EndOf(const TriggerSource& source, const rows::GatheringRow& row) {
  if (!source.gather) return row.first;  // the trigger gathers no more
  Timestamp end = kNever;
  if (source.gather->within) end = After(row.first, *source.gather->within);
  if (source.gather->quiet) end = std::min(end, After(row.last, *source.gather->quiet));
  return end;
}

bool AllHaveCome(const TriggerSource& source, const rows::GatheringRow& row) {
  return std::ranges::all_of(source.on, [&row](const ItemSource& one) {
    return std::ranges::find(row.sources, one.name) != row.sources.end();
  });
}

bool Complete(const TriggerSource& source, const rows::GatheringRow& row) {
  const GatherSource& gather = *source.gather;
  if (gather.all && AllHaveCome(source, row)) return true;
  if (gather.count != 0 && row.count >= gather.count) return true;
  return row.count >= kGatheredItems || row.bytes >= kGatheredBytes;
}

// Whether all items as one list, with something around it, are still no more than params may be.
bool HasRoomFor(const rows::GatheringRow& row, const Item& item) {
  constexpr size_t kAround = 4 << 10;
  return row.bytes + row.count + item.json.size() + kAround <= kGatheredBytes;
}

// By what the items of a source that has no name are called.
std::string SourceName(const ItemSource& source) {
  static constexpr std::string_view kKinds[] = {"change", "poll", "webhook"};
  return source.name.empty() ? std::string(kKinds[static_cast<size_t>(source.kind())])
                             : source.name;
}

// The source that has brought an item, or would now; nullptr: there is none any more.
const ItemSource* SourceCalled(const TriggerSource& source, const std::string& name) {
  if (source.on.size() == 1) return &source.on.front();
  const auto found = std::ranges::find(source.on, name, SourceName);
  return found == source.on.end() ? nullptr : &*found;
}

Result<std::string> GatheringKey(const TriggerState& state, const Given& given) {
  return FillText(state.source().gather->by, "gather.by", ResolverOf(state.name, given, 0));
}

}  // namespace

Result<Occurrence> Intake::Take(TriggerState& state, const Item& item) {
  if (auto full = Full()) return *std::move(full);
  const TriggerSource& source = state.source();
  Given given{.items = {{SourceName(item.source), item.json, item.depth}}, .time = turn_.clock(), .trace = item.trace};
  const Resolver resolve = ResolverOf(state.name, given, 0);
  const LookUp value = [&resolve](const Reference& reference) -> std::optional<std::string> {
    auto found = resolve(reference);
    return found ? std::optional(*std::move(found)) : std::nullopt;
  };
  if (source.condition && !source.condition(value)) {
    ++state.row.filtered;
    states_.MarkDirty(state);
    return Unlisted(OccurrenceOutcome::kFiltered, state, item, turn_.clock());
  }
  auto passed = Dedupe(state, given);
  if (!passed) return passed.error();
  if (passed->duplicate) {
    return Unlisted(OccurrenceOutcome::kDuplicate, state, item, turn_.clock());
  }
  if (!passed->error.empty()) {
    given.deduped = false;
    return List(state, given, {.kind = item.kind, .error = passed->error});
  }
  if (!source.gather) return Launch(state, given, item.kind);
  auto key = GatheringKey(state, given);
  if (!key) return List(state, given, {.kind = item.kind, .error = key.error().message});
  return Gather(state, item, given, *key);
}

ItemTaker::Took Intake::TakeChange(TriggerState& state, const Brought& brought) {
  auto taken = Take(state, {brought.source, brought.json, brought.depth});
  if (!taken) return Took::kNothing;
  const bool passed_over = taken->outcome == OccurrenceOutcome::kFiltered ||
                           taken->outcome == OccurrenceOutcome::kDuplicate;
  return passed_over ? Took::kNoted : Took::kChanged;
}

Result<Intake::Deduped> Intake::Dedupe(TriggerState& state, const Given& given) {
  const auto& dedupe = state.source().dedupe;
  if (!dedupe) return Deduped{};
  auto key = FillText(dedupe->key, "dedupe", ResolverOf(state.name, given, 0));
  if (!key) return Deduped{.error = key.error().message};
  auto until = rows::GetSeen(turn_.reader(), state.trigger(), *key);
  if (!turn_.Trust(until)) return until.error();
  if (*until && /*mutant dedupe-forever*/ **until > turn_.clock() /*end*/) {
    ++state.row.duplicates;
    states_.MarkDirty(state);
    return Deduped{.duplicate = true};
  }
  const Timestamp end = After(turn_.clock(), dedupe->window);
  /*mutant seen-not-kept*/ rows::PutSeen(turn_.writer(), state.trigger(), *key, end); /*end*/
  turn_.Trust(rows::DropSeen(turn_.reader(), turn_.writer(), state.trigger(), turn_.clock(),
                             kSeenDropped));
  return Deduped{};
}

// Gatherings ------------------------------------------------------------------------------------

Result<Occurrence> Intake::Gather(TriggerState& state, const Item& item, const Given& given,
                                  const std::string& key) {
  auto open = state.gatherings.find(key);
  if (open != state.gatherings.end() && !HasRoomFor(open->second, item)) {
    auto full = FinishGathering(state, open->second, item.kind, std::nullopt);
    if (!full) return full;
    open = state.gatherings.end();
  }
  rows::GatheringRow row;
  if (open != state.gatherings.end()) {
    row = open->second;
    deadlines_.erase({EndOf(state.source(), row), &state, key});
  } else {
    row = {.number = ++state.row.gatherings, .key = key, .first = turn_.clock()};
  }
  row.last = turn_.clock();
  row.bytes += item.json.size();
  const std::string& name = item.source.name;
  if (std::ranges::find(row.sources, name) == row.sources.end()) row.sources.push_back(name);
  rows::PutGathered(turn_.writer(), state.trigger(), row.number, row.count++, given.last());
  state.gatherings.insert_or_assign(key, row);
  states_.MarkDirty(state);
  ++state.row.gathered;
  if (Complete(state.source(), row)) return FinishGathering(state, row, item.kind, item.trace);
  /*mutant gathered-not-kept*/ rows::PutGathering(turn_.writer(), state.trigger(), row); /*end*/
  if (!state.Paused()) deadlines_.insert({EndOf(state.source(), row), &state, key});
  return Unlisted(OccurrenceOutcome::kGathered, state, item, turn_.clock());
}

Result<Occurrence> Intake::FinishGathering(TriggerState& state, const rows::GatheringRow& row,
                                           OccurrenceKind kind,
                                           const std::optional<TraceContext>& trace) {
  auto items = rows::GetGathered(turn_.reader(), state.trigger(), row.number);
  if (!turn_.Trust(items)) return items.error();
  const Given given{*std::move(items), true, row.key, row.first, trace};
  auto launched = Launch(state, given, kind);
  if (launched) DropGathering(state, row);
  return launched;
}

Result<Ok> Intake::Expire(TriggerState& state, const rows::GatheringRow& row) {
  auto items = rows::GetGathered(turn_.reader(), state.trigger(), row.number);
  if (!turn_.Trust(items)) return items.error();
  const Given given{*std::move(items), true, row.key, row.first};
  std::string missing;
  for (const ItemSource& one : state.source().on) {
    if (std::ranges::find(row.sources, one.name) != row.sources.end()) continue;
    missing += (missing.empty() ? "" : ", ") + one.name;
  }
  auto listed = List(state, given,
                     {.outcome = OccurrenceOutcome::kExpired,
                      .error = "nothing came from " + missing + " within " +
                               FormatDuration(*state.source().gather->within)});
  if (!listed) return listed.error();
  DropGathering(state, row);
  return Ok{};
}

// `row` may be that of state.gatherings.
void Intake::DropGathering(TriggerState& state, const rows::GatheringRow& row) {
  deadlines_.erase({EndOf(state.source(), row), &state, row.key});
  rows::DropGathering(turn_.writer(), state.trigger(), row.number);
  const std::string key = row.key;
  state.gatherings.erase(key);
}

Result<Ok> Intake::LoadGatherings(TriggerState& state) {
  auto scanned = rows::ScanGatherings(
      turn_.reader(), state.trigger(),
      [&state](const rows::GatheringRow& row) { state.gatherings[row.key] = row; });
  if (scanned) TimeGatherings(state);
  return scanned;
}

void Intake::ForgetGatherings(TriggerState& state) {
  std::erase_if(deadlines_, [&state](const Deadline& one) { return one.state == &state; });
}

void Intake::TimeGatherings(TriggerState& state) {
  ForgetGatherings(state);
  if (state.Paused()) return;
  for (const auto& [key, row] : state.gatherings) {
    deadlines_.insert({EndOf(state.source(), row), &state, key});
  }
}

Timestamp Intake::Due() const { return deadlines_.empty() ? kNever : deadlines_.begin()->at; }

bool Intake::EndGathering() {
  if (Due() > turn_.clock()) return false;
  const Timestamp at = deadlines_.begin()->at;
  TriggerState* const state = deadlines_.begin()->state;
  const rows::GatheringRow row = state->gatherings.at(deadlines_.begin()->key);
  const auto& gather = state->source().gather;
  const bool expires = gather && gather->all && gather->within &&
                       at == After(row.first, *gather->within) && !Complete(state->source(), row);
  if (expires ? !Expire(*state, row) : !FinishGathering(*state, row, OccurrenceKind::kRegular)) {
    return false;
  }
  return true;
}

// Launches --------------------------------------------------------------------------------------

Result<Occurrence> Intake::Launch(TriggerState& state, const Given& given, OccurrenceKind kind) {
  auto number = occurrences_.NextNumber(state.of());
  if (!turn_.Trust(number)) return number.error();
  Occurrence one{.kind = kind};
  auto tried = Try(state, given, *number, &one);
  if (!tried) return tried.error();
  return List(state, given, std::move(one), *tried);
}

Result<bool> Intake::Try(TriggerState& state, const Given& given, uint64_t number,
                         Occurrence* one) {
  const LaunchOrder order{.ns = state.ns,
                          .cause = CauseOf(DocumentKind::kTrigger, state.name),
                          .source = state.source().launch,
                          .resolve = ResolverOf(state.name, given, number),
                          .default_id = state.name + "-" + std::to_string(number),
                          .time = turn_.clock(),
                          .occurrence = number,
                          .depth = given.depth(),
                          .trace = given.trace};
  auto launched = launcher_.Launch(order);
  if (!launched) return launched.error();
  one->outcome = launched->outcome;
  one->error = launched->error;
  one->instance = launched->instance;
  one->version = state.version;
  return launched->elsewhere;
}

// Without an outcome it is FAILED.
Result<Occurrence> Intake::List(TriggerState& state, const Given& given, Occurrence one,
                                bool elsewhere) {
  if (one.outcome == OccurrenceOutcome::kNone) one.outcome = OccurrenceOutcome::kFailed;
  one.version = state.version;
  one.time = given.time;
  one.count = given.gathered ? given.items.size() : 0;
  one.item = given.Item();
  one.given = given.Rest();
  auto listed = occurrences_.Add(state.of(), std::move(one), given.depth());
  if (!turn_.Trust(listed)) return listed.error();
  if (listed->outcome == OccurrenceOutcome::kFailed) {
    Failed(state, "occurrence " + listed->id + ": " + listed->error);
  }
  if (listed->outcome == OccurrenceOutcome::kSent && !elsewhere) Succeeded(state);
  return listed;
}

Result<Occurrence> Intake::Retry(TriggerState& state, Occurrence one,
                                 const std::optional<TraceContext>& trace) {
  if (auto full = Full()) return *std::move(full);
  Given given = ReadGiven(one.item, one.given, one.time);
  given.trace = trace;
  if (auto gone_on = GoOn(state, &given, &one); !gone_on) return gone_on.error();
  one.given = given.Rest();
  ++one.tries;
  auto noted = occurrences_.Change(state.of(), one, given.depth());
  // A gathering that it has completed may have taken its place in the list.
  if (!noted && noted.error().reason != Reason::kNoSuchOccurrence) return noted.error();
  // One that fails again is the same failure.
  auto changed = occurrences_.Get(state.of(), one.number);
  if (!changed) return changed.error();
  return (*changed).value_or(one);
}

Result<Ok> Intake::GoOn(TriggerState& state, Given* given, Occurrence* one) {
  const TriggerSource& source = state.source();
  one->version = state.version;
  one->error.clear();
  if (!given->deduped) {
    auto passed = Dedupe(state, *given);
    if (!passed) return passed.error();
    if (passed->duplicate) one->outcome = OccurrenceOutcome::kDuplicate;
    one->error = passed->error;
    given->deduped = passed->error.empty();
    if (passed->duplicate || !given->deduped) return Ok{};
  }
  if (given->gathered || !source.gather) {
    auto tried = Try(state, *given, one->number, one);
    return tried ? Result<Ok>(Ok{}) : tried.error();
  }
  const ItemSource* const from = SourceCalled(source, given->last().source);
  if (!from) {
    one->error = "gather: the trigger has no source " + Quoted(given->last().source) + " any more";
    return Ok{};
  }
  auto key = GatheringKey(state, *given);
  if (!key) {
    one->error = key.error().message;
    return Ok{};
  }
  const Item item{*from, given->last().item, given->depth(), one->kind, given->trace};
  auto gathered = Gather(state, item, *given, *key);
  if (!gathered) return gathered.error();
  one->outcome = OccurrenceOutcome::kGathered;
  return Ok{};
}

void Intake::Miss(TriggerState& state, uint64_t count) {
  Occurrence one;
  one.outcome = OccurrenceOutcome::kMissed;
  one.version = state.version;
  one.time = one.until_time = turn_.clock();
  one.count = std::min(count, limits::kMissedCount);
  one.error = "the feed keeps its records for a time, and " + std::to_string(count) +
              " were gone before the trigger looked at them";
  turn_.Trust(occurrences_.Add(state.of(), std::move(one)));
}

// Failures --------------------------------------------------------------------------------------

void Intake::Ended(TriggerState& state, const std::string& instance, bool failed) {
  failed ? Failed(state, "instance " + instance + " has failed") : Succeeded(state);
}

void Intake::Decided(TriggerState& state, uint64_t number, const Launched& launched) {
  auto listed = occurrences_.Get(state.of(), number);
  if (!listed || !*listed) return;
  Occurrence one = **std::move(listed);
  if (one.outcome != launched.outcome || one.instance != launched.instance) {
    one.outcome = launched.outcome;
    one.error = launched.error;
    one.instance = launched.instance;
    (void)occurrences_.Change(state.of(), one, ReadGiven(one.item, one.given, one.time).depth());
  }
  const bool again = one.tries > 1;  // one that fails again is the same failure
  if (launched.outcome == OccurrenceOutcome::kFailed && !again) {
    Failed(state, "occurrence " + one.id + ": " + one.error);
  }
  if (launched.outcome == OccurrenceOutcome::kSent) Succeeded(state);
}

void Intake::Succeeded(TriggerState& state) {
  if (state.row.failures == 0) return;
  state.row.failures = 0;
  states_.MarkDirty(state);
}

void Intake::Failed(TriggerState& state, const std::string& why) {
  ++state.row.failures;
  states_.MarkDirty(state);
  const uint32_t most = state.source().launch.stop_on_fail;
  if (state.row.paused || most == 0 || state.row.failures < most) return;
  state.row.paused = true;
  state.row.note = "the last of " + std::to_string(state.row.failures) +
                   (state.row.failures == 1 ? " failure: " : " failures in a row: ") + why;
  state.row.paused_by = "stop_on_fail";
  state.row.pause_time = turn_.clock();
  paused_(state);
}

}  // namespace dfsmr
