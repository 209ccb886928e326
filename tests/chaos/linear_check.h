// A sequential specification of one instance of the machine
//   a: {ok: b, again: a}   b: at most once, {ok: d, back: a}   d: final
// and a search for an order of its operations that the specification allows and that respects which
// of them had ended before another began (Wing and Gong's, with Lowe's memory of what was tried).
// Instances are independent, so a history is linearizable if that of each instance is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dfsmr::chaos {

struct Operation {
  enum class Kind {
    kStart, kReady, kReport, kEvent, kRelinquish, kCancel, kForce, kGet,
    kCrash,  // the server was killed and started again: claims that run at least once may be lost
  };
  Kind kind = Kind::kGet;
  int64_t invoked = 0;
  int64_t returned = INT64_MAX;  // INT64_MAX: the outcome is unknown, it may never have happened
  std::string claim;             // of a report or relinquish; of a Ready: what it was given
  std::string transition;
  std::string refusal;           // the reason; "none" from a Ready: there was nothing
  std::string node;              // of the answer; empty: it does not say
  uint64_t visit = 0;
  bool created = false;          // of a Start
  bool repeated = false;         // of a report
  bool claimed = false;          // of a Get
  char state = 'R';              // of the answer: R running, S stopped with SUCCESS, C CANCELLED

  bool known() const { return returned != INT64_MAX; }
};

std::string Describe(const Operation& operation);

// The instance at one moment.
struct Model {
  struct Answer {
    std::string prev_node;
    std::string node;
    uint64_t visit = 0;
    char state = 'R';
  };
  bool exists = false;
  char state = 'R';
  bool cancel_requested = false;
  std::string node;
  uint64_t visit = 0;
  std::set<std::string> held;  // claims of this visit
  std::set<std::string> lost;  // that a crash has forgotten: they may still report
  std::map<std::pair<std::string, std::string>, Answer> answered;  // claim and transition

  // The states that `operation` with the answer it got may lead to; none: it cannot happen here.
  std::vector<Model> After(const Operation& operation) const;
  std::string Key() const;  // equal for equal states
};

// Empty: there is such an order. Else the longest that was found, and what could not follow.
std::string CheckLinear(const std::vector<Operation>& history);

}  // namespace dfsmr::chaos
