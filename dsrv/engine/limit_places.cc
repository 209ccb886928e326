#include "dsrv/engine/limit_places.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr uint64_t kWantedAtOnce = 16;
constexpr Duration kKept = std::chrono::milliseconds(100);  // a place that nobody takes
constexpr Duration kPauseLeast = std::chrono::milliseconds(200);
constexpr Duration kPauseMost = std::chrono::seconds(5);
constexpr Duration kHomesTurn = std::chrono::milliseconds(20);

}  // namespace

void LimitPlaces::Restore(const rows::CountedRow& row) {
  const std::string full = ResidentKey(row.ns, row.key);
  const Share share{row.counts, row.wanted, row.places, row.held, {}};
  if (!turn_.at_home()) {
    Here& here = here_[full];
    static_cast<Share&>(here) = share;
    here.fresh = share.places;  // those that are in hand are found in the end
    return;
  }
  Key& key = keys_[full];
  key.shares[row.partition] = share;
  key.wanted += share.wanted;
  if (key.wanted > 0) wanting_.insert(full);
  counts_.CountGuest(row.ns, row.key, static_cast<int64_t>(share.places) + share.held);
}

void LimitPlaces::Loaded() {
  for (const auto& [full, here] : here_) {
    if (here.counts) Open(full, here);
  }
}

void LimitPlaces::Put(const std::string& full, PartitionId partition, const Share& share) {
  const auto [ns, key] = SplitKey(full);
  rows::PutCounted(turn_.writer(), {.ns = ns,
                                    .key = key,
                                    .partition = partition,
                                    .counts = share.counts,
                                    .held = share.held,
                                    .wanted = share.wanted,
                                    .places = share.places});
}

uint64_t LimitPlaces::ReadyOf(const std::string& full) const {
  const auto [ns, key] = SplitKey(full);
  return agenda_.ReadyIn(ns, SubjectOf(BuiltInOf(key)), NameIn(key));
}

std::vector<Agenda::Turn> LimitPlaces::FirstOf(const std::string& full, size_t most) const {
  const auto [ns, key] = SplitKey(full);
  return agenda_.FirstIn(ns, SubjectOf(BuiltInOf(key)), NameIn(key), most);
}

void LimitPlaces::Forget(const std::string& ns) {
  const std::string prefix = ResidentKey(ns, "");
  const auto of_it = [&](const auto& one) { return one.first.starts_with(prefix); };
  for (auto& [full, key] : keys_) {
    if (!full.starts_with(prefix)) continue;
    for (const auto& [id, share] : key.shares) {
      const int64_t held = static_cast<int64_t>(share.places) + share.held;
      if (held != 0) counts_.CountGuest(ns, SplitKey(full).second, -held);
    }
    wanting_.erase(full);
  }
  for (auto& [full, here] : here_) {
    if (!full.starts_with(prefix)) continue;
    here.counts = false;
    TellOf(full, here);
    numbers_.Track(ns, SplitKey(full).second, false);
  }
  std::erase_if(keys_, of_it);
  std::erase_if(here_, of_it);
}

void LimitPlaces::Took(const std::string& full) {
  if (const auto key = keys_.find(full); key != keys_.end()) {
    key->second.own = false;
    key->second.own_again = {};
  }
  const auto here = here_.find(full);
  if (here == here_.end()) return;
  if (here->second.fresh > 0) --here->second.fresh;
  here->second.pause = {};
}

// At home ---------------------------------------------------------------------------------------

bool LimitPlaces::HomeMay(const std::string& full) const {
  const auto key = keys_.find(full);
  return key == keys_.end() || key->second.wanted == 0 || key->second.own;
}

void LimitPlaces::Want(Key& key, Share& share, int64_t by) {
  const auto now = std::max<int64_t>(static_cast<int64_t>(share.wanted) + by, 0);
  key.wanted = key.wanted - share.wanted + static_cast<uint64_t>(now);
  share.wanted = static_cast<uint64_t>(now);
}

void LimitPlaces::TakeWanted(PartitionId from, const rows::Message::Wanted& wanted) {
  const std::string full = ResidentKey(wanted.ns, wanted.key);
  if (wanted.by <= 0 && !keys_.contains(full)) return;  // its namespace is gone
  Key& key = keys_[full];
  Share& share = key.shares[from];
  Want(key, share, wanted.by);
  share.first = wanted.first;
  const uint64_t back = std::min(share.places, wanted.back);
  share.places -= back;
  Put(full, from, share);
  if (key.wanted > 0) wanting_.insert(full);
  if (back > 0) {
    /*mutant message-limit-place-not-back*/ counts_.CountGuest(
        wanted.ns, wanted.key, -static_cast<int64_t>(back)); /*end*/
  }
  counts_.Judge(full);
}

void LimitPlaces::TakeHeld(PartitionId from, const rows::Message::Held& held) {
  const std::string full = ResidentKey(held.ns, held.key);
  if (held.by < 0 && !keys_.contains(full)) return;
  Share& share = keys_[full].shares[from];
  share.held += held.by;
  Put(full, from, share);
  counts_.CountGuest(held.ns, held.key, held.by);
}

bool LimitPlaces::Give() {
  bool any = false;
  due_ = kNever;
  for (auto it = wanting_.begin(); it != wanting_.end();) {
    const std::string& full = *it;
    Key& key = keys_[full];
    const bool counts = numbers_.tracked().contains(full);
    if (counts) any = GiveOf(full, key) || any;
    if (counts && key.wanted > 0) {
      const auto [ns, name] = SplitKey(full);
      const bool room = table_.HasRoom(ns, name, "", turn_.clock());
      if (room && key.own) due_ = std::min(due_, key.own_until);
      if (!room && table_.HasPlace(ns, name, "")) {
        due_ = std::min(due_, table_.NextToken(ns, name));
      }
      ++it;
      continue;
    }
    for (auto& [id, share] : key.shares) {  // none need be asked for any more
      if (share.wanted == 0) continue;
      Want(key, share, -static_cast<int64_t>(share.wanted));
      Put(full, id, share);
    }
    counts_.Judge(full);
    it = wanting_.erase(it);
  }
  return any;
}

// Of one that has told nothing since home was opened it is not known since when its task is ready:
// it comes before its equals.
PartitionId LimitPlaces::NextOf(const std::string& full, const Key& key) const {
  PartitionId next = options_.partition;
  std::optional<Agenda::Turn> best;
  if (turn_.real() >= key.own_again) {
    const auto own = FirstOf(full, 1);
    if (!own.empty()) best = own.front();
  }
  for (const auto& [id, share] : key.shares) {
    if (share.wanted == 0) continue;
    const Agenda::Turn first = share.first.empty() ? Agenda::Turn() : share.first.front();
    if (best && !/*mutant message-limit-place-in-turn*/ first.Before(*best) /*end*/) continue;
    best = first;
    next = id;
  }
  return next;
}

// False: none has been given.
bool LimitPlaces::GiveOf(const std::string& full, Key& key) {
  const auto [ns, name] = SplitKey(full);
  std::map<PartitionId, uint64_t> given;
  while (key.wanted > 0 && table_.HasRoom(ns, name, "", turn_.clock())) {
    if (key.own && turn_.real() < key.own_until && ReadyOf(full) > 0) break;
    if (std::exchange(key.own, false)) key.own_again = turn_.real() + kPauseLeast;
    const PartitionId next = NextOf(full, key);
    if (next == options_.partition) {
      key.own = true;
      key.own_until = turn_.real() + kHomesTurn;
      break;
    }
    Share& share = key.shares[next];
    if (!share.first.empty()) share.first.erase(share.first.begin());
    Want(key, share, -1);
    ++share.places;
    ++given[next];
    counts_.CountGuest(ns, name, +1);
    numbers_.Spent(ns, name);
  }
  for (const auto& [id, more] : given) {
    Put(full, id, key.shares[id]);
    /*mutant message-limit-place-lost*/ messages_.Send(
        id, {rows::Message::Places{ns, name, more}}); /*end*/
  }
  counts_.Judge(full);
  return !given.empty();
}

// Elsewhere -------------------------------------------------------------------------------------

void LimitPlaces::TakeKey(const std::string& full, bool counts) {
  if (!counts && !here_.contains(full)) return;
  Here& here = here_[full];
  here.counts = counts;
  const auto [ns, key] = SplitKey(full);
  numbers_.Track(ns, key, counts);
  counts_.Sync();
  if (counts) Open(full, here);
  Put(full, options_.partition, here);
}

void LimitPlaces::TakePlaces(const rows::Message::Places& places) {
  const std::string full = ResidentKey(places.ns, places.key);
  const auto found = here_.find(full);
  if (found == here_.end()) {  // it has no number any more
    return messages_.Send(
        kHome, {rows::Message::Wanted{places.ns, places.key, 0, places.more, {}}});
  }
  Here& here = found->second;
  here.places += places.more;
  here.fresh += places.more;
  here.wanted -= std::min(here.wanted, places.more);
  here.until = turn_.real() + kKept;
  Put(full, options_.partition, here);
  if (here.counts) Open(full, here);
}

// As many may be in hand here as there are places.
void LimitPlaces::Open(const std::string& full, const Here& here) {
  const auto [ns, key] = SplitKey(full);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(here.places, UINT32_MAX));
  table_.SetNumbers(ns, key, {.max = most, .rate = {}}, turn_.clock());
  counts_.Judge(full);
}

void LimitPlaces::TellHome() {
  due_ = kNever;
  for (auto it = here_.begin(); it != here_.end();) {
    Here& here = it->second;
    TellOf(it->first, here);
    if (here.fresh > 0) due_ = std::min(due_, here.until);
    if (here.again > turn_.real() && ReadyOf(it->first) > 0) due_ = std::min(due_, here.again);
    const bool over = !here.counts && here.places == 0 && here.held == 0 && here.wanted == 0;
    it = over ? here_.erase(it) : std::next(it);
  }
}

void LimitPlaces::TellOf(const std::string& full, Here& here) {
  const auto [ns, key] = SplitKey(full);
  const Share before = here;
  const uint64_t claimed = here.counts ? counts_.Counted(full) : 0;
  uint64_t free = here.places > claimed ? here.places - claimed : 0;
  here.fresh = here.counts ? std::min(here.fresh, free) : 0;
  if (here.fresh > 0 && here.until == Timestamp()) here.until = turn_.real() + kKept;
  if (here.fresh > 0 && here.until <= turn_.real()) {  // nobody takes what is ready here
    here.fresh = 0;
    here.pause = std::clamp(2 * here.pause, kPauseLeast, kPauseMost);
    here.again = turn_.real() + here.pause;
  }
  const uint64_t back = free - here.fresh;
  here.places -= back;
  here.held = claimed > here.places ? static_cast<int64_t>(claimed - here.places) : 0;
  here.wanted = 0;
  if (here.counts && here.again <= turn_.real()) {
    const uint64_t most = std::min(ReadyOf(full), kWantedAtOnce);
    here.wanted = most > here.fresh ? most - here.fresh : 0;
  }
  const auto by = static_cast<int64_t>(here.wanted - before.wanted);
  const int64_t held = here.held - before.held;
  here.first.clear();
  if (here.wanted > 0) here.first = FirstOf(full, here.fresh + here.wanted);
  const size_t served = std::min<size_t>(here.fresh, here.first.size());  // have a place
  here.first.erase(here.first.begin(), here.first.begin() + static_cast<std::ptrdiff_t>(served));
  const bool same = here.first == before.first;
  if (by == 0 && back == 0 && held == 0 && same) return;
  if (held != 0) messages_.Send(kHome, {rows::Message::Held{ns, key, held}});
  if (by != 0 || back > 0 || !same) {
    /*mutant message-limit-place-kept*/ messages_.Send(
        kHome, {rows::Message::Wanted{ns, key, by, back, here.first}}); /*end*/
  }
  if (here.counts) Open(full, here);
  Put(full, options_.partition, here);
}

}  // namespace dfsmr
