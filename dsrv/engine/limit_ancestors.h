// Instances that steps started, and that wait for keys which their ancestors alone hold: these wait
// for them, so they would wait for ever, and are stopped.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dsrv/engine/limit_children.h"
#include "dsrv/engine/limit_judge.h"
#include "dsrv/engine/names.h"
#include "fsm/derived/limit_table.h"

namespace dfsmr {

class LimitAncestors {
 public:
  LimitAncestors(Residents& residents, Changer& changer, LimitTable& table, LimitJudge& judge)
      : residents_(residents), changer_(changer), table_(table), judge_(judge) {}

  // An instance, or a token of it, stands in the line of keys, or does not any more.
  void Note(const Instance& instance, const std::vector<LimitKey>& keys, bool stands);
  // Finds who is above the next parent of some that wait. False: it is known of all.
  bool Chart();
  // Stops children of the next key that would wait for ever. False: there is no such key.
  bool StopForEver();

 private:
  bool StopSome(const std::string& full, const std::string& parent);

  Residents& residents_;
  Changer& changer_;
  LimitTable& table_;
  LimitJudge& judge_;
  LimitChildren children_;
  std::set<std::string> unsure_;  // ns\0key: children that wait there are to be looked at again
};

}  // namespace dfsmr
