// Why no worker has what is ready.
#include <algorithm>
#include <map>
#include <span>

#include "dsrv/engine/desk.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/workers.h"
#include "fsm/base/limits.h"
#include "fsm/rules/dry_run.h"

namespace dfsmr {
namespace {

std::string List(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

// Of a limit's key such as "queue:gpu".
std::string WhyLimited(const WaitView& wait) {
  const size_t colon = wait.key.find(':');
  if (wait.max > 0 || wait.elsewhere || colon == std::string::npos) {
    return "limit " + wait.key + " has no room";
  }
  return wait.key.substr(0, colon) + " " + wait.key.substr(colon + 1) + " is closed";
}

// What of a queue matters for who takes from it.
std::string Kind(const QueueKey& key) {
  std::string kind = key.node;
  for (const std::string* part : {&key.action, &key.queue, &key.agent}) kind += '\0' + *part;
  for (const std::string& word : key.Words()) kind += '\0' + word;
  return kind;
}

}  // namespace

Desk::Workers Desk::WorkersOf(const std::string& ns) const {
  Workers workers;
  for (const auto& [id, waiter] : waiters_) {
    if (waiter.filter.ns != ns) continue;
    const Stream* stream = std::get_if<Stream>(&waiter.kind);
    const bool held = stream && stream->idle();
    workers.push_back({waiter.worker, &waiter.filter, held});
  }
  for (const auto& [claim, busy] : busy_) {
    if (busy.filter->ns == ns) workers.push_back({busy.worker, busy.filter.get()});
  }
  std::ranges::sort(workers, {}, &Seen::worker);
  return workers;
}

std::string Desk::WhyNone(const QueueKey& key, const WhyNot& why_not, const Workers& all) {
  std::span<const Seen> workers = all;
  if (!key.agent.empty()) {
    const std::string_view name = key.agent;
    const auto begin = std::ranges::lower_bound(all, name, {}, &Seen::worker);
    const auto end = std::ranges::upper_bound(all, name, {}, &Seen::worker);
    if (std::string known = why_not(key.ns, key.agent); !known.empty()) return known;
    if (begin == end) return key.agent + " is not connected";
    workers = {begin, end};
  }
  const std::vector<std::string> words = key.Words();
  const std::string who = key.agent.empty() ? "no agent" : key.agent;
  const auto any = [&](auto fits) {
    return std::ranges::any_of(workers, [&](const Seen& one) { return fits(one); });
  };
  if (any([&](const Seen& one) { return !one.held && one.filter->Matches(key); })) return {};
  if (!words.empty() &&
      !any([&](const Seen& one) { return one.filter->Has(words); })) {
    std::vector<std::string> missing;
    for (const std::string& word : words) {
      if (!any([&](const Seen& one) { return one.filter->Has({word}); })) missing.push_back(word);
    }
    const std::string has = key.agent.empty() ? " has " : " does not have ";
    return who + has + (missing.empty() ? "all of " + List(words) : List(missing));
  }
  const auto dry = [&](const Seen& one) {
    return one.filter->Has(words) && one.filter->dry_run;
  };
  if (key.dry_run && !any(dry)) {
    return who + (key.agent.empty() ? " takes dry runs" : " takes no dry runs");
  }
  const auto wants = [&](const Seen& one) {
    return one.filter->Has(words) && one.filter->Wants(key);
  };
  const std::string whoever = key.agent.empty() ? "who could take it" : who;
  if (any([&](const Seen& one) { return !one.held && wants(one); })) {
    return whoever + " has refused it";
  }
  if (any(wants)) return whoever + " is drained";
  const std::string that_has =
      words.empty() ? "" : " that has " + List(words);
  return who + (key.agent.empty() ? that_has + " takes" : " does not take") + " action " +
         key.action + " in queue " + key.queue;
}

std::string Desk::WhyNotNow(const QueueKey& key) const {
  if (agenda_.IsAwaited(key)) return {};
  bool idle = false;
  bool busy = false;
  for (const auto& [filter, streams] : streams_) {
    if (!filter.Matches(key)) continue;
    idle = idle || streams.idle > 0;
    busy = busy || streams.open > streams.idle;
  }
  bool refused = false;
  if (!refusals_.empty()) {
    busy = false;  // is to be found among those who have not refused it
    for (const auto& [id, waiter] : waiters_) {
      const Stream* stream = std::get_if<Stream>(&waiter.kind);
      if (!waiter.filter.Wants(key) || (stream && stream->idle())) continue;
      const bool matches = waiter.filter.Matches(key);
      busy = busy || matches;
      refused = refused || !matches;
    }
  }
  if (busy) return "who could take it is busy";
  if (refused) return "who could take it has refused it";
  if (idle) return "who could take it is drained";
  return "no worker waits for action " + key.action + " in queue " + key.queue;
}

std::string Desk::WhyNobody(const QueueKey& key, const WhyNot& why_not) const {
  return WhyNone(key, why_not, WorkersOf(key.ns));
}

void Desk::Explain(const Resident& resident, const WhyNot& why_not, InstanceWaits* waits) const {
  const Instance& instance = resident.instance;
  if (!Runs(instance.state)) return;
  std::optional<Workers> workers;
  std::map<std::string, std::string> known;
  size_t left = limits::kTokensShown;
  for (const Token& token : instance.tokens) {
    if (left-- == 0) return;
    if (token.state != TokenState::kReady || !resident.graph->Has(token.node)) continue;
    const auto closed = waits->tokens.find(token.visit);
    if (closed != waits->tokens.end() && !closed->second.empty()) {
      waits->why[token.visit] = WhyLimited(closed->second.front());
      continue;
    }
    const auto queue = handouts_.KeyOf(*resident.version, *resident.graph, token,
                                       static_cast<bool>(instance.dry_run));
    if (instance.dry_run && !ForDryWorkers(resident.machine().nodes[token.node])) continue;
    if (!queue) continue;
    const auto [why, is_new] = known.try_emplace(Kind(*queue));
    const bool for_all = queue->Words().empty() && queue->agent.empty();
    if (is_new && for_all && !queue->dry_run) {
      why->second = WhyNotNow(*queue);
    } else if (is_new) {
      if (!workers) workers = WorkersOf(instance.ns);
      why->second = WhyNone(*queue, why_not, *workers);
    }
    if (!why->second.empty()) waits->why[token.visit] = why->second;
  }
}

}  // namespace dfsmr
