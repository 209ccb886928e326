#include "dsrv/engine/brakes.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr Duration kTellEvery = std::chrono::milliseconds(500);
constexpr Duration kHearingTakes = std::chrono::seconds(1);  // what the others hand out
// Of so many retries, and of such a share of what is handed out, home asks the others.
constexpr uint32_t kRetriesLeast = 5;
constexpr uint32_t kShareLeast = 4;

bool HoldsBack(const MachineState& machine) {
  return std::ranges::any_of(machine.held_back, [](const auto& one) {
    return !one.second.waiting.empty() || !one.second.released.empty();
  });
}

}  // namespace

void Brakes::HandedOut(MachineState& machine, bool retry) {
  if (!Shared()) return;
  if (retry || here_.contains(&machine) || asked_.contains(&machine)) stirred_.insert(&machine);
}

void Brakes::HeldBack(MachineState& machine) {
  if (!Shared()) return;
  stirred_.insert(&machine);
  const auto known = here_.find(&machine);
  const bool news = turn_.at_home() || known == here_.end() || !known->second.waits;
  urgent_ = urgent_ || news;
}

void Brakes::Forget(MachineState& machine) {
  stirred_.erase(&machine);
  asked_.erase(&machine);
  here_.erase(&machine);
}

Timestamp Brakes::Due() const {
  if (stirred_.empty() && asked_.empty() && here_.empty()) return kNever;
  return urgent_ ? Timestamp() : next_;
}

std::vector<MachineState*> Brakes::Tell() {
  urgent_ = false;
  next_ = turn_.real() + kTellEvery;
  for (const auto& [machine, asked] : asked_) stirred_.insert(machine);
  for (const auto& [machine, here] : here_) stirred_.insert(machine);
  std::vector<MachineState*> changed;
  for (MachineState* machine : std::exchange(stirred_, {})) {
    if (!turn_.at_home()) {
      TellHome(*machine);
      continue;
    }
    Asked& asked = asked_[machine];
    if (TellOthers(*machine, asked)) changed.push_back(machine);
    const bool well = machine->breaker.state() == Breaker::State::kClosed && !asked.counts;
    if (well) asked_.erase(machine);
  }
  return changed;
}

// At home ---------------------------------------------------------------------------------------

void Brakes::Take(PartitionId from, MachineState& machine, const rows::Message::Braked& braked) {
  Asked& asked = asked_[&machine];
  asked.waits[from] = braked.waits;
  asked.told[from].stand.state = braked.believes;  // what else it knows it may have forgotten
  /*mutant message-claims-not-counted*/ machine.breaker.Count(braked.spent, turn_.now()); /*end*/
  stirred_.insert(&machine);
  urgent_ = urgent_ || machine.breaker.state() != Breaker::State::kClosed;
}

bool Brakes::Asks(MachineState& machine, Asked& asked) {
  const auto [claims, retries] = machine.breaker.Minute(turn_.now());
  const bool counts = machine.breaker.state() != Breaker::State::kClosed ||
                      (retries >= kRetriesLeast && retries * kShareLeast >= claims);
  if (counts && !asked.counts) asked.since = turn_.real();
  asked.counts = counts;
  const bool heard = counts && turn_.real() >= asked.since + kHearingTakes;
  machine.breaker.LetOpen(/*mutant message-breaker-unheard*/ heard /*end*/);
  return heard;
}

// True: its breaker may have to be judged, or home's turns have changed.
bool Brakes::TellOthers(MachineState& machine, Asked& asked) {
  const bool heard = Asks(machine, asked);
  const Breaker::Told stand = machine.breaker.Stand();
  std::vector<PartitionId> waiting;
  if (HoldsBack(machine)) waiting.push_back(options_.partition);
  for (const auto& [id, waits] : asked.waits) {
    if (waits) waiting.push_back(id);
  }
  for (PartitionId id = 0; id < options_.partitions; ++id) {
    Brake brake{machine.ns, machine.id, {.state = stand.state}, asked.counts};
    const auto place = std::ranges::find(waiting, id);
    if (stand.state != Breaker::State::kClosed && place != waiting.end()) {
      brake.stand = stand;
      brake.stand.place = static_cast<uint32_t>(place - waiting.begin());
      brake.stand.of = static_cast<uint32_t>(waiting.size());
    }
    if (id == options_.partition) {
      machine.breaker.Share(brake.stand.place, std::max<uint32_t>(brake.stand.of, 1));
      continue;
    }
    Brake& told = asked.told[id];
    if (told.stand == brake.stand && told.counts == brake.counts) continue;
    told = brake;
    /*mutant message-breaker-not-told*/ messages_.Send(id, {std::move(brake)}); /*end*/
  }
  return heard;
}

// Elsewhere -------------------------------------------------------------------------------------

void Brakes::TellHome(MachineState& machine) {
  const auto known = here_.find(&machine);
  const Here here = known == here_.end() ? Here() : known->second;
  const Breaker& breaker = machine.breaker;
  const bool waits = HoldsBack(machine);
  const bool matters = here.counts || breaker.state() != Breaker::State::kClosed ||
                       machine.breaker.Minute(turn_.now()).retries > 0;
  const bool news = waits != here.waits || (matters && breaker.HasSpent());
  if (news) {
    /*mutant message-claims-not-told*/ messages_.Send(
        kHome, {rows::Message::Braked{machine.ns, machine.id, waits, breaker.state(),
                                      machine.breaker.TakeSpent()}}); /*end*/
  }
  const bool as_ever = !here.counts && !waits && breaker.state() == Breaker::State::kClosed;
  if (!as_ever) {
    here_[&machine] = {here.counts, waits};
  } else if (known != here_.end()) {
    here_.erase(known);
  }
}

void Brakes::Take(MachineState& machine, const rows::Message::Brake& brake) {
  here_[&machine].counts = brake.counts;
  machine.breaker.Follow(brake.stand);
  stirred_.insert(&machine);
  urgent_ = true;
}

}  // namespace dfsmr
