#include "dsrv/engine/limit_judge.h"

#include <algorithm>
#include <set>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using Kind = LimitAnswer::Kind;

constexpr size_t kNamed = 3;       // holders in a message
constexpr size_t kAncestors = 64;  // that are looked at
constexpr std::string_view kForEver = ", which waits for this one: it would wait for ever";
constexpr size_t kLookedAt = 1'000;     // holders, to name some of them
constexpr size_t kGathered = 1'000;     // that hold the key or wait for it, in one turn

// How many may wait for the key of an ask; nullopt: any number.
std::optional<uint64_t> WaitingMax(const LimitAsk& ask) {
  if (ask.on_conflict == OnConflict::kLatest) return ask.waiting.value_or(1);
  if (ask.waiting) return *ask.waiting;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> LimitJudge::HoldersOf(const std::string& ns, const std::string& key,
                                               size_t most) const {
  std::vector<Dated> holders;
  size_t left = kLookedAt;
  ForEachHolder(ns, key, [&](Dated holder) {
    holders.push_back(std::move(holder));
    std::ranges::push_heap(holders);
    if (holders.size() > most) {
      std::ranges::pop_heap(holders);
      holders.pop_back();
    }
    return --left > 0;
  });
  std::ranges::sort(holders);
  std::vector<std::string> ids;
  for (auto& [since, id] : holders) ids.push_back(std::move(id));
  return ids;
}

void LimitJudge::ForEachHolder(const std::string& ns, const std::string& key,
                               const std::function<bool(Dated)>& visit) const {
  uint64_t asked = 0;
  bool more = true;
  table_.ForEachHolder(ns, key, "", [&](const LimitTable::Holder& holder) {
    ++asked;
    Timestamp since = kNever;
    for (const auto& one : holder.holdings) since = std::min(since, one.since);
    return more = visit({since, std::string(holder.instance)});
  });
  if (!more || table_.Used(ns, key) <= asked) return;
  counts_.ForEachHolder(ns, key, {}, [&](const LimitHolders::Holder& one) {
    if (table_.Holds(ns, key, one.instance)) return true;
    return visit({one.since, std::string(one.instance)});
  });
}

std::string LimitJudge::Why(const std::string& ns, const LimitAsk& ask) const {
  const auto holders = HoldersOf(ns, ask.key, kNamed);
  const LimitNumbers numbers = table_.NumbersOf(ns, ask.key);
  if (ask.singleton && !holders.empty()) {
    return "singleton " + Quoted(ask.key) + " is held by instance " + Quoted(holders.front());
  }
  const std::string what = "limit " + Quoted(ask.key);
  if (table_.HasPlace(ns, ask.key, "") && numbers.rate) {
    const Duration left = table_.NextToken(ns, ask.key) - turn_.clock();
    if (left > Duration::zero()) {
      return what + " lets " + std::to_string(numbers.rate->count) + " begin in " +
             FormatDuration(numbers.rate->per) + ", the next in " +
             FormatDuration(std::chrono::ceil<std::chrono::milliseconds>(left));
    }
  }
  const uint64_t held = table_.Used(ns, ask.key);
  std::string why = what + " has no room: max is " + std::to_string(numbers.max.value_or(0)) +
                    ", and " + std::to_string(held) + (held == 1 ? " holds it" : " hold it");
  for (size_t i = 0; i < holders.size(); ++i) {
    why += (i == 0 ? ": instance " : ", ") + Quoted(holders[i]);
  }
  if (!holders.empty() && held > holders.size()) why += ", …";
  const uint64_t waiting = table_.InLine(ns, ask.key);
  if (waiting > 0) {
    why += ", and " + std::to_string(waiting) + (waiting == 1 ? " waits" : " wait");
  }
  if (waiting > 0 && holders.empty()) {
    table_.ForEachWaiter(ns, ask.key, std::nullopt, [&why](const LimitTable::Waiter& first) {
      why += ": instance " + Quoted(first.instance);
      return false;
    });
  }
  return why;
}

// For all words but `wait`, those that wait take up room as those that hold do.
bool LimitJudge::HasPlace(const LimitRequest& asker, const LimitAsk& ask) const {
  if (!table_.HasPlace(asker.ns, ask.key, asker.id)) return false;
  if (table_.Holds(asker.ns, ask.key, asker.id) || asker.in_line) return true;
  const uint64_t reserved = Reserved(asker, ask.key);
  if (ask.on_conflict == OnConflict::kWait && reserved == 0) return true;
  const LimitNumbers numbers = table_.NumbersOf(asker.ns, ask.key);
  uint64_t taken = table_.Used(asker.ns, ask.key) + reserved;
  if (ask.on_conflict != OnConflict::kWait) taken += table_.InLine(asker.ns, ask.key);
  return !numbers.max || /*mutant waiting-take-no-room*/ taken < *numbers.max /*end*/;
}

uint64_t LimitJudge::Reserved(const LimitRequest& asker, const std::string& key) {
  if (!asker.reserved) return 0;
  const auto found = asker.reserved->find(ResidentKey(asker.ns, key));
  return found == asker.reserved->end() ? 0 : found->second;
}

bool LimitJudge::HasRoom(const LimitRequest& asker, const LimitAsk& ask) const {
  if (table_.Holds(asker.ns, ask.key, asker.id)) return true;
  if (!HasPlace(asker, ask)) return false;
  if (table_.NextToken(asker.ns, ask.key) > turn_.clock()) return false;
  const uint64_t reserved = Reserved(asker, ask.key);
  if (reserved > 0 && table_.NumbersOf(asker.ns, ask.key).rate &&
      table_.TokensOf(asker.ns, ask.key, turn_.clock()) < static_cast<double>(reserved + 1)) {
    return false;
  }
  // Its place may be that of one whose turn is worked out in a moment.
  return asker.in_line || !table_.Awaited(asker.ns, ask.key);
}

std::set<std::string> LimitJudge::AncestorsOf(const LimitRequest& asker) const {
  if (asker.above) return {asker.above->begin(), asker.above->end()};
  std::set<std::string> ancestors;
  std::string at = asker.parent;
  while (!at.empty() && ancestors.size() < kAncestors && ancestors.insert(at).second) {
    auto parent = residents_.Load(asker.ns, at);
    at = parent ? (*parent)->instance.parent : "";
  }
  return ancestors;
}

// A limit that lets nobody in is not theirs to open.
bool LimitJudge::AncestorsAlone(const LimitRequest& asker, const std::string& key) const {
  if (asker.parent.empty() || table_.HasPlace(asker.ns, key, asker.id)) return false;
  if (table_.NumbersOf(asker.ns, key).max == 0u) return false;
  const uint64_t used = table_.Used(asker.ns, key);
  if (used == 0 || used > kAncestors) return false;
  uint64_t theirs = 0;
  for (const std::string& ancestor : AncestorsOf(asker)) {
    theirs += Holds(asker.ns, key, ancestor) ? 1 : 0;
  }
  return theirs == used;
}

bool LimitJudge::Holds(const std::string& ns, const std::string& key,
                       const std::string& instance) const {
  if (table_.Holds(ns, key, instance)) return true;
  if (BuiltInOf(key) == BuiltIn::kNone) return false;
  auto resident = residents_.Load(ns, instance);
  return resident && HoldsBuiltIn((*resident)->instance, key);
}

std::optional<std::string> LimitJudge::WhyForEver(const LimitRequest& asker,
                                                  const LimitKey& key) const {
  if (!AncestorsAlone(asker, key.key)) return std::nullopt;
  return Why(asker.ns, {.key = key.key, .numbers = key.numbers}) + std::string(kForEver);
}

void LimitJudge::Hear(const LimitRequest& asker, const LimitKey& key) {
  const bool heard =
      asker.looks || (asker.asked && std::ranges::find(*asker.asked, key) != asker.asked->end());
  heard ? numbers_.Stands(asker.ns, key) : numbers_.Asked(asker.ns, key);
}

LimitVerdict LimitJudge::Judge(const LimitRequest& asker, const LimitAsks& asks) {
  LimitVerdict verdict;
  LimitAnswer& answer = verdict.answer;
  answer.order = asker.turn.order;
  std::vector<LimitKey> before;  // with the numbers of those that have asked before
  for (const LimitAsk& ask : asks) {
    before.push_back({ask.key, table_.AskerOf(asker.ns, ask.key)});
    answer.keys.push_back({ask.key, ask.numbers});
    Hear(asker, answer.keys.back());
    counts_.Follow(asker.ns, ask.key);
  }
  if (asker.force) return verdict;
  const auto say = [&](Kind kind, const LimitAsk& ask) {
    if (kind <= answer.kind) return;
    answer.kind = kind;
    answer.key = ask.key;
    answer.why = Why(asker.ns, ask);
    answer.singleton = ask.singleton;
    answer.crowded = kind == Kind::kLeftOut && ask.on_conflict != OnConflict::kSkip;
  };
  std::vector<const LimitAsk*> lacking;
  for (const LimitAsk& ask : asks) {
    if (!HasRoom(asker, ask)) lacking.push_back(&ask);
  }
  for (const LimitAsk* ask : lacking) {
    const auto most = WaitingMax(*ask);
    const bool crowded = most && table_.InLine(asker.ns, ask->key) >= *most &&
                         (ask->on_conflict == OnConflict::kWait || *most == 0);
    if (asker.in_line) {
      say(Kind::kWaits, *ask);
    } else if (AncestorsAlone(asker, ask->key)) {
      say(Kind::kFails, *ask);
      verdict.for_ever = true;
      answer.why += std::string(kForEver);
    } else if (ask->on_conflict == OnConflict::kFail) {
      say(Kind::kFails, *ask);
    } else if (ask->on_conflict == OnConflict::kSkip || crowded) {
      say(Kind::kLeftOut, *ask);
    } else {
      say(Kind::kWaits, *ask);
    }
  }
  if (answer.kind > Kind::kWaits) {
    // It neither holds a key nor waits for it: those that do go by what was said before.
    for (const LimitKey& key : before) {
      if (key.numbers != LimitNumbers()) numbers_.Asked(asker.ns, key);
    }
    for (const LimitAsk& ask : asks) table_.Tidy(asker.ns, ask.key, turn_.clock());
  }
  if (answer.kind != Kind::kWaits || asker.in_line) return verdict;
  LimitAsks full;
  for (const LimitAsk* ask : lacking) {
    if (!HasPlace(asker, *ask)) full.push_back(*ask);
  }
  // All that are there have asked before it, whatever the clock shows since a restart.
  auto gathering = GatheringFor(asker, full, kNever);
  if (gathering.asks.empty()) return verdict;
  answer.displaces = !Gather(&gathering, kGathered, &verdict.victims);
  if (answer.displaces) verdict.victims.clear();  // they are gathered anew, as is noted in its row
  return verdict;
}

}  // namespace dfsmr
