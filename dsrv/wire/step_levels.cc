#include "dsrv/wire/step_levels.h"

#include <google/protobuf/util/time_util.h>

#include <array>
#include <functional>
#include <set>
#include <utility>

namespace dfsmr {
namespace {

using google::protobuf::util::TimeUtil;

constexpr size_t kRowsBefore = 1'000;  // rows before one

bool HasEnded(const v1::Step& step) {
  switch (step.state()) {
    case v1::Step::DONE:
    case v1::Step::SKIPPED:
    case v1::Step::LEFT_OUT:
    case v1::Step::NOT_RUN:
      return true;
    default:
      return false;
  }
}

// What ended without having begun has made no progress.
bool HasRun(const v1::Step& step) {
  return HasEnded(step) && step.state() != v1::Step::NOT_RUN;
}

// The row that a path belongs to: `under`, and one name more; empty: it does not lie there.
std::string_view RowOf(std::string_view path, std::string_view under) {
  size_t begin = 0;
  if (!under.empty()) {
    if (path.size() <= under.size() + 1 || !path.starts_with(under)) return {};
    if (path[under.size()] != '.') return {};
    begin = under.size() + 1;
  }
  return path.substr(0, path.find('.', begin));
}

}  // namespace

// Adds up the steps of one row.
struct StepLevel::Summing {
  v1::StepRow row;
  double progress = 0;
  bool all_ended = true;
  std::array<uint64_t, v1::Step::State_ARRAYSIZE> states = {};
  std::set<std::string, std::less<>> after;

  void Add(const v1::Step& step, std::string_view path, std::string_view under) {
    row.set_steps(row.steps() + 1);
    if (v1::Step::State_IsValid(step.state())) ++states[static_cast<size_t>(step.state())];
    progress += HasRun(step) ? 1 : step.progress();
    all_ended = all_ended && HasEnded(step);
    if (step.has_start_time() && (!row.has_start_time() || step.start_time() < row.start_time())) {
      *row.mutable_start_time() = step.start_time();
    }
    if (step.has_end_time() && (!row.has_end_time() || row.end_time() < step.end_time())) {
      *row.mutable_end_time() = step.end_time();
    }
    const bool held = step.state() == v1::Step::HELD || step.finalize() == v1::Step::HELD;
    if (held && row.error().empty()) row.set_error(step.error());
    for (const std::string& before : step.after()) {
      const std::string_view other = RowOf(before, under);
      if (other.empty() || other == path || after.size() == kRowsBefore) continue;
      if (!after.contains(other)) after.emplace(other);
    }
  }

  void Finish() {
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == 0) continue;
      (*row.mutable_states())[v1::Step::State_Name(static_cast<v1::Step::State>(i))] = states[i];
    }
    row.set_progress(progress / static_cast<double>(row.steps()));
    if (!all_ended) row.clear_end_time();
    for (const std::string& path : after) row.add_after(path);
  }

  bool Has(v1::Step::State state) const { return states[static_cast<size_t>(state)] > 0; }
};

StepLevel::StepLevel(std::string under, v1::Step::State state)
    : under_(std::move(under)), state_(state) {}
StepLevel::~StepLevel() = default;

void StepLevel::Add(const v1::Step& step) {
  const std::string_view path = RowOf(step.path(), under_);
  if (path.empty()) return;
  auto row = rows_.find(path);
  if (row == rows_.end()) {
    Summing& added = sums_.emplace_back();
    added.row.set_path(std::string(path));
    row = rows_.emplace(added.row.path(), &added).first;
  }
  Summing& sum = *row->second;
  if (step.path() == path) *sum.row.mutable_step() = step;
  sum.Add(step, path, under_);
}

bool StepLevel::Take(size_t first, const std::function<bool(v1::StepRow* row)>& take) {
  size_t at = 0;
  for (const bool failed : {true, false}) {
    for (Summing& sum : sums_) {
      if (sum.Has(v1::Step::HELD) != failed) continue;
      if (state_ != v1::Step::STATE_UNSPECIFIED && !sum.Has(state_)) continue;
      if (at++ < first) continue;
      sum.Finish();
      if (!take(&sum.row)) return true;
    }
  }
  return false;
}

}  // namespace dfsmr
