// Triggers over several partitions. Each reads its own feed for all triggers that listen to
// changes, and tells home what a change brings; home takes it, unless the trigger is paused: then
// the other reads on from there when it is not paused any more.
#include <algorithm>
#include <set>
#include <utility>

#include "dsrv/engine/adoption.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/triggers.h"

namespace dfsmr {

// Elsewhere ---------------------------------------------------------------------------------------

void Triggers::Adopt(const std::string& ns, const std::vector<AdoptedTrigger>& triggers) {
  std::set<TriggerStates::Name> there;
  for (const AdoptedTrigger& one : triggers) {
    if (AdoptOne(one)) there.emplace(one.ns, one.name);
  }
  std::set<TriggerStates::Name> gone;
  const auto note = [&](const std::string& of, const std::string& name) {
    if ((ns.empty() || of == ns) && !there.contains({of, name})) gone.emplace(of, name);
  };
  for (const auto& [name, state] : states_.all()) note(name.first, name.second);
  if (ns.empty()) {
    turn_.Trust(rows::ScanTriggers(
        turn_.reader(), [&](rows::TriggerName name, const rows::TriggerRow&) {
          note(std::string(name.ns), std::string(name.name));
        }));
  }
  for (const auto& [of, name] : gone) {
    if (TriggerState* const state = states_.Find(of, name)) {
      End(*state);
      states_.Remove(*state);
    }
    rows::DropTrigger(turn_.writer(), {of, name});
  }
}

// False: it is gone by now, as another adoption will say.
bool Triggers::AdoptOne(const AdoptedTrigger& one) {
  if (!spaces_.MayUse(one.ns)) return false;  // it is being deleted
  TriggerState* state = states_.Find(one.ns, one.name);
  const bool same = state && state->version == one.version &&
                    state->row.begins == one.row.begins && state->row.changes >= one.row.changes;
  if (same) return true;
  auto version =
      documents_.FindAtHome({one.ns, DocumentKind::kTrigger, one.name}, one.version);
  if (!version) return false;
  bool known = state != nullptr;
  if (!state) {
    auto row = rows::GetTrigger(turn_.reader(), {one.ns, one.name});
    if (!turn_.Trust(row)) return false;
    known = row->has_value();
    auto added = std::make_unique<TriggerState>();
    added->ns = one.ns;
    added->name = one.name;
    added->row = (*row).value_or(rows::TriggerRow{});
    state = &states_.Add(std::move(added));
  } else {
    End(*state);
  }
  state->version = one.version;
  state->document = version->document;
  if (!known || state->row.begins != one.row.begins) BeginAnew(one, *state, known);
  // What home has said meanwhile counts.
  if (one.row.changes >= state->row.changes) {
    state->row.changes = one.row.changes;
    state->row.paused = one.row.paused;
  }
  states_.MarkDirty(*state);
  Begin(*state);
  return true;
}

void Triggers::BeginAnew(const AdoptedTrigger& one, TriggerState& state, bool known) {
  if (!known) state.row = FirstRow(one.ns, *state.document);
  if (known) state.row.since = state.row.position = turn_.last_seq();
  state.row.following = false;
  state.row.begins = one.row.begins;
  state.row.changes = 0;
  state.row.round = 0;
}

void Triggers::ReadAgain(const rows::Message::Reread& reread) {
  TriggerState* const state = states_.Find(reread.ns, reread.trigger);
  if (!state || state->row.begins != reread.begins || reread.round <= state->row.round) return;
  End(*state);
  state->row.round = reread.round;
  state->row.following = false;
  state->row.position = std::min(state->row.position, reread.seq - 1);
  if (reread.changes > state->row.changes) {
    state->row.changes = reread.changes;
    state->row.paused = reread.paused;
  }
  states_.MarkDirty(*state);
  Begin(*state);
}

// At home -----------------------------------------------------------------------------------------

bool Triggers::TakeItem(PartitionId from, const rows::Message::Item& item) {
  TriggerState* const state = states_.Find(item.ns, item.trigger);
  if (!state || state->row.begins != item.begins) return true;
  // What came behind one that was not taken comes again.
  const auto known = state->row.rounds.find(from);
  const uint64_t round = known == state->row.rounds.end() ? 0 : known->second;
  if (/*mutant message-item-taken-twice*/ item.round != round /*end*/) return true;
  if (item.missed > 0) {
    intake_.Miss(*state, item.missed);
    return true;
  }
  if (/*mutant message-item-taken-in-pause*/ state->Paused() /*end*/) {
    state->row.rounds[from] = round + 1;
    states_.MarkDirty(*state);
    messages_.Send(from, {rows::Message::Reread{item.ns, item.trigger, item.begins, round + 1,
                                                item.seq, state->row.changes,
                                                state->row.paused}});
    return true;
  }
  const ItemSource* const source = state->source().SourceNamed(item.source);
  if (!source || !source->change()) return true;  // it is defined anew
  return intake_.TakeChange(*state, {*source, item.json, item.depth, item.seq}) !=
         ItemTaker::Took::kNothing;
}

}  // namespace dfsmr
