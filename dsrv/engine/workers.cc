#include "dsrv/engine/workers.h"

#include <algorithm>
#include <iterator>

#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

constexpr Duration kLately = std::chrono::minutes(15);
constexpr Duration kDropEvery = std::chrono::minutes(1);

// What the filter asks for, in the language of filters as far as that has words for it.
std::string TextOf(const Filter& filter) {
  std::string text;
  const auto add = [&text](const char* key, const std::string& value) {
    if (value.empty()) return;
    text += (text.empty() ? "" : " ") + std::string(key) + ":" + value;
  };
  const auto join = [](const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
    return list;
  };
  add("machine", filter.machine);
  add("node", filter.node);
  add("action", filter.action);
  add("action", join(filter.actions));
  add("queue", filter.queue);
  add("queue", join(filter.queues));
  add("package", join(filter.packages));
  return text;
}

bool InHand(const Claim& claim) { return claim.Live(); }

}  // namespace

Workers::Worker& Workers::See(const std::string& ns, const std::string& worker) {
  if (last_ == workers_.end() || last_->first.second != worker || last_->first.first != ns) {
    last_ = workers_.try_emplace({ns, worker}).first;
  }
  last_->second.seen = turn_.now();
  last_->second.forgotten = false;
  return last_->second;
}

Workers::Hour& Workers::HourOf(const std::string& ns, const std::string& worker) {
  return See(ns, worker).hour.At(turn_.now());
}

void Workers::DropGone() {
  if (turn_.now() < drop_due_) return;
  drop_due_ = After(turn_.now(), kDropEvery);
  std::erase_if(workers_, [this](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.streams == 0 &&
           (worker.forgotten || After(worker.seen, kLately) <= turn_.now());
  });
  last_ = workers_.end();
}

void Workers::Polled(const Filter& filter, const std::string& name, const WorkerTerms& terms) {
  DropGone();
  Worker& worker = See(filter.ns, name);
  if (worker.address != terms.address) worker.address = terms.address;
  if (worker.streams == 0 && worker.filter != filter) worker.filter = filter;
}

void Workers::Opened(SessionId session, const Filter& filter, const std::string& name,
                     int32_t capacity, const WorkerTerms& terms) {
  DropGone();
  Worker& worker = See(filter.ns, name);
  worker.address = terms.address;
  worker.agent = !terms.agent.empty();
  worker.filter = filter;
  ++worker.streams;
  worker.capacity += static_cast<uint64_t>(capacity);
  streams_[session] = {{filter.ns, name}, static_cast<uint64_t>(capacity)};
}

void Workers::Closed(SessionId session) {
  const auto stream = streams_.find(session);
  if (stream == streams_.end()) return;
  const auto& [name, capacity] = stream->second;
  if (const auto at = workers_.find(name); at != workers_.end()) {
    at->second.seen = turn_.now();
    --at->second.streams;
    at->second.capacity -= capacity;
  }
  streams_.erase(stream);
}

void Workers::NoteStale(const std::string& ns, const std::string& worker) {
  const auto known = workers_.find({ns, worker});
  if (known != workers_.end()) ++known->second.hour.At(turn_.now()).stale;
}

void Workers::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const ClaimChange& one : change.claims) {
    if (!one.before || (one.now && one.now->Live())) continue;
    const Claim& claim = *one.before;
    if (one.now && one.now->timed_out && claim.Live()) {
      ++HourOf(instance.ns, claim.worker).timed_out;
    } else if (claim.id == change.self && instance.last_answer &&
               instance.last_answer->claim == claim.id) {
      Hour& hour = HourOf(instance.ns, claim.worker);
      ++(instance.last_answer->transition == "error" ? hour.failed : hour.done);
    }
  }
}

std::vector<WorkerView> Workers::List(const std::string& ns, const std::string& machine,
                                      const std::string& queue) {
  drop_due_ = {};
  DropGone();
  std::map<std::string, uint64_t> in_hand;
  residents_.ForEach([&](const Resident& resident) {
    const Instance& instance = resident.instance;
    if (instance.ns != ns || instance.tokens.Count(TokenState::kClaimed) == 0) return;
    for (const Token& token : instance.tokens) {
      for (const Claim& claim : token.claims) {
        if (InHand(claim)) ++in_hand[claim.worker];
      }
    }
  });
  std::vector<WorkerView> all;
  for (auto at = workers_.lower_bound({ns, ""}); at != workers_.end() && at->first.first == ns;
       ++at) {
    const Worker& worker = at->second;
    if (worker.forgotten) continue;
    const Filter& filter = worker.filter;
    if (!machine.empty() && !filter.machine.empty() && filter.machine != machine) continue;
    const bool any_queue = filter.queue.empty() && filter.queues.empty();
    if (!queue.empty() && !any_queue && filter.queue != queue &&
        !std::ranges::binary_search(filter.queues, queue)) {
      continue;
    }
    WorkerView view;
    view.worker = at->first.second;
    view.address = worker.address;
    view.how = worker.agent ? "agent" : worker.streams > 0 ? "stream" : "poll";
    view.asks_for = TextOf(filter);
    view.in_hand = in_hand[view.worker];
    view.capacity = worker.capacity;
    worker.hour.ForEach(turn_.now(), [&view](Timestamp, const Hour& hour) {
      view.done += hour.done + hour.failed;
      view.failed += hour.failed;
      view.timed_out += hour.timed_out;
      view.stale += hour.stale;
    });
    view.seen = worker.streams > 0 ? turn_.now() : worker.seen;
    all.push_back(std::move(view));
  }
  return all;
}

void Workers::Forget(const std::string& ns) {
  for (auto at = workers_.lower_bound({ns, ""}); at != workers_.end() && at->first.first == ns;) {
    at->second.hour = {};
    at->second.forgotten = true;
    at = at->second.streams > 0 ? std::next(at) : workers_.erase(at);
  }
  last_ = workers_.end();
}

Timestamp Workers::Heard(const std::string& ns, const std::string& worker) const {
  const auto known = workers_.find({ns, worker});
  if (known == workers_.end()) return {};
  return known->second.streams > 0 ? turn_.now() : known->second.seen;
}

uint64_t Workers::CountIn(const std::string& ns) {
  DropGone();
  uint64_t count = 0;
  for (auto at = workers_.lower_bound({ns, ""}); at != workers_.end() && at->first.first == ns;
       ++at) {
    if (!at->second.forgotten) ++count;
  }
  return count;
}

}  // namespace dfsmr
