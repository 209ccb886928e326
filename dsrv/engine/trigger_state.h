// A trigger in memory: its document, its row, and what it collects.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/turn.h"
#include "fsm/when/document.h"
#include "fsm/when/trigger.h"
#include "storage/rows/document.h"
#include "storage/rows/trigger.h"

namespace dfsmr {

// How a trigger reads the feed.
enum class Reading : uint8_t {
  kNot,     // it listens to no changes, or is paused
  kBehind,  // from the disk
  kAtHead,  // it hears of records as they are added
};

struct TriggerState {
  std::string ns;
  std::string name;
  uint64_t serial = 0;  // by which triggers are ordered where their names do not matter
  uint32_t version = 0;
  std::shared_ptr<const Document> document;
  rows::TriggerRow row;
  bool frozen = false;  // with its namespace: it does as when paused
  bool dirty = false;  // the row is to be written with this turn
  Reading reading = Reading::kNot;
  uint64_t noted = 0;  // the last record that it was told of and has not looked at yet
  size_t queued = 0;   // how many there are of those
  std::map<std::string, rows::GatheringRow, std::less<>> gatherings;  // open, by their text

  bool Paused() const { return row.paused || frozen; }
  const TriggerSource& source() const {
    return *std::get<std::shared_ptr<const TriggerSource>>(document->body);
  }
  rows::TriggerName trigger() const { return {ns, name}; }
  rows::DocumentName of() const { return {ns, DocumentKind::kTrigger, name}; }
};

// All triggers that stand, by name. Writes the rows of those that have changed.
class TriggerStates {
 public:
  using Name = std::pair<std::string, std::string>;  // namespace and name

  explicit TriggerStates(OpenTurn& turn) : turn_(turn) {}

  TriggerState& Add(std::unique_ptr<TriggerState> state) {
    state->serial = ++serial_;
    auto& place = all_[{state->ns, state->name}];
    place = std::move(state);
    return *place;
  }
  TriggerState* Find(const std::string& ns, const std::string& name) {
    auto found = all_.find({ns, name});
    return found == all_.end() ? nullptr : found->second.get();
  }
  // Its row is put at once.
  void Remove(TriggerState& state) {
    rows::PutTrigger(turn_.writer(), state.trigger(), state.row);
    std::erase(dirty_, &state);
    all_.erase({state.ns, state.name});
  }
  const std::map<Name, std::unique_ptr<TriggerState>>& all() const { return all_; }

  void MarkDirty(TriggerState& state) {
    if (!std::exchange(state.dirty, true)) dirty_.push_back(&state);
  }
  void Write() {
    for (TriggerState* state : dirty_) {
      rows::PutTrigger(turn_.writer(), state->trigger(), state->row);
      state->dirty = false;
    }
    dirty_.clear();
  }

 private:
  OpenTurn& turn_;
  std::map<Name, std::unique_ptr<TriggerState>> all_;
  std::vector<TriggerState*> dirty_;
  uint64_t serial_ = 0;
};

}  // namespace dfsmr
