// A dry run walks an instance without effects: at work that no worker does, the server reports what
// a worker might have. The rules for that are in rules.h, beside the others; here is what it says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/rules/rules.h"

namespace dfsmr {

inline constexpr std::string_view kDryRunClient = "dry run";  // who reports
inline constexpr uint64_t kDryRunVisits = 10'000;             // one that makes more is stopped

// An instance that is started with an answer.
struct DryStart {
  std::string machine;
  uint32_t version = 0;
  std::string id;
  std::string params;  // JSON object; empty: none
};

// What the server reports at a node of a dry run.
struct DryAnswer {
  ReportArgs
      report;  // its client is kDryRunClient; without a transition: what it is without answer
  std::vector<DryStart> children;  // that a step starts, and waits for
  std::vector<DryStart> starts;    // besides
  uint64_t times = 0;              // on so many visits of the node; 0: on all
};

// As it was sent with the start: a transition, or a well-formed JSON object with the keys of a
// report, in either spelling of theirs (wake_after, wakeAfter). The error says which keys there
// are.
Result<DryAnswer> ReadDryAnswer(std::string_view text);

// The answer that was given for the node where a token of a dry run stands; nullopt: none counts
// here.
struct GivenAnswer {
  DryAnswer answer;
  std::string of;  // the name under which it was given
};
std::optional<GivenAnswer> AnswerGiven(const Machine& machine, const Instance& instance,
                                       const Spec& spec, const Token& token);

// What the server reports of a token of a dry run that stands still; nullopt: nothing, since a
// worker does the work, or somebody from outside decides.
std::optional<GivenAnswer> AnswerFor(const Machine& machine, const Instance& instance,
                                     const Spec& spec, const Token& token);

// Whether workers are asked for the work at a node of a dry run.
inline bool ForDryWorkers(const Node& node) { return node.settings->dry_run.worker; }

}  // namespace dfsmr
