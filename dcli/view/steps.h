// The steps of a plan as tables: a tree of their paths, their states, and sums over them.
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

// Paths, split at their dots: a beginning that several paths share becomes a branch above them. The
// order is that of the first path of each branch.
struct PathTree {
  struct Branch {
    std::string name;           // the part of the path that it adds to the branch above it
    int64_t path = -1;          // its number among the paths; -1: it only has branches below
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
// The time from its start to its end, or until now while it runs; "" before its start and while it
// is held.
std::string TookText(const v1::Step& step, const Look& look);

// How many steps are in which state.
struct Tally {
  std::array<uint64_t, v1::Step::State_ARRAYSIZE> of = {};
  void Add(const v1::Step& step);
  void Add(const Tally& other);
  uint64_t all() const;
  // Done, skipped or left out.
  uint64_t over() const;
  // The state to show for all of them: the one that needs attention most.
  v1::Step::State state() const;
};
// "14 of 27 steps done, 3 running, 1 held".
std::string TallyText(const Tally& tally);

// One line for each step, and one for each name above several steps; a line comes before those
// below it. With `collapse`, neighbours that are all over, all pending or all ready share one line.
// `due` says, by path, when a waiting step is handed out by itself.
using Dues = std::map<std::string, google::protobuf::Timestamp>;
Table StepTable(const Steps& steps, bool collapse, const Look& look, const Dues& due = {});

// What is shown of a plan's steps, in place of a machine's tokens.
void PrintSteps(Context& context, const v1::Instance& instance);

}  // namespace dfsmr::cli
