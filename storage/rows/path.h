// Whether the history of an instance is a path: each record that moves it leads on from where it
// has been, by the rules of the machine that it was on then.
#pragma once

#include <set>
#include <string>

#include "fsm/machine/machine.h"
#include "fsm/rules/instance.h"

namespace dfsmr::rows {

class Path {
 public:
  // The next record. `machine`: that of the record's version; null where nothing is known of it.
  // False: from where the instance has been this does not lead on. Of plans nothing is said, since
  // each of their instances has a graph of its own.
  bool Follow(const Event& event, const Machine* machine);

 private:
  bool Leads(const Event& event, const Machine& machine) const;

  std::set<std::string> entered_;
  bool anywhere_ = false;  // it came from elsewhere, and what it had entered there is not told
  std::string timed_out_;  // the node of the last claim that timed out
};

}  // namespace dfsmr::rows
