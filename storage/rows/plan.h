// The rows of plans: their steps, and what planners and workers asked for. Their graphs are in
// graph.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// The state of one place of a plan. PutInstance writes the rows that have changed.
struct StepRow {
  NodeIndex home = kNoNode;
  std::optional<Token> token;
  std::string node;  // the token's, by name
  std::optional<Token> left;  // where it stood when it was cancelled or stopped, for a resume
  uint32_t arrived = 0;
  bool doomed = false;
  std::string input;  // replaces the step's own; empty: does not
  std::optional<Ended> ended;
  std::optional<Settling> settling;
  std::optional<Keepsake> kept;
};
// All steps of an instance, by home, until `visit` returns false; with `wanted` only those that it
// wants, and the others are not read.
Result<Ok> ScanSteps(const Reader& reader, InstanceName name,
                     const std::function<bool(StepRow)>& visit,
                     const std::function<bool(NodeIndex)>& wanted = nullptr);

// Those rows as the store has them, each decoded when it is asked for: of 100,000 steps they are a
// tenth as large so.
class StepRows {
 public:
  // As ScanSteps.
  static Result<StepRows> Read(const Reader& reader, InstanceName name,
                               const std::function<bool(NodeIndex)>& wanted = nullptr);

  // nullopt: the step has not been reached, or was not wanted.
  Result<std::optional<StepRow>> At(NodeIndex home) const;

 private:
  struct Row {
    NodeIndex home = kNoNode;
    size_t begin = 0;  // in values_
  };

  PartitionId partition_ = 0;
  std::string ns_;
  std::string instance_;
  std::vector<Row> rows_;  // by home
  std::string values_;
};

// One of them; nullopt: the step has not been reached.
Result<std::optional<StepRow>> GetStep(const Reader& reader, InstanceName name, NodeIndex home);
// Restores what is known of the steps of a stopped instance, or of one of them, for its resume.
Result<Ok> RestoreSteps(const Reader& reader, Instance* instance);
Result<Ok> RestoreStep(const Reader& reader, NodeIndex home, Instance* instance);

// A child that a worker asked to be started: the fields of a start that the worker chooses.
struct ChildStart {
  std::string machine;
  uint32_t version = 0;
  std::string id;
  int32_t priority = 0;
  Spec spec;
  Timestamp start_at;
  Timestamp start_before = kNever;
  bool hold = false;
  std::vector<Instance::Prerequisite> after;
  std::string package_version = {};  // that `machine` is of; empty: the one that its name means
};
void PutStarts(const Writer& writer, InstanceName name, NodeIndex home,
               const std::vector<ChildStart>& starts);
// kDataLoss when there are none.
Result<std::vector<ChildStart>> GetStarts(const Reader& reader, InstanceName name, NodeIndex home);
// A start that waits, with the report that makes it, for the resume of its instance.
struct KeptStart : ChildStart {
  std::string ns;
  std::string group;
  std::optional<Duration> wait_after_fail;
  std::optional<OnConflict> on_conflict;
  bool force = false;
  bool dry_run = false;
};
// For LateReport::starts. Empty when there are none.
std::string EncodeStarts(const std::vector<KeptStart>& starts);
// kDataLoss when `text` has not been encoded so.
Result<std::vector<KeptStart>> DecodeStarts(std::string_view text);
// The flow that a planner has reported for a step.
void PutPlanned(const Writer& writer, InstanceName name, std::string_view step,
                std::string_view flow);
// By step.
Result<std::map<std::string, std::string>> GetPlanned(const Reader& reader, InstanceName name);
// Children that could not be started, by their numbers.
void PutUnstarted(const Writer& writer, InstanceName name, NodeIndex home, uint64_t number);
void DropUnstarted(const Writer& writer, InstanceName name, NodeIndex home, uint64_t number);
Result<bool> IsUnstarted(const Reader& reader, InstanceName name, NodeIndex home, uint64_t number);
// Drops the rows of the steps when another graph replaces the instance's: there the same numbers
// mean other steps.
void DropSteps(const Writer& writer, InstanceName name);
// Drops all rows of a plan except the instance's own, before it is planned again.
void DropPlan(const Writer& writer, InstanceName name);

}  // namespace dfsmr::rows
