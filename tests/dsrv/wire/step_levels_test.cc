// Levels of a plan's steps, of steps that a test makes up.
#include "dsrv/wire/step_levels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

namespace dfsmr {
namespace {

v1::Step StepOf(std::string path, v1::Step::State state, std::vector<std::string> after = {}) {
  v1::Step step;
  step.set_path(std::move(path));
  step.set_state(state);
  for (std::string& before : after) step.add_after(std::move(before));
  return step;
}

class MadeUp final : public Steps {
 public:
  explicit MadeUp(std::vector<v1::Step> steps) : steps_(std::move(steps)) {}

  size_t size() const override { return steps_.size(); }
  std::string_view PathOf(size_t at) const override { return steps_[at].path(); }
  Result<Ok> Stand(size_t at, v1::Step* out) override {
    if (damaged_ == at) return Error{Code::kDataLoss, Reason::kStoreFailed, "damaged"};
    *out = steps_[at];
    out->clear_after();
    return Ok{};
  }
  Result<Ok> Show(size_t at, v1::Step* out) override {
    ++shown_;
    *out = steps_[at];
    return Ok{};
  }
  std::vector<std::string_view> Before(size_t at) override {
    ++asked_before_;
    return {steps_[at].after().begin(), steps_[at].after().end()};
  }

  void Damage(size_t at) { damaged_ = at; }
  int shown() const { return shown_; }
  int asked_before() const { return asked_before_; }

 private:
  std::vector<v1::Step> steps_;
  size_t damaged_ = SIZE_MAX;
  int shown_ = 0;
  int asked_before_ = 0;
};

std::vector<v1::StepRow> RowsOf(MadeUp& steps, const std::string& under, v1::Step::State state = {},
                                size_t first = 0, size_t most = 100, bool* more = nullptr) {
  std::vector<v1::StepRow> rows;
  StepLevel level(steps, under, state);
  auto taken = level.Take(first, [&](v1::StepRow* row) {
    if (rows.size() == most) return false;
    rows.push_back(*row);
    return true;
  });
  REQUIRE(taken);
  if (more) *more = *taken;
  return rows;
}

std::string PathsOf(const std::vector<v1::StepRow>& rows) {
  std::string paths;
  for (const v1::StepRow& row : rows) paths += (paths.empty() ? "" : " ") + row.path();
  return paths;
}

MadeUp Some() {
  v1::Step late = StepOf("g.0.b", v1::Step::DONE, {"g.0.a", "x"});
  late.mutable_start_time()->set_seconds(20);
  late.mutable_end_time()->set_seconds(30);
  late.mutable_end_time()->set_nanos(1);
  v1::Step early = StepOf("g.0.a", v1::Step::SKIPPED);
  early.mutable_start_time()->set_seconds(10);
  early.mutable_end_time()->set_seconds(30);
  v1::Step runs = StepOf("g.1.a", v1::Step::RUNNING, {"g.0.b"});
  runs.mutable_start_time()->set_seconds(31);
  runs.set_progress(0.5);
  v1::Step held = StepOf("g.1.b", v1::Step::HELD, {"g.1.a"});
  held.set_error("no space");
  return MadeUp({StepOf("x", v1::Step::DONE), early, late, runs, held,
                 StepOf("y", v1::Step::PENDING, {"g.1.b", "x"})});
}

TEST_CASE("steps of a group are one row, which adds them up") {
  MadeUp steps = Some();
  const auto rows = RowsOf(steps, "g");
  REQUIRE(PathsOf(rows) == "g.1 g.0");  // what failed comes first
  const v1::StepRow& ended = rows[1];
  CHECK_FALSE(ended.has_step());
  CHECK(ended.steps() == 2);
  CHECK(ended.states().at("DONE") == 1);
  CHECK(ended.states().at("SKIPPED") == 1);
  CHECK(ended.progress() == 1);
  CHECK(ended.start_time().seconds() == 10);
  CHECK(ended.end_time().nanos() == 1);
  CHECK(ended.after().empty());  // "x" is of another level
  const v1::StepRow& held = rows[0];
  CHECK(held.progress() == 0.25);
  CHECK(held.start_time().seconds() == 31);
  CHECK_FALSE(held.has_end_time());
  CHECK(held.error() == "no space");
  REQUIRE(held.after_size() == 1);
  CHECK(held.after(0) == "g.0");
}

TEST_CASE("a step that is a row is shown with it, and waits for rows") {
  MadeUp steps = Some();
  const auto rows = RowsOf(steps, "");
  REQUIRE(PathsOf(rows) == "g x y");
  CHECK(rows[0].after_size() == 1);
  CHECK(rows[1].step().state() == v1::Step::DONE);
  CHECK(rows[2].step().after_size() == 2);
  CHECK(rows[2].after_size() == 2);
  CHECK(rows[2].after(0) == "g");
  CHECK(rows[2].after(1) == "x");
}

TEST_CASE("only the rows of a page are made") {
  std::vector<v1::Step> many;
  for (int i = 0; i < 1'000; ++i) {
    many.push_back(StepOf("g." + std::to_string(i), i == 700 ? v1::Step::HELD : v1::Step::READY));
  }
  MadeUp steps(std::move(many));
  bool more = false;
  CHECK(PathsOf(RowsOf(steps, "g", v1::Step::STATE_UNSPECIFIED, 0, 3, &more)) == "g.700 g.0 g.1");
  CHECK(more);
  CHECK(steps.shown() == 4);  // the one with which the page ends, too
  CHECK(steps.asked_before() == 0);
  CHECK(PathsOf(RowsOf(steps, "g", v1::Step::STATE_UNSPECIFIED, 998, 3, &more)) == "g.998 g.999");
  CHECK_FALSE(more);
  CHECK(PathsOf(RowsOf(steps, "g", v1::Step::HELD)) == "g.700");
  CHECK(RowsOf(steps, "h").empty());
}

TEST_CASE("steps of one row need not stand together") {
  MadeUp steps({StepOf("a.0", v1::Step::DONE), StepOf("b.0", v1::Step::DONE),
                StepOf("a.1", v1::Step::READY, {"b.0"})});
  const auto rows = RowsOf(steps, "");
  REQUIRE(PathsOf(rows) == "a b");
  CHECK(rows[0].steps() == 2);
  CHECK(rows[0].after_size() == 1);
}

TEST_CASE("a step that cannot be read fails the level") {
  MadeUp steps = Some();
  steps.Damage(2);
  StepLevel level(steps, "", v1::Step::STATE_UNSPECIFIED);
  const auto taken = level.Take(0, [](v1::StepRow*) { return true; });
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Code::kDataLoss);
}

}  // namespace
}  // namespace dfsmr
