#include "dsrv/engine/triggers.h"

#include <algorithm>

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/occurrences.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kPiecesPerPass = 20;  // of work for polls and gatherings
constexpr Duration kRoomAgain = std::chrono::seconds(1);

Error BadRequest(std::string why) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(why)};
}

Error NoSuchHook(const std::string& ns, const std::string& path) {
  return {Code::kNotFound, Reason::kNoSuchTrigger,
          "no trigger of namespace " + Quoted(ns) + " has a webhook at " + Quoted(path)};
}

const TriggerSource& SourceOf(const Document& document) {
  return *std::get<std::shared_ptr<const TriggerSource>>(document.body);
}

}  // namespace

Triggers::Triggers(const Below& below)
    : turn_(below.turn),
      documents_(below.documents),
      occurrences_(below.occurrences),
      launcher_(below.launcher),
      limits_(below.limits),
      spaces_(below.spaces),
      messages_(below.messages),
      options_(below.options),
      states_(below.turn),
      intake_(below.turn, states_, below.launcher, below.occurrences),
      sender_(below.turn, below.messages),
      listening_(below.turn, states_, below.residents,
                 below.turn.at_home() ? static_cast<ItemTaker&>(intake_) : sender_),
      polling_(below.turn, states_, below.residents, below.changer, below.starter, below.retention,
               intake_, below.messages, below.options) {
  intake_.OnPause([this](TriggerState& state) { PausedByFailures(state); });
}

Result<Ok> Triggers::Recover() {
  if (auto recovered = listening_.Recover(); !recovered) return recovered;
  if (!turn_.at_home()) {
    auto read = ReadTriggers(turn_.home(), "");
    if (read) Adopt("", *read);
    return read ? Result<Ok>(Ok{}) : read.error();
  }
  Result<Ok> outcome = Ok{};
  auto scanned =
      rows::ScanTriggers(turn_.reader(), [&](rows::TriggerName name, rows::TriggerRow row) {
        if (outcome && !row.deleted) outcome = RecoverOne(name, std::move(row));
      });
  return scanned ? outcome : scanned;
}

Result<Ok> Triggers::RecoverOne(rows::TriggerName name, rows::TriggerRow row) {
  auto version = documents_.Find({name.ns, DocumentKind::kTrigger, name.name});
  if (!version) return version.error();
  auto state = std::make_unique<TriggerState>();
  state->ns = name.ns;
  state->name = name.name;
  state->version = version->version;
  state->document = version->document;
  state->row = std::move(row);
  TriggerState& added = states_.Add(std::move(state));
  if (auto loaded = intake_.LoadGatherings(added); !loaded) return loaded;
  Begin(added);
  return Ok{};
}

void Triggers::Changed(TriggerState& state, bool anew) {
  if (options_.partitions == 1) return;
  ++state.row.changes;
  if (!anew) return;
  ++state.row.begins;
  state.row.rounds.clear();
  states_.MarkDirty(state);
}

Result<TriggerState*> Triggers::Find(const std::string& ns, const std::string& name) {
  if (TriggerState* state = states_.Find(ns, name)) return state;
  return documents_.WhyGone({ns, DocumentKind::kTrigger, name});
}

// Sources -----------------------------------------------------------------------------------------

void Triggers::Begin(TriggerState& state) {
  state.frozen = spaces_.Frozen(state.ns);
  if (!turn_.at_home()) {
    if (!state.Paused()) listening_.Begin(state);
    return;
  }
  for (const ItemSource& one : state.source().on) {
    if (one.webhook()) hooks_[{state.ns, one.webhook()->path}] = {&state, one.name};
  }
  intake_.TimeGatherings(state);
  if (state.Paused()) return;
  listening_.Begin(state);
  polling_.Begin(state);
}

void Triggers::End(TriggerState& state) {
  if (!turn_.at_home()) return listening_.End(state);
  std::erase_if(hooks_, [&state](const auto& hook) { return hook.second.first == &state; });
  intake_.ForgetGatherings(state);
  listening_.End(state);
  polling_.End(state);
}

void Triggers::PausedByFailures(TriggerState& state) {
  Changed(state);
  End(state);
  Begin(state);
}

// Documents ---------------------------------------------------------------------------------------

// What was defined before keeps its numbers, and begins anew otherwise.
rows::TriggerRow Triggers::FirstRow(const std::string& ns, const Document& document) {
  rows::TriggerRow row;
  auto former = rows::GetTrigger(turn_.reader(), {ns, document.name});
  if (turn_.Trust(former) && *former) {
    row.polls = (*former)->polls;
    row.gatherings = (*former)->gatherings;
    row.changes = (*former)->changes;
    row.begins = (*former)->begins;
  }
  const TriggerSource& source = SourceOf(document);
  const bool oldest = std::ranges::any_of(
      source.on, [](const ItemSource& one) { return one.change() && one.change()->from_oldest; });
  row.since = turn_.last_seq();
  row.position =
      oldest ? std::max(turn_.feed_start() - 1, spaces_.FeedFloor(ns)) : row.since;
  if (source.launch.paused) {
    row.paused = true;
    row.note = *source.launch.paused;
    row.pause_time = turn_.clock();
  }
  return row;
}

// A trigger that has not listened to changes so far does so from now on.
void Triggers::Defined(const DocumentVersion& version, bool first) {
  TriggerState* state = states_.Find(version.ns, version.document->name);
  bool anew = !state;
  if (!state) {
    auto added = std::make_unique<TriggerState>();
    added->ns = version.ns;
    added->name = version.document->name;
    added->document = version.document;
    if (first) added->row = FirstRow(version.ns, *version.document);
    state = &states_.Add(std::move(added));
  } else {
    End(*state);
    if (!state->source().Has(SourceKind::kChange)) {
      state->row.since = state->row.position = turn_.last_seq();
      anew = true;
    }
  }
  state->version = version.version;
  state->document = version.document;
  states_.MarkDirty(*state);
  Changed(*state, anew);
  Begin(*state);
  limits_.SetOverlap(version.ns, CauseOf(DocumentKind::kTrigger, state->name),
                     state->source().launch.overlap);
}

void Triggers::Deleted(const std::string& ns, const std::string& name) {
  TriggerState* state = states_.Find(ns, name);
  if (!state) return;
  End(*state);
  polling_.Drop(*state);
  rows::DropGatherings(turn_.writer(), state->trigger());
  rows::DropAllSeen(turn_.writer(), state->trigger());
  state->row.deleted = true;
  states_.Remove(*state);
  limits_.SetOverlap(ns, CauseOf(DocumentKind::kTrigger, name), Overlap::kAllow);
}

void Triggers::AddOwners(const std::string& ns, const std::vector<Document>& documents,
                         Owners* owners) const {
  for (const auto& [hook, owner] : hooks_) {
    const std::string& name = owner.first->name;
    const bool again = std::ranges::any_of(documents, [&name](const Document& one) {
      return one.kind() == DocumentKind::kTrigger && one.name == name;
    });
    if (hook.first == ns && !again) (*owners)[{DocumentKind::kTrigger, hook.second}] = name;
  }
}

void Triggers::LaunchEnded(const std::string& ns, const std::string& name,
                           const std::string& instance, bool failed, Timestamp) {
  if (TriggerState* state = states_.Find(ns, name)) intake_.Ended(*state, instance, failed);
}

void Triggers::LaunchDecided(const std::string& ns, const std::string& name, uint64_t number,
                             const Launched& launched) {
  if (number == 0) return polling_.Decided(ns, name, launched);
  if (TriggerState* state = states_.Find(ns, name)) intake_.Decided(*state, number, launched);
}

// Calls -------------------------------------------------------------------------------------------

TriggerView Triggers::ViewOf(const TriggerState& state, DocumentVersion definition) {
  TriggerView view;
  view.definition = std::move(definition);
  view.row = state.row;
  AddPast(&view);
  view.open_gatherings = state.gatherings.size();
  if (state.source().Has(SourceKind::kChange)) {
    view.listens = true;
    AddPlaces(state, &view);
  }
  return view;
}

void Triggers::AddPast(TriggerView* view) {
  const DocumentVersion& version = view->definition;
  const std::string& name = version.document->name;
  const rows::DocumentName of{version.ns, DocumentKind::kTrigger, name};
  if (auto head = occurrences_.HeadOf(of)) view->occurrences = *head;
  if (view->occurrences.last != 0) {
    if (auto last = occurrences_.Get(of, view->occurrences.last)) view->last = *last;
  }
  view->counts = launcher_.CountsOf(version.ns, CauseOf(DocumentKind::kTrigger, name));
}

Result<TriggerView> Triggers::RetiredView(const std::string& ns, const std::string& name,
                                          uint32_t version) {
  auto definition = documents_.FindRetired({ns, DocumentKind::kTrigger, name}, version);
  if (!definition) return definition.error();
  auto row = rows::GetTrigger(turn_.reader(), {ns, name});
  if (!turn_.Trust(row)) return row.error();
  TriggerView view;
  view.definition = *std::move(definition);
  view.row = (*row).value_or(rows::TriggerRow{.deleted = true});
  AddPast(&view);
  return view;
}

Result<TriggerView> Triggers::Get(const std::string& ns, const std::string& name,
                                  uint32_t version) {
  TriggerState* const state = states_.Find(ns, name);
  if (!state) return RetiredView(ns, name, version);
  auto definition = documents_.Find(state->of(), version);
  if (!definition) return definition.error();
  return ViewOf(*state, *std::move(definition));
}

Result<Ok> Triggers::List(const std::string& ns, const std::string& after,
                          const std::function<bool(const TriggerView&)>& visit) {
  Result<Ok> outcome = Ok{};
  auto scanned = rows::ScanDocuments(
      turn_.reader(), ns, DocumentKind::kTrigger, after,
      [&](std::string_view name, const rows::DocumentHead& head) {
        if (head.deleted && !head.retired) return true;
        auto view = Get(ns, std::string(name), 0);
        if (view) return visit(*view);
        outcome = view.error();
        return false;
      });
  return turn_.Trust(scanned) ? outcome : scanned;
}

void Triggers::VisitPlaces(
    const std::function<void(const std::string& ns, FeedPlace place)>& visit) const {
  for (const auto& [name, state] : states_.all()) {
    if (state->source().Has(SourceKind::kChange)) visit(state->ns, PlaceOf(*state));
  }
}

FeedPlace Triggers::PlaceOf(const TriggerState& state) const {
  const uint64_t position = listening_.PositionOf(state);
  return {state.name, turn_.partition(), position, turn_.last_seq() - position};
}

// The lag of those that have said theirs; the positions only where all have.
void Triggers::AddPlaces(const TriggerState& state, TriggerView* view) const {
  std::vector<FeedPlace> places{PlaceOf(state)};
  const auto elsewhere = elsewhere_.find({state.ns, state.name});
  if (elsewhere != elsewhere_.end()) {
    places.insert(places.end(), elsewhere->second.begin(), elsewhere->second.end());
  }
  std::vector<uint64_t> positions(options_.partitions);
  for (const FeedPlace& one : places) {
    view->lag += one.lag;
    if (one.partition < positions.size()) positions[one.partition] = one.position;
  }
  if (places.size() == positions.size()) view->positions = std::move(positions);
}

Result<Occurrence> Triggers::Fire(const std::string& ns, const std::string& name,
                                  const std::string& on, const std::string& item,
                                  const std::optional<TraceContext>& trace) {
  auto state = Find(ns, name);
  if (!state) return state.error();
  const TriggerSource& source = (*state)->source();
  const ItemSource* from = source.SourceNamed(on);
  if (!from) {
    std::string names;
    for (const ItemSource& one : source.on) names += (names.empty() ? "" : ", ") + one.name;
    if (names.empty()) names = "only one, without a name";
    return BadRequest((on.empty() ? "the trigger has several sources; say which of them brings "
                                    "the item: "
                                  : "the trigger has no source " + Quoted(on) + "; it has ") +
                      names);
  }
  return intake_.Take(**state, {*from, item.empty() ? "{}" : item, 0, OccurrenceKind::kManual, trace});
}

Result<Ok> Triggers::Pause(const std::string& ns, const std::string& name, const std::string& note,
                           const std::string& client) {
  auto state = Find(ns, name);
  if (!state) return state.error();
  rows::TriggerRow& row = (*state)->row;
  row.note = note;
  row.paused_by = client;
  if (!row.paused) {
    row.pause_time = turn_.clock();
    End(**state);
    row.paused = true;
    Begin(**state);
    Changed(**state);
  }
  states_.MarkDirty(**state);
  return Ok{};
}

Result<Ok> Triggers::Resume(const std::string& ns, const std::string& name, bool skip) {
  auto state = Find(ns, name);
  if (!state) return state.error();
  rows::TriggerRow& row = (*state)->row;
  if (!row.paused) return Ok{};
  End(**state);
  row.paused = false;
  row.failures = 0;
  row.note.clear();
  row.paused_by.clear();
  row.pause_time = {};
  if (skip) {
    row.position = turn_.last_seq();
    polling_.Drop(**state);
  }
  states_.MarkDirty(**state);
  Changed(**state, skip);
  Begin(**state);
  return Ok{};
}

void Triggers::FreezeChanged(const std::string& ns) {
  for (const auto& [name, state] : states_.all()) {
    if (name.first != ns) continue;
    End(*state);
    states_.MarkDirty(*state);
    Begin(*state);
  }
}

Result<Occurrence> Triggers::Retry(const std::string& ns, const std::string& name,
                                   const std::string& id,
                                   const std::optional<TraceContext>& trace) {
  auto state = Find(ns, name);
  if (!state) return state.error();
  auto one = occurrences_.ToRetry((*state)->of(), id);
  if (!one) return one;
  return intake_.Retry(**state, *std::move(one), trace);
}

std::optional<Hook> Triggers::HookOf(const std::string& ns, const std::string& path) const {
  auto hook = hooks_.find({ns, path});
  if (hook == hooks_.end()) return std::nullopt;
  const TriggerState& state = *hook->second.first;
  return Hook{state.name, *state.source().SourceNamed(hook->second.second)->webhook(),
              state.Paused()};
}

Result<Occurrence> Triggers::Receive(const std::string& ns, const std::string& path,
                                     const std::string& item,
                                     const std::optional<TraceContext>& trace) {
  auto hook = hooks_.find({ns, path});
  if (hook == hooks_.end()) return NoSuchHook(ns, path);
  TriggerState& state = *hook->second.first;
  if (auto may = spaces_.MayChange(ns); !may) return may.error();
  if (state.Paused()) {
    const std::string why = state.row.paused ? state.row.note : "its namespace is frozen";
    return Error{Code::kUnavailable, Reason::kNotReady,
                 "trigger " + Quoted(state.name) + " is paused" + (why.empty() ? "" : ": " + why)};
  }
  return intake_.Take(state, {.source = *state.source().SourceNamed(hook->second.second),
                              .json = item,
                              .trace = trace});
}

// Turns -------------------------------------------------------------------------------------------

void Triggers::BeginPass() {
  pieces_left_ = kPiecesPerPass;
  listening_.BeginPass();
  polling_.BeginPass();
}

bool Triggers::Work() {
  if (polling_.TellHome()) return true;
  const bool due = std::min({intake_.Due(), polling_.Due(), listening_.Due()}) <= turn_.clock();
  if (!due) return false;
  if (intake_.Full()) {
    waits_until_ = After(turn_.clock(), kRoomAgain);
    return false;
  }
  if (listening_.Work()) return true;
  if (std::min(intake_.Due(), polling_.Due()) > turn_.clock()) return false;
  if (pieces_left_ == 0) {
    turn_.WantMore();
    return false;
  }
  --pieces_left_;
  return intake_.EndGathering() || polling_.Work();
}

Timestamp Triggers::Due() const {
  const Timestamp due = std::min({intake_.Due(), polling_.Due(), listening_.Due()});
  return due == kNever ? kNever : std::max(due, waits_until_);
}

void Triggers::Stage() {
  listening_.Stage();
  states_.Write();
}

}  // namespace dfsmr
