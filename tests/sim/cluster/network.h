// Time, and what comes when: one list of things to do, in order. Who is cut off from whom.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "dsrv/cluster/member.h"
#include "tests/sim/random.h"

namespace dfsmr::cluster_sim {

class Network {
 public:
  explicit Network(uint64_t seed) : random_(seed) {}

  LeaseTime now() const { return now_; }
  void At(LeaseTime when, std::function<void()> what) {
    todo_.emplace(std::pair(std::max(when, now_), ++number_), std::move(what));
  }
  void In(LeaseTime after, std::function<void()> what) { At(now_ + after, std::move(what)); }
  // Does what comes next; `tick` is told that time has passed. False: there is nothing to do until
  // `end`.
  bool Step(LeaseTime end, const std::function<void()>& tick) {
    const bool more = !todo_.empty() && todo_.begin()->first.first <= end;
    now_ = more ? todo_.begin()->first.first : end;
    tick();
    if (more) todo_.extract(todo_.begin()).mapped()();
    return more;
  }

  // A hop.
  LeaseTime Delay() {
    const size_t dice = random_.Below(100);
    const size_t us = dice < 80            ? 100 + random_.Below(900)
                      : dice < 97 || calm_ ? random_.Below(20'000)
                                           : random_.Below(600'000);
    return std::chrono::microseconds(us);
  }
  // No hop takes long.
  void Calm(bool calm) { calm_ = calm; }
  Random& random() { return random_; }

  // Between two servers, by number, one way; -1: the database, both ways.
  void Cut(int from, int to) { cut_.emplace(from, to); }
  void Mend(int from, int to) { cut_.erase({from, to}); }
  void MendAll() { cut_.clear(); }
  bool Through(int from, int to) const { return !cut_.contains({from, to}); }
  bool Reaches(int server) const { return Through(server, -1); }

 private:
  Random random_;
  LeaseTime now_{};
  bool calm_ = false;
  uint64_t number_ = 0;
  std::map<std::pair<LeaseTime, uint64_t>, std::function<void()>> todo_;
  std::set<std::pair<int, int>> cut_;
};

}  // namespace dfsmr::cluster_sim
