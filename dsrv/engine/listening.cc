#include "dsrv/engine/listening.h"

#include <algorithm>

#include "dsrv/engine/item_taker.h"
#include "dsrv/engine/items.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/trigger_state.h"
#include "fsm/rules/rules.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kTakesPerPass = 100;  // records that are looked at, of those in memory,
constexpr size_t kLooksPerPass = 50;   // and of those from the disk
constexpr size_t kReadsPerPass = 250;  // records from the disk, besides as many as the turn brings
constexpr size_t kNotedMax = 1'000;    // for one trigger; with more it reads from the disk
constexpr size_t kNotedBytes = 16 << 20;  // for all

uint32_t DepthOf(const Event& event) { return event.about ? event.about->depth : 0; }

size_t SizeOf(const Event& event) {
  return sizeof(Event) + event.params.size() + event.note.size() + event.instance.size();
}

template <typename Value>
uint64_t BitOf(Value value) {
  return uint64_t{1} << static_cast<unsigned>(value);
}

// No values are all of them.
template <typename Value>
uint64_t BitsOf(const std::vector<Value>& values) {
  if (values.empty()) return ~uint64_t{0};
  uint64_t bits = 0;
  for (Value value : values) bits |= BitOf(value);
  return bits;
}

// Whether the source may want the record, by what the record itself tells.
bool MayWant(const TriggerState& state, const ItemSource& source, const Event& event) {
  const ChangeSource* change = source.change();
  // A change that is deeper is what became of a change at the limit, which was refused: if triggers
  // looked at it, they would refuse it, and look at that.
  if (event.about && event.about->dry_run) return false;
  if (!change || DepthOf(event) > kLaunchDepthMax || !Passes(*change, event)) return false;
  return change->from_oldest || event.seq > state.row.since;
}

// An instance of another partition, as its rows say. Home's feed has changes of such ones where
// they came to live there later, by dsrv migrate. False: there is none.
bool ReadMoved(const Event& event, const rows::Reader& there, Residents& residents, Resident* to) {
  auto instance = residents.ReadElsewhere(event.ns, event.instance);
  auto spec = instance ? rows::GetSpec(there, *instance) : instance.error();
  if (!spec) return false;
  to->instance = *std::move(instance);
  to->spec = std::make_shared<const Spec>(*std::move(spec));
  return true;
}

}  // namespace

Result<Ok> Listening::Recover() {
  auto followed = rows::GetFollowed(turn_.reader());
  if (!followed) return followed.error();
  followed_ = *followed;
  return Ok{};
}

void Listening::Begin(TriggerState& state) {
  if (state.reading != Reading::kNot || !state.source().Has(SourceKind::kChange)) return;
  if (state.row.following) state.row.position = std::max(state.row.position, followed_);
  state.reading = Reading::kBehind;
  behind_.push_back(&state);
}

void Listening::End(TriggerState& state) {
  if (state.reading == Reading::kAtHead) FallBehind(state);
  if (state.reading == Reading::kBehind) std::erase(behind_, &state);
  const bool read = std::exchange(state.reading, Reading::kNot) != Reading::kNot;
  if (read) Index();
}

uint64_t Listening::PositionOf(const TriggerState& state) const {
  if (state.reading != Reading::kAtHead) return state.row.position;
  if (state.queued == 0) return turn_.last_seq();
  return std::ranges::find(noted_, &state, &Noted::state)->event->seq - 1;
}

// The head ----------------------------------------------------------------------------------------

void Listening::Index() {
  index_.clear();
  uint64_t kinds = 0;
  at_head_ = 0;
  for (const auto& [name, state] : states_.all()) {
    if (state->reading != Reading::kAtHead) continue;
    ++at_head_;
    InNamespace& here = index_[state->ns];
    for (const ItemSource& source : state->source().on) {
      const ChangeSource* change = source.change();
      if (!change) continue;
      const Candidate candidate = {state.get(), &source, BitsOf(change->kinds),
                                   BitsOf(change->results)};
      kinds |= candidate.kinds;
      if (change->machines.empty()) here.of_any.push_back(candidate);
      for (const std::string& machine : change->machines) {
        here.by_machine[machine].push_back(candidate);
      }
    }
  }
  turn_.Listen(this, kinds);
}

void Listening::Appended(const Event& event) {
  auto here = index_.find(event.ns);
  if (here == index_.end()) return;
  EventPtr shared;
  Note(here->second.of_any, event, &shared);
  auto machine = here->second.by_machine.find(event.machine);
  if (machine != here->second.by_machine.end()) Note(machine->second, event, &shared);
}

void Listening::Note(const Candidates& candidates, const Event& event, EventPtr* shared) {
  const uint64_t kind = BitOf(event.kind);
  const uint64_t result =
      TellsResult(event.kind) ? BitOf(ResultTold(event)) : ~uint64_t{0};
  for (const Candidate& one : candidates) {
    if ((one.kinds & kind) == 0 || (one.results & result) == 0) continue;
    TriggerState& state = *one.state;
    if (state.reading != Reading::kAtHead || !MayWant(state, *one.source, event)) continue;
    if (state.noted == event.seq && state.queued > 0) {
      auto same = std::ranges::find(noted_.rbegin(), noted_.rend(), &state, &Noted::state);
      same->sources.push_back(one.source);
      continue;
    }
    if (state.queued == kNotedMax || noted_bytes_ > kNotedBytes) {
      FallBehind(state);
      state.row.position = std::min(state.row.position, event.seq - 1);
      continue;
    }
    if (!*shared) {
      *shared = std::make_shared<const Event>(event);
      noted_bytes_ += SizeOf(event);
    }
    noted_.push_back({*shared, &state, {one.source}});
    state.noted = event.seq;
    ++state.queued;
  }
}

// It reads from the disk what is not looked at yet. The index may still have it.
void Listening::FallBehind(TriggerState& state) {
  /*mutant pause-forgets-position*/ state.row.position = PositionOf(state); /*end*/
  state.row.following = false;
  states_.MarkDirty(state);
  state.reading = Reading::kBehind;
  behind_.push_back(&state);
  Forget(state);
}

void Listening::Forget(TriggerState& state) {
  if (state.queued > 0) {
    std::erase_if(noted_, [&state](const Noted& one) { return one.state == &state; });
  }
  state.queued = 0;
  if (noted_.empty()) noted_bytes_ = 0;
}

void Listening::TakeNoted() {
  --takes_left_;
  const Noted one = std::move(noted_.front());
  noted_.pop_front();
  TriggerState& state = *one.state;
  --state.queued;
  if (noted_.empty()) {
    noted_bytes_ = 0;
  } else if (noted_.front().event != one.event) {
    noted_bytes_ -= std::min(noted_bytes_, SizeOf(*one.event));
  }
  Look(state, *one.event, one.sources);
}

// Behind it ---------------------------------------------------------------------------------------

std::vector<Listening::EventPtr> Listening::Read(uint64_t first, size_t most) {
  std::vector<EventPtr> records;
  auto add = [&](Event event) {
    if (records.size() >= most) return false;
    records.push_back(std::make_shared<const Event>(std::move(event)));
    return true;
  };
  if (first + turn_.records() <= turn_.last_seq()) {
    turn_.Trust(rows::ScanFeed(turn_.reader(), first, add));
  }
  if (records.size() < most) {
    turn_.ReadRecords(records.empty() ? first : records.back()->seq + 1, add);
  }
  return records;
}

bool Listening::CatchUp() {
  if (behind_.empty()) return false;
  next_behind_ = (next_behind_ + 1) % behind_.size();
  TriggerState& state = *behind_[next_behind_];
  if (state.row.position + 1 < turn_.feed_start()) Overtaken(state);
  const uint64_t first = state.row.position + 1;
  const std::vector<EventPtr> records = Read(first, reads_left_);
  if (turn_.broken()) return false;
  reads_left_ -= std::min(reads_left_, std::max<size_t>(1, records.size()));
  std::vector<TriggerState*> readers;
  for (TriggerState* one : behind_) {
    if (one->row.position + 1 >= first) readers.push_back(one);
  }
  LookAt(records, readers);
  bool arrived = false;
  for (TriggerState* one : readers) {
    // A failure may have paused it.
    if (one->reading != Reading::kBehind) continue;
    if (/*mutant at-head-too-early*/ one->row.position != turn_.last_seq() /*end*/) continue;
    one->reading = Reading::kAtHead;
    one->row.following = true;
    states_.MarkDirty(*one);
    std::erase(behind_, one);
    arrived = true;
  }
  if (arrived) Index();
  return true;
}

// Retention has dropped records that it has not looked at.
void Listening::Overtaken(TriggerState& state) {
  const uint64_t before = turn_.feed_start() - 1;
  taker_.Miss(state, before - state.row.position);
  state.row.position = before;
  states_.MarkDirty(state);
}

// Stops after the record with which the pass has done its share.
void Listening::LookAt(const std::vector<EventPtr>& records,
                       const std::vector<TriggerState*>& readers) {
  for (const EventPtr& record : records) {
    if (looks_left_ == 0) return;
    for (TriggerState* state : readers) {
      if (state->reading != Reading::kBehind || state->row.position >= record->seq) continue;
      const auto sources = SourcesFor(*state, *record);
      if (!sources.empty()) {
        looks_left_ -= std::min<size_t>(looks_left_, 1);
        Look(*state, *record, sources);
      }
      state->row.position = record->seq;
      states_.MarkDirty(*state);
    }
  }
}

std::vector<const ItemSource*> Listening::SourcesFor(const TriggerState& state,
                                                     const Event& event) const {
  std::vector<const ItemSource*> sources;
  if (event.ns != state.ns) return sources;
  for (const ItemSource& one : state.source().on) {
    if (MayWant(state, one, event)) sources.push_back(&one);
  }
  return sources;
}

// Both --------------------------------------------------------------------------------------------

// Takes the record for each of the sources. With the first thing that comes of it the trigger's
// position is written.
void Listening::Look(TriggerState& state, const Event& event,
                     const std::vector<const ItemSource*>& sources) {
  Resident* resident = nullptr;
  Resident moved;
  rows::Reader rows = turn_.reader();
  if (!event.instance.empty()) {
    auto loaded = residents_.Load(event.ns, event.instance);
    if (loaded) resident = *loaded;
    const rows::Reader there = residents_.RowsOf(event.ns, event.instance);
    // What has OCCURRED names one that it is not a change of.
    const bool elsewhere = !resident && there.partition != rows.partition &&
                           event.kind != ChangeKind::kOccurred;
    if (elsewhere && ReadMoved(event, there, residents_, &moved)) {
      resident = &moved;
      rows.partition = there.partition;
    }
  }
  const auto spec = resident ? residents_.SpecOf(*resident)
                             : Result<std::shared_ptr<const Spec>>(std::make_shared<const Spec>());
  if (!spec) return;
  for (const ItemSource* source : sources) {
    const InstanceResult result = resident ? resident->instance.result : InstanceResult::kNone;
    if (!Passes(*source->change(), event, result, (*spec)->labels)) continue;
    if (item_seq_ != event.seq) {
      item_ = ChangeItem(event, turn_.partition(), resident, residents_, rows);
      item_seq_ = event.seq;
    }
    const auto took = taker_.TakeChange(state, {*source, item_, DepthOf(event) + 1, event.seq});
    if (took == ItemTaker::Took::kNothing) return;
    state.row.position = std::max(state.row.position, event.seq);
    states_.MarkDirty(state);
    if (took == ItemTaker::Took::kChanged) item_seq_ = 0;
  }
}

void Listening::BeginPass() {
  takes_left_ = kTakesPerPass;
  looks_left_ = kLooksPerPass;
  reads_left_ = kReadsPerPass;
  item_seq_ = 0;
}

bool Listening::Work() {
  if (noted_.empty() && behind_.empty()) return false;
  if (taker_.TakesNothing()) return false;
  if (takes_left_ > 0 && !noted_.empty()) {
    TakeNoted();
    return true;
  }
  if (looks_left_ > 0 && reads_left_ > 0 && !behind_.empty()) return CatchUp();
  turn_.WantMore();
  return false;
}

Timestamp Listening::Due() const {
  return noted_.empty() && behind_.empty() ? kNever : turn_.clock();
}

void Listening::Stage() {
  if (at_head_ == 0) return;
  const uint64_t up_to = /*mutant followed-too-far*/ noted_.empty()
                             ? turn_.last_seq()
                             : noted_.front().event->seq - 1 /*end*/;
  if (up_to <= followed_) return;
  followed_ = up_to;
  rows::PutFollowed(turn_.writer(), up_to);
}

}  // namespace dfsmr
