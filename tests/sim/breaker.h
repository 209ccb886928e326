// One simulated run of a machine whose workers mostly die: its breaker opens, lets retries out one
// by one, and closes, as an account of all claims says that it must.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/random.h"

namespace dfsmr {

class BreakerSim {
 public:
  explicit BreakerSim(uint64_t seed);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  struct Handed {
    std::string instance;
    std::string claim;
    Timestamp at;
    Timestamp deadline;
    bool retry = false;
    bool given_back = false;
    bool over = false;        // reported, or its visit is over
    bool timed_out = false;
    bool after = false;       // a retry, handed out since the breaker has opened
  };
  struct Minute {
    size_t claims = 0;
    size_t retries = 0;
    bool Opens() const { return claims >= 20 && retries * 2 >= claims; }
    bool Closes() const { return claims == 0 || retries * 10 < claims; }
  };

  void Step();
  void Turn(const std::function<void(Engine&)>& command);
  void PassTime();
  void Poll();
  bool ClosesNow() const;
  // `closed`: the breaker has closed before it, in this turn.
  void Take(const Task& task, bool closed);
  void Report();
  void GiveBack();
  void Failed(Handed& one);
  // Claims since then; nothing: some are so old that they may count or not.
  bool Known(Minute* minute) const;
  bool RetryWaits() const;
  void CheckState();
  void Expect(bool good, const std::string& what);

  Random random_;
  World world_;
  std::vector<Handed> handed_;
  std::set<std::string> retried_;  // instances of whose visit a claim has timed out
  uint64_t started_ = 0;
  bool open_ = false;
  bool half_open_ = false;
  bool may_open_ = false;    // what this turn has claimed or given back may open it
  double rate_ = 1;
  Timestamp last_retry_;     // or when it opened
  Timestamp starved_;        // since then no retry came, though one might have; zero: none was due
  size_t published_ = 0;     // records that were looked at
  std::string problem_;
};

}  // namespace dfsmr
