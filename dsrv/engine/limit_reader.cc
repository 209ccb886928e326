#include "dsrv/engine/limit_reader.h"

#include <algorithm>
#include <charconv>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_envoy.h"
#include "dsrv/engine/limit_judge.h"
#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/waits.h"
#include "fsm/base/names.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kHoldersShown = 1'000;
constexpr size_t kHoldersOfWait = 10;
constexpr char kReadyPlace = 'r';  // begins the place of a ready task

// A place in the line as a text that a page token holds, and back.
std::string TextOfTurn(const LimitTable::Turn& turn) {
  return std::to_string(turn.priority) + "." + std::to_string(turn.order) + "." +
         std::to_string(turn.visit);
}

std::optional<LimitTable::Turn> TurnOfText(const std::string& text) {
  LimitTable::Turn turn;
  const char* end = text.data() + text.size();
  auto [after, error] = std::from_chars(text.data(), end, turn.priority);
  if (error != std::errc() || after == end) return std::nullopt;
  auto [second, error2] = std::from_chars(after + 1, end, turn.order);
  if (error2 != std::errc() || second == end) return std::nullopt;
  auto [third, error3] = std::from_chars(second + 1, end, turn.visit);
  if (error3 != std::errc() || third != end) return std::nullopt;
  return turn;
}

}  // namespace

std::string LimitReader::NodeOf(const std::string& ns, const std::string& id,
                                uint64_t visit) const {
  if (visit == 0) return "";
  auto resident = residents_.Load(ns, id);
  const Token* token = resident ? std::as_const((*resident)->instance.tokens).Find(visit) : nullptr;
  return token ? std::string(NodeName((*resident)->machine(), token->node)) : "";
}

LimitView LimitReader::Standing(const std::string& ns, const std::string& key) const {
  LimitView view{.ns = ns, .key = key, .standing = numbers_.StandingOf(ns, key)};
  if (const rows::LimitOverride* override = numbers_.OverrideOf(ns, key)) {
    view.override = *override;
  }
  const bool counted = BuiltInOf(key) != BuiltIn::kNone;
  view.held = counted ? counts_.CountOf(ns, key) : table_.Used(ns, key);
  view.waiting = table_.Waiting(ns, key, turn_.clock()) + counts_.WaitingFor(ns, key);
  if (view.standing.numbers.rate && !table_.Knows(ns, key)) {
    view.tokens = view.standing.numbers.rate->burst;
  } else {
    view.tokens = table_.TokensOf(ns, key, turn_.clock());
  }
  view.next_token = table_.NextToken(ns, key);
  return view;
}

// Those that have asked for the key, then those that are only counted.
void LimitReader::AddHolders(LimitView* view) const {
  std::vector<LimitHolderView>& to = view->holders;
  table_.ForEachHolder(view->ns, view->key, "", [&](const LimitTable::Holder& holder) {
    for (const LimitTable::Holding& one : holder.holdings) {
      to.push_back({std::string(holder.instance), one.visit == 0 ? "" : std::to_string(one.visit),
                    one.since, one.forced, false});
    }
    return to.size() < kHoldersShown;
  });
  if (BuiltInOf(view->key) == BuiltIn::kNone) return;
  counts_.ForEachHolder(view->ns, view->key, {}, [&](const LimitHolders::Holder& one) {
    if (to.size() >= kHoldersShown) return false;
    if (one.visit == 0 && table_.Holds(view->ns, view->key, one.instance)) return true;
    to.push_back({std::string(one.instance), one.visit == 0 ? "" : std::to_string(one.visit),
                  one.since, false, false});
    return true;
  });
}

// Tasks that find no room under the limit of a queue or an action stand in no line: they lie ready,
// and come behind those that do. A page begins behind so many of them.
void LimitReader::AddReady(const std::string& after, size_t page, LimitView* view) const {
  const std::vector<ReadyEntry> ready = counts_.ReadyFor(view->ns, view->key);
  const size_t shown = after.empty() ? 0 : std::strtoull(after.c_str() + 1, nullptr, 10);
  for (size_t at = shown; at < ready.size(); ++at) {
    const ReadyEntry& entry = ready[at];
    auto resident = residents_.Load(view->ns, entry.instance);
    if (!resident) continue;
    const Token* token = std::as_const((*resident)->instance.tokens).Find(entry.visit);
    if (!token || token->state != TokenState::kReady) continue;
    if (view->waiters.size() == page) {
      view->more = true;
      return;
    }
    LimitWaiterView one{.instance = entry.instance, .since = entry.since};
    one.node = NodeName((*resident)->machine(), token->node);
    one.priority = static_cast<int32_t>(std::clamp<int64_t>(entry.priority, INT32_MIN, INT32_MAX));
    one.lacks = {view->key};
    one.place = kReadyPlace + std::to_string(at + 1);
    view->waiters.push_back(std::move(one));
  }
}

LimitView LimitReader::Get(const std::string& ns, const std::string& key,
                           const std::string& after, size_t page) const {
  LimitView view = Standing(ns, key);
  AddHolders(&view);
  std::ranges::sort(view.holders, {}, &LimitHolderView::since);
  for (LimitHolderView& holder : view.holders) {
    if (!holder.node.empty()) {
      holder.node = NodeOf(ns, holder.instance, std::strtoull(holder.node.c_str(), nullptr, 10));
    }
    auto resident = residents_.Load(ns, holder.instance);
    holder.cancelling = resident && (*resident)->instance.Cancelling();
  }
  if (after.starts_with(kReadyPlace)) {
    AddReady(after, page, &view);
    return view;
  }
  table_.ForEachWaiter(ns, key, TurnOfText(after), [&](const LimitTable::Waiter& waiter) {
    LimitWaiterView one{.instance = waiter.instance, .since = waiter.since};
    one.node = NodeOf(ns, waiter.instance, waiter.turn.visit);
    one.priority = waiter.turn.priority;
    one.paused = waiter.standing == LimitTable::Standing::kPaused;
    one.place = TextOfTurn(waiter.turn);
    for (const std::string& other : waiter.keys) {
      if (!table_.HasRoom(ns, other, waiter.instance, turn_.clock())) one.lacks.push_back(other);
    }
    if (std::ranges::find(one.lacks, key) == one.lacks.end()) return true;
    if (view.waiters.size() == page) return !(view.more = true);
    view.waiters.push_back(std::move(one));
    return true;
  });
  if (!view.more) AddReady("", page, &view);
  return view;
}

std::optional<std::string> LimitReader::NextKey(const LimitQuery& query,
                                                const std::string& from) const {
  std::optional<std::string> next;
  const auto take = [&](std::string_view key) {
    if (!next || key < *next) next = key;
    return false;
  };
  if (!query.waited_for) {
    table_.ForEachKey(query.ns, from, take);
    if (const auto key = numbers_.NextKey(query.ns, from)) take(*key);
    return next;
  }
  table_.ForEachAwaited(query.ns, from, take);
  // Tasks wait without standing in a line.
  const auto tracked = numbers_.tracked().lower_bound(ResidentKey(query.ns, from));
  if (tracked == numbers_.tracked().end()) return next;
  const auto [ns, key] = SplitKey(*tracked);
  if (ns == query.ns) take(key);
  return next;
}

std::vector<LimitView> LimitReader::List(const LimitQuery& query) const {
  std::vector<LimitView> views;
  const bool later = !query.after.empty() && query.after >= query.prefix;
  std::string from = later ? query.after + '\0' : query.prefix;
  while (views.size() < query.limit) {
    const auto key = NextKey(query, from);
    if (!key || !key->starts_with(query.prefix)) break;
    LimitView view = Standing(query.ns, *key);
    const bool idle = view.waiting == 0 && view.held == 0;
    const bool hidden = query.waited_for ? view.waiting == 0
                                         : idle && numbers_.IsFollowed(ResidentKey(query.ns, *key));
    if (!hidden) views.push_back(std::move(view));
    from = *key + '\0';
  }
  return views;
}

// Ready tokens wait for their queue and their action as well.
void LimitReader::AddClosed(const Resident& resident, InstanceWaits* waits) const {
  const Instance& instance = resident.instance;
  for (const Token& token : instance.tokens) {
    if (token.state != TokenState::kReady || !resident.graph->Has(token.node)) continue;
    const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
    for (const std::string& key : {"queue:" + settings.queue, "action:" + settings.action}) {
      if (table_.HasRoom(instance.ns, key, "", turn_.clock())) continue;
      waits->tokens[token.visit].push_back(
          {.kind = WaitView::Kind::kLimit, .key = key, .holders = {}});
    }
  }
}

bool LimitReader::Concern(const Instance& instance, bool tasks_limited) {
  if (instance.Stopped()) return false;
  if (instance.waits.ForTurn() || instance.waits.Has(Wait::kLimit)) return true;
  if (tasks_limited && instance.tokens.Count(TokenState::kReady) > 0) return true;
  return instance.tokens.Count(TokenState::kWaiting) > 0 &&
         std::ranges::any_of(instance.tokens, &Token::WaitsForLimits);
}

bool LimitReader::Fill(const std::string& ns, const std::string& instance, uint64_t visit,
                       WaitView* wait, size_t ahead_at_most) const {
  wait->elsewhere = envoy_.Speaks();
  if (wait->elsewhere) return true;
  if (table_.HasRoom(ns, wait->key, instance, turn_.clock())) return false;
  wait->max = table_.NumbersOf(ns, wait->key).max.value_or(0);
  wait->held = table_.Used(ns, wait->key);
  wait->ahead =
      table_.Ahead(ns, wait->key, {wait->priority, wait->order, visit}, ahead_at_most);
  if (table_.HasPlace(ns, wait->key, instance)) {
    wait->kind = WaitView::Kind::kRate;
    wait->until = table_.NextToken(ns, wait->key);
  } else {
    wait->holders = judge_.HoldersOf(ns, wait->key, kHoldersOfWait);
  }
  return true;
}

InstanceWaits LimitReader::WaitsOf(const Instance& instance, size_t ahead_at_most) const {
  InstanceWaits waits = WaitsIn(instance);
  const auto fill = [&](std::vector<WaitView>& all, uint64_t order, uint64_t visit) {
    std::erase_if(all, [&](WaitView& wait) {
      if (wait.kind != WaitView::Kind::kLimit) return false;
      wait.priority = instance.priority;
      wait.order = order;
      return !Fill(instance.ns, instance.id, visit, &wait, ahead_at_most);
    });
  };
  const bool ready = Runs(instance.state) && instance.tokens.Count(TokenState::kReady) > 0;
  if (counts_.TasksLimited() && ready) {
    if (const auto resident = residents_.Load(instance.ns, instance.id)) {
      AddClosed(**resident, &waits);
    }
  }
  fill(waits.instance, instance.limits ? instance.limits->order : 0, 0);
  for (auto& [visit, of_token] : waits.tokens) {
    const Token* token = instance.tokens.Find(visit);
    fill(of_token, token && token->limits ? token->limits->order : 0, visit);
  }
  return waits;
}

}  // namespace dfsmr
