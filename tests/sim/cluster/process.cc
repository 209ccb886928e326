#include "tests/sim/cluster/process.h"

#include <algorithm>

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LeaseTime kTimeLimit = seconds(3);  // of what is asked of the database

}  // namespace

Process::Process(Cluster& cluster, int number)
    : cluster_(cluster), number_(number), entropy_(cluster.network.random().Next()) {}

void Process::Begin() {
  Random& random = cluster_.network.random();
  ++process_;
  runs_ = true;
  paused_until_ = LeaseTime{};
  in_answer_.reset();
  offset_ = seconds(random.Below(100'000));
  const auto span = static_cast<size_t>(2 * cluster_.pace + 1);
  pace_ = 1'000 - cluster_.pace + static_cast<int64_t>(random.Below(span));
  shown_ = Timestamp{};
  Follow(cluster_.store_time() + microseconds(random.Below(10'000'000'000)));  // a wild clock
}

void Process::End() {
  runs_ = false;
  ++process_;
}

std::function<void()> Process::Mine(std::function<void()> what) {
  return [this, process = process_, what = std::move(what)] {
    if (!runs_ || process != process_) return;
    if (!paused()) return what();
    cluster_.network.At(paused_until_, Mine(what));
  };
}

void Process::Later(LeaseTime after, std::function<void()> what) {
  cluster_.network.In(after, Mine(std::move(what)));
}

void Process::Follow(Timestamp store_time) {
  store_time_ = store_time;
  store_time_at_ = Clock();
}

Timestamp Process::Time() {
  const auto since = std::chrono::duration_cast<Duration>(Clock() - store_time_at_);
  shown_ = std::max(shown_, store_time_ + since);
  return shown_;
}

void Process::Befall() {
  const InAnswer what = *std::exchange(in_answer_, std::nullopt);
  ++cluster_.hits[what.cut ? "a server is cut off while an answer is on its way"
                           : "a server is paused while an answer is on its way"];
  if (!what.cut) return Pause(cluster_.network.now() + what.span);
  cluster_.network.Cut(number_, -1);
  cluster_.network.In(what.span, [this] { cluster_.network.Mend(number_, -1); });
}

void Process::Send(Way way, bool renewal, std::function<void()> ask,
                   std::function<void(bool)> then) {
  Network& network = cluster_.network;
  auto done = std::make_shared<bool>(false);
  auto answer = [done, then = std::move(then)](bool answered) {
    if (std::exchange(*done, true)) return;
    then(answered);
  };
  const size_t dice = network.random().Below(100);
  const auto percent = static_cast<size_t>(way.lost);
  const bool late = way.late > 0 && network.random().Chance(way.late);
  const LeaseTime there = network.Delay();
  if (!network.Reaches(number_) || dice < percent) {
    ++cluster_.hits["asked of the database in vain"];
  } else if (dice < 2 * percent) {
    ++cluster_.hits["done by the database, and never answered"];
    network.In(there, ask);
  } else if (dice < 3 * percent || late) {
    ++cluster_.hits["done by the database long after it was asked"];
    // At times just when it is asked again.
    const LeaseTime after = network.random().Chance(50)
                                ? LeaseTime(microseconds(network.random().Below(20'000)))
                                : LeaseTime(milliseconds(network.random().Below(40'000)));
    network.In(kTimeLimit + after, [&well = cluster_.well, ask] {
      if (!well) ask();
    });
  } else {
    auto deliver = Mine([answer] { answer(true); });
    network.In(there, [this, ask, renewal, deliver, back = network.Delay(), process = process_] {
      ask();
      const bool befalls = in_answer_ && process == process_ && (renewal || !in_answer_->renewal);
      if (befalls) Befall();
      if (cluster_.network.Reaches(number_)) cluster_.network.In(back, deliver);
    });
  }
  Later(kTimeLimit, [answer] { answer(false); });
}

}  // namespace dfsmr::cluster_sim
