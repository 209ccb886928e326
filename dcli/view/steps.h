// The steps of a plan in the words of tables: a tree of their paths, states, sums.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dcli/call/context.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

using Steps = google::protobuf::RepeatedPtrField<v1::Step>;

// Paths taken apart at their dots: what several of them begin with stands over them, in the order
// in which it came first.
struct PathTree {
  struct Branch {
    std::string name;           // what it adds to the path of the branch that it stands under
    int64_t path = -1;          // its number among the paths; -1: it only holds others
    std::vector<size_t> below;  // branches
  };
  std::vector<Branch> branches;  // the first is the root
};
PathTree TreeOf(const std::vector<std::string>& paths);
// The tree as lines, each with the number of its path, or -1.
std::vector<std::pair<std::string, int64_t>> LinesOf(const PathTree& tree);

// "web.vm" of the nodes "web.vm", "web.vm/error" and "web.vm/finalize".
std::string StepOfNode(const std::string& node);

// "RUNNING", or "" for the unspecified one.
std::string NameOf(v1::Step::State state);
// "▶ RUNNING".
std::string StateText(v1::Step::State state);
// "children 12/100, 3 running, 1 failed".
std::string ChildrenText(const v1::Children& children);
// From its start to its end, or until now while it goes on; "" before and while it is held.
std::string TookText(const v1::Step& step, const Look& look);

// How many steps are in which state.
struct Tally {
  std::array<uint64_t, v1::Step::State_ARRAYSIZE> of = {};
  void Add(const v1::Step& step);
  void Add(const Tally& other);
  uint64_t all() const;
  // Done, skipped or left out.
  uint64_t settled() const;
  // What stands for all of them: the state that wants attention first.
  v1::Step::State state() const;
};
// "14 of 27 steps done, 3 running, 1 held".
std::string TallyText(const Tally& tally);

// One line for each step and each name over several; a step's line comes before what is below it.
// With `collapse`, neighbours that are all settled, all pending or all ready share one line.
// `due` says when what waits is handed out by itself, by path.
using Dues = std::map<std::string, google::protobuf::Timestamp>;
Table StepTable(const Steps& steps, bool collapse, const Look& look, const Dues& due = {});

// What a plan with steps has where a machine has tokens.
void PrintSteps(Context& context, const v1::Instance& instance);

}  // namespace dfsmr::cli
