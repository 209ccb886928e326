#include "dsrv/engine/retention.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "storage/rows/feed.h"
#include "storage/rows/past.h"
#include "storage/rows/retention.h"

namespace dfsmr {
namespace {

// Besides as many as the turn brings: what retention drops keeps up with what comes in.
constexpr size_t kDropsPerPass = 50;
constexpr size_t kTrimsPerPass = 500;

}  // namespace

// Only what expired before this turn began is dropped: no row appears behind that any more, however
// short a machine's retention is.
void Retention::Work() {
  if (turn_.has_virtual_clock()) return WorkByVirtualClock();
  if (turn_.now() >= ExpiryDue()) DropExpired(turn_.began());
  if (turn_.now() >= trim_due_) TrimFeed();
}

// A look each second would make a year of 30 million turns. So the clock comes by each expiry.
void Retention::WorkByVirtualClock() {
  if (dropped_up_to_ < turn_.began()) {
    const bool all = DropExpired(turn_.began() + Duration(1));
    all ? void(dropped_up_to_ = turn_.began()) : turn_.WantMore();
  }
  if (NextExpiry() <= turn_.clock()) turn_.WantMore();
  if (turn_.clock() >= trim_due_) TrimFeed();
}

Timestamp Retention::NextExpiry() {
  Timestamp next = kNever;
  auto first = rows::ScanExpired(turn_.reader(), dropped_up_to_ + Duration(1), kNever, 1);
  if (turn_.Trust(first) && !first->empty()) next = first->front().at;
  for (const Resident* resident : residents_.dirty()) {
    if (resident->instance.Stopped()) next = std::min(next, residents_.ExpiryOf(*resident));
  }
  return next;
}

Timestamp Retention::ExpiryDue() const {
  return std::max(look_due_, std::min(next_, residents_.FirstExpiry()));
}

bool Retention::DropExpired(Timestamp until) {
  look_due_ = next_ = After(turn_.now(), std::chrono::seconds(1));
  const size_t most = kDropsPerPass + turn_.records() / 2;  // an instance has at least two
  auto expired = rows::ScanExpired(turn_.reader(), expired_up_to_, until, most);
  if (!turn_.Trust(expired)) return false;
  bool all = true;
  for (const rows::Expired& one : *expired) {
    all = Drop(one);
    if (!all) break;
    expired_up_to_ = one.at;
  }
  expired_pending_ = expired->size() == most;
  if (expired_pending_) {
    Hurry();
    turn_.WantMore();
  }
  if (expired->empty() && !turn_.has_virtual_clock()) {
    auto first = rows::ScanExpired(turn_.reader(), until, kNever, 1);
    if (!turn_.Trust(first)) return false;
    next_ = /*mutant expiry-not-looked-up*/ first->empty() ? kNever : first->front().at /*end*/;
    residents_.FromNow();
  }
  return all && !expired_pending_;
}

void Retention::DropNow(const std::string& ns, const std::string& id) {
  auto loaded = residents_.Load(ns, id);
  if (!loaded || !(*loaded)->instance.Stopped()) return;
  Drop({.ns = ns, .id = id, .at = residents_.ExpiryOf(**loaded), .machine = {}});
}

bool Retention::Drop(const rows::Expired& one) {
  const bool bare = one.version != 0 && one.first_seq >= turn_.feed_start();
  Resident* resident = residents_.InMemory({one.ns, one.id});
  VersionState* version =
      bare && !resident ? catalog_.VersionOf(one.ns, one.machine, one.version) : nullptr;
  const bool by_result = version && version->definition->package;
  if (!version || by_result) {
    auto loaded = residents_.Load(one.ns, one.id);
    if (!loaded) return true;
    resident = *loaded;
    if (!resident->instance.Stopped()) return true;
    version = resident->version;
  }
  if (resident && residents_.Dirty(*resident)) return false;
  if (bare) {
    rows::DropBare(turn_.writer(), one);
  } else {
    auto outcome = rows::DropInstance(turn_.reader(), turn_.writer(), resident->instance,
                                      turn_.feed_start(), one.at);
    turn_.Trust(outcome);
    groups_.NoteDropped(resident->instance);
  }
  const bool counted = !resident || !resident->instance.dry_run;
  const auto result = resident ? resident->instance.result : InstanceResult::kNone;
  if (counted) statistics_.NoteDropped(*version, result);
  if (options_.removed) options_.removed(one.ns, one.id);
  if (resident) residents_.Erase(*resident);
  return true;
}

// The feed is kept an eighth longer than stopped instances, so that most records have outlived
// their instance by then and need not be moved to where its history finds them; if those are
// dropped late, it waits for them.
void Retention::TrimFeed() {
  const Duration period =
      std::clamp<Duration>(options_.retention / 16, std::chrono::milliseconds(250),
                           expired_pending_ ? std::chrono::seconds(1) : std::chrono::minutes(1));
  trim_due_ = After(turn_.clock(), period);
  const Timestamp horizon = (expired_pending_ ? expired_up_to_ : turn_.clock()) -
                            options_.retention - options_.retention / 8;
  const size_t most = kTrimsPerPass + turn_.records();
  std::pair<std::string, std::string> last;  // records of one instance are often neighbours
  std::optional<uint64_t> last_first;
  const auto keep = [&](const Event& event) {
    // What names an instance is not of its history.
    if (event.kind == ChangeKind::kOccurred) return false;
    if (event.instance.empty()) return false;
    if (last.second != event.instance || last.first != event.ns) {
      last = {event.ns, event.instance};
      auto found = residents_.FirstSeqOf(event.ns, event.instance);
      last_first = found ? *found : std::nullopt;
    }
    // What is older is of an instance that had the same id.
    if (!last_first) return false;
    return /*mutant history-loses-first*/ event.seq >= *last_first /*end*/;
  };
  turn_.Trust(rows::TrimPast(turn_.reader(), turn_.writer(), turn_.feed_start(), horizon, most,
                             keep));
  auto first = rows::TrimFeed(turn_.reader(), turn_.writer(), turn_.feed_start(), horizon, most,
                              keep);
  if (!turn_.Trust(first)) return;
  if (*first - turn_.feed_start() >= most) {
    trim_due_ = turn_.clock();
    turn_.WantMore();
  }
  if (*first == turn_.feed_start()) return;
  turn_.TrimFeed(*first);
  if (turn_.feed_start() > statistics_.saved_seq() + 1)
    statistics_.Save();  // a restart could not count them any more
}

}  // namespace dfsmr
