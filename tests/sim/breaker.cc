#include "tests/sim/breaker.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr Duration kEdge = 50ms;

}  // namespace

BreakerSim::BreakerSim(uint64_t seed) : random_(seed * 31 + 17) {
  world_.Define(
      "id: m\nnodes:\n  w: {start: true, timeout_strategy: fixed, timeout: 2.0, transitions: {ok: "
      "end}}\n  end: {final: true}\n");
}

void BreakerSim::Expect(bool good, const std::string& what) {
  if (!good && problem_.empty()) problem_ = "breaker: " + what;
}

std::string BreakerSim::Run() {
  for (size_t step = 150 + random_.Below(150); step > 0 && problem_.empty(); --step) Step();
  // Nothing is claimed for a minute.
  for (int second = 0; second < 65 && problem_.empty(); ++second) world_.Elapse(1s);
  if (problem_.empty()) CheckState();
  Expect(!open_, "it is open, and nothing was claimed for a minute");
  return problem_;
}

// Time passes in turns without a command, so that it is known what comes first.
void BreakerSim::Step() {
  PassTime();
  const size_t dice = random_.Below(100);
  if (dice < 15) {
    Turn([this](Engine& engine) {
      for (size_t n = random_.Below(4); n > 0; --n) {
        (void)engine.Start({.ns = "ns", .machine = "m", .id = "i" + std::to_string(started_++)});
      }
    });
  } else if (dice < 65) {
    Poll();
  } else if (dice < 90) {
    Report();
  } else {
    GiveBack();
  }
}

void BreakerSim::Turn(const std::function<void(Engine&)>& command) {
  may_open_ = false;
  world_.Decide([&](Engine& engine) { command(engine); });
  world_.Commit();
}

void BreakerSim::PassTime() {
  const size_t dice = random_.Below(20);
  world_.Elapse(dice < 15 ? 10ms * (1 + random_.Below(60)) : 100ms * (1 + random_.Below(30)));
  for (Handed& one : handed_) {
    if (one.over || one.given_back || one.timed_out || one.deadline > world_.now()) continue;
    one.timed_out = true;
    retried_.insert(one.instance);
    Failed(one);
  }
  CheckState();
}

// It halves the rate, in whatever order they come.
void BreakerSim::Failed(Handed& one) {
  if (one.after && open_) rate_ = std::max(rate_ / 2, 0.1);
}

void BreakerSim::Poll() {
  std::vector<Task> tasks;
  const auto most = static_cast<int32_t>(1 + random_.Below(4));
  const bool due = RetryWaits();
  Turn([&](Engine& engine) {
    auto poll = engine.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = most},
                            [&tasks](std::vector<Task> given) { tasks = std::move(given); });
    REQUIRE(poll);
  });
  bool retry = false;
  Minute minute;
  const bool known = Known(&minute);
  const bool closes = ClosesNow();
  bool closed = false;
  may_open_ = !known;
  for (const Task& task : tasks) {
    closed = closed || (closes && (!known || minute.Closes()));  // by those before it
    const bool again = retried_.contains(task.instance);
    retry = retry || again;
    ++minute.claims;
    minute.retries += again;
    may_open_ = may_open_ || minute.Opens();
    Take(task, closed);
  }
  CheckState();
  const bool room = tasks.size() < static_cast<size_t>(most);
  if (!due || retry) starved_ = {};
  if (due && !retry && room && starved_ == Timestamp()) starved_ = world_.now();
  Expect(starved_ == Timestamp() || !due || retry || world_.now() < starved_ + 15s,
         "a retry is due, and nobody is given it");
}

// What has been published and not been looked at says so.
bool BreakerSim::ClosesNow() const {
  const std::vector<Event>& all = world_.published();
  return std::ranges::find(all.begin() + static_cast<long>(published_), all.end(),
                           ChangeKind::kBreakerClosed, &Event::kind) != all.end();
}

void BreakerSim::Take(const Task& task, bool closed) {
  Handed one{.instance = task.instance, .claim = task.claim, .at = world_.now()};
  one.deadline = task.deadline;
  one.retry = retried_.contains(task.instance);
  one.after = one.retry && open_ && !closed;
  if (one.after) {
    const Duration gap(static_cast<int64_t>(1e6 / rate_));
    Expect(world_.now() >= last_retry_ + gap - kEdge,
           "a retry is handed out " + std::to_string((world_.now() - last_retry_).count()) +
               " us after the last one, at a rate of " + std::to_string(rate_));
    last_retry_ = world_.now();
  }
  handed_.push_back(std::move(one));
}

// Also of what has timed out: it may still win.
void BreakerSim::Report() {
  std::vector<Handed*> open;
  for (Handed& one : handed_) {
    if (!one.over && !one.given_back) open.push_back(&one);
  }
  if (open.empty() || random_.Chance(40)) return;
  Handed& one = *random_.Of(open);
  bool accepted = false;
  Turn([&](Engine& engine) {
    accepted = engine.Report("ns", one.instance, {.transition = "ok", .claim = one.claim})
                   .has_value();
  });
  Expect(accepted, "a report is refused");
  for (Handed& other : handed_) other.over = other.over || other.instance == one.instance;
  if (one.after && open_) {
    rate_ *= 2;
    half_open_ = true;
  }
  CheckState();
}

void BreakerSim::GiveBack() {
  std::vector<Handed*> open;
  for (Handed& one : handed_) {
    if (!one.over && !one.given_back && !one.timed_out) open.push_back(&one);
  }
  if (open.empty()) return;
  Handed& one = *random_.Of(open);
  Turn([&](Engine& engine) { (void)engine.Relinquish("ns", one.instance, one.claim, {}); });
  one.given_back = true;
  Minute minute;
  may_open_ = !Known(&minute) || minute.Opens();
  CheckState();
}

// The server's minute is between 59 and 60 seconds long.
bool BreakerSim::Known(Minute* minute) const {
  for (const Handed& one : handed_) {
    const Duration ago = world_.now() - one.at;
    if (ago > 58'900ms && ago < 60'100ms) return false;
    if (ago > 60s || one.given_back) continue;
    ++minute->claims;
    minute->retries += one.retry;
  }
  return true;
}

bool BreakerSim::RetryWaits() const {
  if (!open_) return false;
  const Duration gap(static_cast<int64_t>(1e6 / rate_));
  if (world_.now() < last_retry_ + gap + kEdge) return false;
  return std::ranges::any_of(retried_, [this](const std::string& id) {
    return std::ranges::none_of(handed_, [&](const Handed& one) {
      const bool live = !one.given_back && !one.timed_out;
      return one.instance == id && (one.over || live);
    });
  });
}

void BreakerSim::CheckState() {
  const std::vector<Event>& all = world_.published();
  bool changed = false;
  for (; published_ < all.size(); ++published_) {
    const ChangeKind kind = all[published_].kind;
    if (kind != ChangeKind::kBreakerOpened && kind != ChangeKind::kBreakerClosed) continue;
    changed = true;
    open_ = kind == ChangeKind::kBreakerOpened;
    half_open_ = false;
    rate_ = 1;
    last_retry_ = all[published_].time;
    starved_ = {};
    for (Handed& one : handed_) one.after = false;
  }
  Minute minute;
  if (!Known(&minute)) return;
  const std::string counts = " with " + std::to_string(minute.retries) + " of " +
                             std::to_string(minute.claims) + " claims retries";
  Expect(!changed || !open_ || may_open_, "it opens" + counts);
  const bool claimed = !handed_.empty() && handed_.back().at == world_.now();
  if (!changed && claimed) {
    Expect(open_ || !minute.Opens(), "it does not open" + counts);
    Expect(!open_ || !minute.Closes(), "it does not close" + counts);
  }
  const auto views = world_.engine().ListMachines("ns", false, {"", 0}, 10);
  const std::string state = open_ ? half_open_ ? "half-open" : "open" : "closed";
  Expect(views.size() == 1 && views.front().stats.breaker == state,
         "it is shown as " + std::string(views.front().stats.breaker) + " instead of " + state);
}

}  // namespace dfsmr
