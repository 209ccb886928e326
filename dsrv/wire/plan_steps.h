// The steps of a plan as clients see them, each made when it is asked for.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/wire/steps.h"
#include "fsm/plan/assemble.h"
#include "storage/rows/plan.h"

namespace dfsmr {

class PlanSteps final : public Steps {
 public:
  // Of `under` (empty: the plan) only that step, and those whose paths lie under it. `stopped`:
  // whether the instance has, so that what waits will not run.
  PlanSteps(std::shared_ptr<const PlanGraph> graph, std::string_view under, bool stopped);

  // Reads how they stand, which blocks; without it nothing of the plan has begun.
  Result<Ok> Read(const rows::Reader& reader, rows::InstanceName instance);

  size_t size() const override { return shown_.size(); }
  std::string_view PathOf(size_t at) const override { return graph_->steps[shown_[at]].path; }
  Result<Ok> Stand(size_t at, v1::Step* out) override;
  Result<Ok> Show(size_t at, v1::Step* out) override;
  // At most 200,000 of all that are asked for.
  std::vector<std::string_view> Before(size_t at) override;

  // What an operator wrote in place of the input of a step; empty: nothing.
  Result<std::string> NewInputOf(NodeIndex home) const;

 private:
  void FindHomes();
  void FindBefore();
  void FindConditions();
  void FindSections();
  // Whether it stands in front of a step and what came with that, and decides whether they run.
  bool IsGate(uint32_t step) const {
    return graph_->ifs.contains(step) && graph_->steps[step].path.ends_with("/gate");
  }
  // Whether it stands for no step that anybody wrote.
  bool IsHidden(uint32_t step) const { return IsGate(step) || hidden_.contains(step); }
  NodeIndex FinalizeOf(uint32_t step) const;
  // nullopt also of a row that is damaged: then `sound_` says so.
  std::optional<rows::StepRow> RowAt(NodeIndex home);

  // How a section stands: by the gates in front of its steps and behind them.
  v1::Step::State SectionStateOf(const Section& section, v1::Step* out);
  v1::Step::State StateOf(const rows::StepRow& row, bool works, v1::Step* out) const;
  // `works`: it is of the run of a step that workers run.
  v1::Step::State StateOf(const Token& token, bool works) const;
  // Of a step's run or finalize phase, which the plan may have stopped before.
  v1::Step::State FinalStateOf(uint32_t step, NodeIndex home, v1::Step* out);

  const std::shared_ptr<const PlanGraph> graph_;
  const bool stopped_;
  NodeNumbers numbers_;
  std::vector<uint32_t> shown_;   // steps
  std::vector<NodeIndex> homes_;  // by step
  rows::StepRows rows_;
  Result<Ok> sound_ = Ok{};
  // By place, where those that lead to it begin in `leading_`; empty: not yet found.
  std::vector<size_t> before_;
  std::vector<uint32_t> leading_;                    // places
  std::vector<uint32_t> place_of_;                   // by step
  std::map<uint32_t, std::string_view> conditions_;  // by step
  std::map<uint32_t, uint32_t> sections_;            // by the steps in front of them
  std::map<uint32_t, uint32_t> ends_;                // by the steps behind them: those in front
  std::set<uint32_t> hidden_;  // behind sections, in front of and behind compensations
  size_t before_told_ = 0;
};

}  // namespace dfsmr
