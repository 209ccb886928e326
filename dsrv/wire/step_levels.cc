#include "dsrv/wire/step_levels.h"

#include <array>
#include <optional>
#include <set>
#include <utility>

namespace dfsmr {
namespace {

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

std::pair<int64_t, int32_t> Parts(const google::protobuf::Timestamp& time) {
  return {time.seconds(), time.nanos()};
}

}  // namespace

// What is known of one row when all steps have been looked at, and what has them listed.
struct StepLevel::Sum {
  std::string_view path;
  size_t first = 0;  // of its steps, each of which knows the next
  size_t last = 0;
  std::optional<size_t> own;    // the step that the row is
  std::optional<size_t> error;  // the first that is held
  uint32_t steps = 0;
  std::array<uint32_t, v1::Step::State_ARRAYSIZE> states = {};
  double progress = 0;
  bool all_ended = true;
  std::optional<std::pair<int64_t, int32_t>> start;
  std::optional<std::pair<int64_t, int32_t>> end;

  void Add(size_t at, const v1::Step& step) {
    ++steps;
    if (v1::Step::State_IsValid(step.state())) ++states[static_cast<size_t>(step.state())];
    progress += HasRun(step) ? 1 : step.progress();
    all_ended = all_ended && HasEnded(step);
    if (step.has_start_time()) {
      const auto begun = Parts(step.start_time());
      if (!start || begun < *start) start = begun;
    }
    if (step.has_end_time()) {
      const auto ended = Parts(step.end_time());
      if (!end || *end < ended) end = ended;
    }
    const bool held = step.state() == v1::Step::HELD || step.finalize() == v1::Step::HELD;
    if (held && !error && !step.error().empty()) error = at;
  }

  bool Has(v1::Step::State state) const { return states[static_cast<size_t>(state)] > 0; }
};

StepLevel::StepLevel(Steps& steps, std::string under, v1::Step::State state)
    : steps_(steps), under_(std::move(under)), state_(state) {}
StepLevel::~StepLevel() = default;

StepLevel::Sum& StepLevel::SumOf(std::string_view path) {
  if (!sums_.empty() && sums_.back().path == path) return sums_.back();
  const auto [row, added] = rows_.try_emplace(path, sums_.size());
  if (added) sums_.emplace_back().path = path;
  return sums_[row->second];
}

Result<Ok> StepLevel::Look() {
  constexpr size_t kLast = SIZE_MAX;
  next_.assign(steps_.size(), kLast);
  v1::Step step;
  for (size_t at = 0; at < steps_.size(); ++at) {
    const std::string_view path = RowOf(steps_.PathOf(at), under_);
    if (path.empty()) continue;
    step.Clear();
    auto stood = steps_.Stand(at, &step);
    if (!stood) return stood;
    Sum& sum = SumOf(path);
    if (sum.steps == 0) {
      sum.first = at;
    } else {
      next_[sum.last] = at;
    }
    sum.last = at;
    if (steps_.PathOf(at) == path) sum.own = at;
    sum.Add(at, step);
  }
  return Ok{};
}

Result<Ok> StepLevel::Show(const Sum& sum, v1::StepRow* row) {
  row->set_path(std::string(sum.path));
  if (sum.own) {
    auto shown = steps_.Show(*sum.own, row->mutable_step());
    if (!shown) return shown;
  }
  row->set_steps(sum.steps);
  for (size_t i = 0; i < sum.states.size(); ++i) {
    if (sum.states[i] == 0) continue;
    (*row->mutable_states())[v1::Step::State_Name(static_cast<v1::Step::State>(i))] = sum.states[i];
  }
  row->set_progress(sum.progress / static_cast<double>(sum.steps));
  if (sum.start) {
    row->mutable_start_time()->set_seconds(sum.start->first);
    row->mutable_start_time()->set_nanos(sum.start->second);
  }
  if (sum.end && sum.all_ended) {
    row->mutable_end_time()->set_seconds(sum.end->first);
    row->mutable_end_time()->set_nanos(sum.end->second);
  }
  if (sum.error) {
    v1::Step held;
    auto stood = steps_.Stand(*sum.error, &held);
    if (!stood) return stood;
    row->set_error(held.error());
  }
  ShowAfter(sum, row);
  return Ok{};
}

void StepLevel::ShowAfter(const Sum& sum, v1::StepRow* row) {
  std::set<std::string_view> after;
  const auto add = [&](std::string_view before) {
    const std::string_view other = RowOf(before, under_);
    if (other.empty() || other == sum.path || after.size() == kRowsBefore) return;
    after.insert(other);
  };
  for (size_t at = sum.first;; at = next_[at]) {
    if (at == sum.own) {
      // These have been found already.
      for (const std::string& before : row->step().after()) add(before);
    } else {
      for (std::string_view before : steps_.Before(at)) add(before);
    }
    if (at == sum.last) break;
  }
  for (std::string_view path : after) row->add_after(std::string(path));
}

Result<bool> StepLevel::Take(size_t first, const std::function<bool(v1::StepRow* row)>& take) {
  auto looked = Look();
  if (!looked) return looked.error();
  size_t at = 0;
  for (const bool failed : {true, false}) {
    for (const Sum& sum : sums_) {
      if (sum.Has(v1::Step::HELD) != failed) continue;
      if (state_ != v1::Step::STATE_UNSPECIFIED && !sum.Has(state_)) continue;
      if (at++ < first) continue;
      v1::StepRow row;
      auto shown = Show(sum, &row);
      if (!shown) return shown.error();
      if (!take(&row)) return true;
    }
  }
  return false;
}

}  // namespace dfsmr
