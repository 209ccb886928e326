#include "tests/sim/limits_audit.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace dfsmr {
namespace {

using One = LimitsAudit::One;

bool IsTasks(const std::string& key) { return key.starts_with("queue:"); }
bool IsBuiltIn(const std::string& key) { return key.find(':') != std::string::npos; }

std::optional<uint64_t> MostWaiting(const LimitAsk& ask) {
  if (ask.waiting) return *ask.waiting;
  if (ask.on_conflict == OnConflict::kLatest) return 1;
  return std::nullopt;
}

}  // namespace

// Numbers ---------------------------------------------------------------------------------------

LimitNumbers LimitsAudit::NumbersOf(const std::string& key) const {
  LimitNumbers numbers;
  const auto take = [&numbers](const LimitNumbers& from) {
    if (from.max) numbers.max = from.max;
    if (from.rate) numbers.rate = from.rate;
  };
  const auto asker = askers_.find(key);
  if (asker != askers_.end()) take(asker->second);
  for (const auto& [name, document] : documents) {
    const bool below = !IsBuiltIn(document.root) && key.starts_with(document.root + "/");
    if (key != document.root && !below) continue;
    take(document.numbers);
    const auto own = document.keys.find(key);
    if (own != document.keys.end()) take(own->second);
  }
  const auto set = overrides.find(key);
  if (set == overrides.end()) return numbers;
  take(set->second.numbers);
  if (set->second.no_max) numbers.max.reset();
  if (set->second.no_rate) numbers.rate.reset();
  return numbers;
}

// A built-in key has a number by itself.
bool LimitsAudit::Limited(const std::string& key) const {
  const auto set = overrides.find(key);
  LimitNumbers numbers;
  for (const auto& [name, document] : documents) {
    if (document.root == key) numbers = document.numbers;
  }
  if (set != overrides.end()) {
    const Override& one = set->second;
    if (one.numbers.max || one.no_max) numbers.max = one.numbers.max;
    if (one.numbers.rate || one.no_rate) numbers.rate = one.numbers.rate;
  }
  return numbers.max || numbers.rate;
}

// Who holds what --------------------------------------------------------------------------------

// Of built-in keys: whoever runs.
bool LimitsAudit::Counts(const One& one, const std::string& key) {
  if (!one.Runs()) return false;
  if (key == "namespace:ns" || key == "machine:" + one.machine) return true;
  if (!one.group.empty() && key == "group:" + one.group) return true;
  return !one.cause.empty() && key == one.cause;
}

bool LimitsAudit::HoldsKey(const One& one, const std::string& key) {
  if (!one.Runs()) return false;
  const bool by_task = one.task == Task::kCalled || one.task == Task::kClaimed;
  return (one.holds && one.keys.contains(key)) || (by_task && one.task_keys.contains(key));
}

std::set<std::string> LimitsAudit::HoldersOf(const std::string& key) const {
  std::set<std::string> holders;
  for (const auto& [id, one] : ones_) {
    const bool holds =
        IsTasks(key)     ? one.task == Task::kClaimed && !one.stopped && key == "queue:" + one.queue
        : IsBuiltIn(key) ? Counts(one, key)
                         : HoldsKey(one, key);
    if (holds) holders.insert(id);
  }
  return holders;
}

uint64_t LimitsAudit::InLineFor(const std::string& key) const {
  uint64_t waiting = 0;
  for (const auto& [id, one] : ones_) {
    if (one.InLine() && one.keys.contains(key)) ++waiting;
    if (one.Runs() && one.task == Task::kWaits && one.task_keys.contains(key)) ++waiting;
  }
  return waiting;
}

bool LimitsAudit::HasPlace(const std::string& key) const {
  const auto max = NumbersOf(key).max;
  return !max || HoldersOf(key).size() < *max;
}

bool LimitsAudit::RateLets(const std::string& key) const {
  const auto rate = NumbersOf(key).rate;
  const Timestamp full = FullAt(key);
  return !rate || full == Timestamp() || full - rate->Spacing() * (rate->burst - 1) <= now_;
}

bool LimitsAudit::HasRoom(const One& one, const std::string& key) const {
  return HoldsKey(one, key) || (HasPlace(key) && RateLets(key));
}

// Whether it lacks a place, be it because others wait for it.
bool LimitsAudit::Lacks(const One& one, const LimitAsk& ask) const {
  if (HoldsKey(one, ask.key)) return false;
  if (!HasPlace(ask.key)) return true;
  const auto max = NumbersOf(ask.key).max;
  return ask.on_conflict != OnConflict::kWait && max &&
         HoldersOf(ask.key).size() + InLineFor(ask.key) >= *max;
}

bool LimitsAudit::HasRoom(const One& one, const LimitAsk& ask, bool in_line) const {
  if (in_line) return HasRoom(one, ask.key);
  return HoldsKey(one, ask.key) || (!Lacks(one, ask) && RateLets(ask.key));
}

// Rates -----------------------------------------------------------------------------------------

Timestamp LimitsAudit::FullAtWithout(const std::string& key, Timestamp since) const {
  const auto bucket = buckets_.find(key);
  if (bucket == buckets_.end()) return {};
  Timestamp full = bucket->second.before;
  for (const auto& [at, spacing] : bucket->second.begun) {
    if (at < since) full = std::max(full, at) + spacing;
  }
  return full;
}

Timestamp LimitsAudit::FullAt(const std::string& key) const {
  return FullAtWithout(key, Timestamp::max());
}

void LimitsAudit::SetFullAt(const std::string& key, Timestamp at) { buckets_[key] = {at, {}}; }

std::set<std::string> LimitsAudit::RateKeys() const {
  std::set<std::string> keys;
  for (const auto& [key, bucket] : buckets_) keys.insert(key);
  return keys;
}

void LimitsAudit::Spend(const std::string& key) {
  const auto rate = NumbersOf(key).rate;
  if (rate) buckets_[key].begun.emplace_back(now_, rate->Spacing());
}

bool LimitsAudit::AtTheEdge(Timestamp now, Duration edge) const {
  return std::ranges::any_of(buckets_, [&](const auto& one) {
    const auto rate = NumbersOf(one.first).rate;
    if (!rate) return false;
    for (uint32_t tokens = 0; tokens < rate->burst; ++tokens) {
      const Timestamp at = FullAt(one.first) - rate->Spacing() * tokens;
      if (at > now - edge && at < now + edge) return true;
    }
    return false;
  });
}

// What it asks for ------------------------------------------------------------------------------

LimitAsks LimitsAudit::AsksOf(const One& one) const {
  LimitAsks asks = one.asks;
  const auto add = [&](const std::string& key) {
    const bool there = std::ranges::find(asks, key, &LimitAsk::key) != asks.end();
    if (Limited(key) && !there) asks.push_back({.key = key, .numbers = {}});
  };
  add("machine:" + one.machine);
  add("namespace:ns");
  if (!one.group.empty()) add("group:" + one.group);
  if (!one.cause.empty()) add(one.cause);
  for (LimitAsk& ask : asks) {
    if (!one.word) break;
    ask.on_conflict = *one.word;
    ask.singleton = false;
  }
  for (const LimitAsk& ask : one.given) {
    std::erase_if(asks, [&](const LimitAsk& same) { return same.key == ask.key; });
    asks.push_back(ask);
  }
  return asks;
}

// One that goes on asks for what its task held, too.
LimitAsks LimitsAudit::AsksToGoOn(const One& one) const {
  LimitAsks asks = AsksOf(one);
  if (one.task != Task::kClaimed) return asks;
  for (const std::string& key : one.task_keys) {
    if (std::ranges::find(asks, key, &LimitAsk::key) != asks.end()) continue;
    const auto asked = std::ranges::find(one.node, key, &LimitAsk::key);
    asks.push_back({.key = key, .numbers = asked->numbers});
  }
  return asks;
}

LimitsAudit::Verdict LimitsAudit::Judge(const One& one, const LimitAsks& asks, bool in_line) {
  Verdict verdict;
  for (const LimitAsk& ask : asks) {
    verdict.keys.insert(ask.key);
    if (ask.numbers != LimitNumbers()) askers_[ask.key] = ask.numbers;
  }
  if (one.force && !one.begun) return verdict;
  for (const LimitAsk& ask : asks) {
    if (HasRoom(one, ask, in_line)) continue;
    Kind kind = Kind::kWaits;
    const auto most = MostWaiting(ask);
    const bool crowded = most && InLineFor(ask.key) >= *most &&
                         (*most == 0 || ask.on_conflict == OnConflict::kWait);
    if (ask.on_conflict == OnConflict::kSkip || crowded) kind = Kind::kLeftOut;
    if (ask.on_conflict == OnConflict::kFail) kind = Kind::kFails;
    if (in_line) kind = Kind::kWaits;
    if (kind > verdict.kind) verdict.singleton = ask.singleton;
    verdict.kind = std::max(verdict.kind, kind);
  }
  for (const LimitAsk& ask : asks) {
    if (in_line || verdict.kind != Kind::kWaits || !Lacks(one, ask)) continue;
    if (ask.on_conflict != OnConflict::kWait) AddVictims(one, ask, &verdict);
  }
  return verdict;
}

// When it began to hold a key, or to wait for it.
uint64_t LimitsAudit::SinceOf(const One& one, const std::string& key) const {
  if ((one.holds || one.waits) && one.keys.contains(key)) return one.since;
  return one.task_keys.contains(key) ? one.task_since : one.begun_at;
}

// `latest`: of those that wait as many stay as may wait. `cancel`, `replace`: of all that hold or
// wait the newest stay, as many as there are places. It is the newest itself.
void LimitsAudit::AddVictims(const One& one, const LimitAsk& ask, Verdict* verdict) {
  const bool latest = ask.on_conflict == OnConflict::kLatest;
  const uint64_t stay = latest ? *MostWaiting(ask) : NumbersOf(ask.key).max.value_or(0);
  if (stay == 0) return;
  std::vector<std::pair<uint64_t, std::string>> all;
  for (const auto& [id, other] : ones_) {
    if (id == one.id) continue;
    const bool waits = (other.InLine() && other.keys.contains(ask.key)) ||
                       (other.Runs() && other.task == Task::kWaits &&
                        other.task_keys.contains(ask.key));
    if (waits || (!latest && HoldersOf(ask.key).contains(id))) {
      all.emplace_back(SinceOf(other, ask.key), id);
    }
  }
  std::ranges::sort(all);
  const uint64_t mode = ask.on_conflict == OnConflict::kReplace ? 2 : 1;
  for (size_t i = 0; i + stay <= all.size(); ++i) {
    verdict->victims.emplace_back(all[i].second, mode);
    gave_way_[all[i].second] = {one.id, ask.key};
  }
}

// What becomes of it ----------------------------------------------------------------------------

void LimitsAudit::Note(One& one, const Verdict& verdict, bool holds) {
  const bool changes = holds ? !one.holds : one.holds || !one.InLine();
  if (changes) one.since = ++clock_;
  one.keys = verdict.keys;
  one.holds = holds;
}

void LimitsAudit::LetBegin(One& one) {
  one.begun = true;
  one.waits = false;
  one.begun_at = ++clock_;
  for (const std::string& key : one.keys) {
    Spend(key);
    if (one.force) buckets_[key].forced = true;
  }
  one.task = Task::kReady;
}

void LimitsAudit::GoOn(One& one) {
  one.waits = false;
  if (one.task == Task::kWaits) {  // it asks anew
    one.task = Task::kReady;
    one.task_keys.clear();
  }
  for (const std::string& key : one.keys) Spend(key);
  if (one.task != Task::kClaimed) return;
  for (const std::string& key : one.task_keys) {
    if (!one.keys.contains(key)) Spend(key);
  }
}

void LimitsAudit::AskToBegin(One& one) {
  const Verdict verdict = Judge(one, AsksOf(one), false);
  if (verdict.kind == Kind::kFails) return Stop(one, Outcome::kError);
  if (verdict.kind == Kind::kLeftOut) return Stop(one, Outcome::kCancelled);
  Note(one, verdict, verdict.kind == Kind::kRoom);
  if (verdict.kind == Kind::kRoom) return LetBegin(one);
  one.waits = true;
  GiveWay(verdict.victims);
}

void LimitsAudit::Stop(One& one, Outcome outcome) {
  one.stopped = true;
  one.outcome = outcome;
  one.resumable = outcome == Outcome::kCancelled;
  one.in_hand = one.task == Task::kClaimed;
  one.left_keys = one.in_hand ? one.task_keys : std::set<std::string>();
  one.waits = one.holds = one.paused = false;
  one.keys.clear();
  one.task_keys.clear();
  one.task = Task::kNone;
}

void LimitsAudit::GiveWay(std::deque<std::pair<std::string, uint64_t>> victims) {
  if (gathers_) {
    std::ranges::move(victims, std::back_inserter(give_way_));
    return;
  }
  for (const auto& [id, mode] : victims) {
    One& one = ones_.at(id);
    if (!one.stopped && one.cancel < mode) Cancel(id, mode == 2);
  }
}

void LimitsAudit::Cancel(const std::string& id, bool force) {
  One& one = ones_.at(id);
  if (one.stopped) return;
  one.cancel = std::max<uint64_t>(one.cancel, force ? 2 : 1);
  if (force || one.task != Task::kClaimed) return Stop(one, Outcome::kCancelled);
  if (one.Runs()) return;
  // It goes on, past all limits, until its worker has heard of it.
  one.paused = one.waits = one.holds = false;
  one.keys.clear();
  one.task_keys.clear();
}

LimitsAudit::Answer LimitsAudit::Start(One one) {
  const std::string id = one.id;
  one.order = ++orders_;
  one.may_begin = one.start_at <= now_;
  const bool at_once = one.may_begin && !one.hold;
  if (at_once && !one.force && Judge(one, AsksOf(one), false).kind == Kind::kLeftOut) {
    return Answer::kLeftOut;
  }
  One& added = ones_[id] = std::move(one);
  if (at_once) AskToBegin(added);
  return Answer::kDone;
}

void LimitsAudit::Pause(const std::string& id) {
  One& one = ones_.at(id);
  if (one.stopped || one.paused || one.cancel > 0) return;
  const bool asks_to_begin = one.waits && !one.begun;
  if (!asks_to_begin) {  // it gives back what it has, and its place in a line
    one.waits = one.holds = false;
    one.keys.clear();
  }
  if (one.task == Task::kCalled) {
    one.task = Task::kReady;
    one.task_keys.clear();
  }
  one.paused = true;
}

LimitsAudit::Answer LimitsAudit::MayGoOn(One& one) {
  const Verdict may = Judge(one, AsksOf(one), false);
  const bool refused = may.kind > Kind::kWaits || (may.kind == Kind::kWaits && may.singleton);
  return !refused ? Answer::kDone : may.singleton ? Answer::kSingleton : Answer::kLeftOut;
}

void LimitsAudit::AskToGoOn(One& one) {
  const Verdict verdict = Judge(one, AsksToGoOn(one), false);
  const bool room = verdict.kind == Kind::kRoom;
  Verdict own;
  for (const LimitAsk& ask : AsksOf(one)) own.keys.insert(ask.key);
  Note(one, room ? own : verdict, room);
  one.paused = false;
  if (room) return GoOn(one);
  one.waits = true;
  GiveWay(verdict.victims);
}

LimitsAudit::Answer LimitsAudit::Resume(const std::string& id) {
  One& one = ones_.at(id);
  if (one.stopped) return ResumeStopped(one);
  if (one.cancel > 0) return Answer::kCancelling;
  if (!one.paused && !one.hold) return Answer::kDone;
  if (one.begun && one.paused) {
    const Answer may = MayGoOn(one);
    if (may == Answer::kDone) AskToGoOn(one);
    return may;
  }
  (one.paused ? one.paused : one.hold) = false;  // what was held, and paused, is held again
  if (!one.hold && !one.begun && !one.waits && one.may_begin) AskToBegin(one);
  return Answer::kDone;
}

// It goes on with its task as that was, or begins, whatever it waited for.
LimitsAudit::Answer LimitsAudit::ResumeStopped(One& one) {
  if (!one.resumable) return Answer::kStopped;
  if (const Answer may = MayGoOn(one); may != Answer::kDone) return may;
  one.stopped = one.resumable = one.hold = false;
  one.outcome = Outcome::kNone;
  one.cancel = 0;
  if (!one.begun) {
    one.may_begin = true;
    AskToBegin(one);
    return Answer::kDone;
  }
  if (one.done) {
    Stop(one, Outcome::kSuccess);
    return Answer::kDone;
  }
  one.task = one.in_hand ? Task::kClaimed : Task::kReady;
  one.task_keys = one.left_keys;
  one.paused = true;  // as it is until it has asked
  AskToGoOn(one);
  if (one.late) Finish(one.id);
  return Answer::kDone;
}

void LimitsAudit::Finish(const std::string& id) {
  One& one = ones_.at(id);
  one.done = one.cancel > 0;
  Stop(one, one.done ? Outcome::kCancelled : Outcome::kSuccess);
}

void LimitsAudit::FinishLate(const std::string& id) {
  One& one = ones_.at(id);
  one.late = one.resumable && one.in_hand;
}

// Tasks -----------------------------------------------------------------------------------------

std::string LimitsAudit::Claim(const std::string& id) {
  One& one = ones_.at(id);
  if (!one.Runs()) return id + " is handed out and does not run";
  const std::string queue = "queue:" + one.queue;
  if (!HasPlace(queue) || !RateLets(queue)) return id + " is handed out of a queue without room";
  if (one.task != Task::kReady && one.task != Task::kCalled) {
    return id + " is handed out and is not ready";
  }
  const bool called = one.task == Task::kCalled;
  for (const LimitAsk& ask : one.node) {
    if (called) break;
    if (!HasRoom(one, ask.key)) return id + " is handed out without room under limit " + ask.key;
    if (!HoldsKey(one, ask.key)) Spend(ask.key);
    one.task_keys.insert(ask.key);
  }
  one.task = Task::kClaimed;
  one.task_since = ++clock_;
  Spend(queue);
  Settle();
  return "";
}

std::string LimitsAudit::Overlooked() const {
  for (const auto& [id, one] : ones_) {
    const std::string queue = "queue:" + one.queue;
    const bool ready = one.task == Task::kReady || one.task == Task::kCalled;
    if (one.Runs() && ready && HasPlace(queue) && RateLets(queue)) return id;
  }
  return "";
}

// Turns -----------------------------------------------------------------------------------------

// A ready task whose last place another one has taken waits.
bool LimitsAudit::TurnTaskAway() {
  for (auto& [id, one] : ones_) {
    if (!one.Runs() || one.task != Task::kReady) continue;
    const bool room = std::ranges::all_of(one.node, [&, &who = one](const LimitAsk& ask) {
      return HasRoom(who, ask.key) && (HoldsKey(who, ask.key) || !Awaited(ask.key));
    });
    for (const LimitAsk& ask : one.node) {
      if (ask.numbers != LimitNumbers()) askers_[ask.key] = ask.numbers;
    }
    if (room) continue;
    one.task = Task::kWaits;
    one.task_since = ++clock_;
    for (const LimitAsk& ask : one.node) one.task_keys.insert(ask.key);
    return true;
  }
  return false;
}

// Whether one waits for a key whose turn it is.
bool LimitsAudit::Awaited(const std::string& key) const {
  return std::ranges::any_of(ones_, [&](const auto& known) {
    const One& one = known.second;
    const bool task = one.Runs() && one.task == Task::kWaits;
    if (!one.InLine() && !task) return false;
    const std::set<std::string>& keys = one.InLine() ? one.keys : one.task_keys;
    return keys.contains(key) &&
           std::ranges::all_of(keys, [&](const std::string& each) { return HasRoom(one, each); });
  });
}

// The first of those whose keys all have room: by priority, then by order of start.
bool LimitsAudit::LetOneIn() {
  One* first = nullptr;
  bool task = false;
  const auto offer = [&](One& one, const std::set<std::string>& keys, bool is_task) {
    if (!std::ranges::all_of(keys, [&](const auto& key) { return HasRoom(one, key); })) return;
    const auto turn = [](const One& who) { return std::pair(-int64_t{who.priority}, who.order); };
    if (first && turn(*first) < turn(one)) return;
    first = &one;
    task = is_task;
  };
  for (auto& [id, one] : ones_) {
    if (one.InLine()) offer(one, one.keys, false);
    if (one.Runs() && one.task == Task::kWaits) offer(one, one.task_keys, true);
  }
  if (!first) return false;
  if (task) {
    for (const std::string& key : first->task_keys) {
      if (!HoldsKey(*first, key)) Spend(key);
    }
    first->task = Task::kCalled;
    return true;
  }
  const Verdict verdict =
      Judge(*first, first->begun ? AsksToGoOn(*first) : AsksOf(*first), /*in_line=*/true);
  const bool room = verdict.kind == Kind::kRoom;
  if (room && first->begun) {
    Verdict own;
    for (const LimitAsk& ask : AsksOf(*first)) own.keys.insert(ask.key);
    Note(*first, own, true);
    GoOn(*first);
  } else {
    Note(*first, verdict, room);
    if (room) LetBegin(*first);
  }
  return true;
}

void LimitsAudit::Settle() {
  while (TurnTaskAway() || LetOneIn()) {
  }
}

void LimitsAudit::Begin(Timestamp now) {
  now_ = now;
  Settle();
}

void LimitsAudit::End(Timestamp now) {
  now_ = now;
  std::vector<std::pair<Timestamp, std::string>> due;
  for (auto& [id, one] : ones_) {
    if (!one.may_begin && one.start_at <= now && !one.stopped) due.emplace_back(one.start_at, id);
  }
  std::ranges::sort(due);
  // All of them ask, then others give way, and then it is told whose turn it is: nobody passes one
  // that lacks only this key.
  gathers_ = true;
  for (const auto& [at, id] : due) {
    One& one = ones_.at(id);
    if (one.stopped) continue;
    one.may_begin = true;
    if (!one.hold && !one.paused) AskToBegin(one);
  }
  gathers_ = false;
  GiveWay(std::exchange(give_way_, {}));
  Settle();
}

// At most N + burst - 1 begin in any such time.
std::string LimitsAudit::TooMany() const {
  for (const auto& [key, bucket] : buckets_) {
    const auto rate = NumbersOf(key).rate;
    if (!rate || bucket.forced || FullAt(key) == Timestamp()) continue;
    const size_t most = rate->count + rate->burst - 1;
    const auto& begun = bucket.begun;
    for (size_t i = 0; i + most < begun.size(); ++i) {
      const bool same = begun[i].second == rate->Spacing();
      if (same && begun[i + most].first - begun[i].first < rate->per - std::chrono::milliseconds(1))
        return key;
    }
  }
  return "";
}

}  // namespace dfsmr
